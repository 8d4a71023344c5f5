"""What the AWS adapter reads that moto does not answer, and how failures become the port's errors."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime
from unittest import mock

import pytest

from dovetail.base.errors import InputError
from dovetail.cloud.aws.errors import AwsError, Refusal, refusal
from dovetail.cloud.aws.live import connect, read

_NO_SERVER = "http://127.0.0.1:9"  # the discard port: nothing listens there


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("UnauthorizedOperation", Refusal.UNAUTHORIZED),
        ("ExpiredTokenException", Refusal.UNAUTHORIZED),
        ("RequestLimitExceeded", Refusal.THROTTLED),
        ("InvalidInstanceID.NotFound", Refusal.NOT_FOUND),
        ("InvalidLaunchTemplateName.NotFoundException", Refusal.NOT_FOUND),
        ("EntityAlreadyExists", Refusal.EXISTS),
        ("InternalError", Refusal.SERVER),
        ("503", Refusal.SERVER),
        ("404", Refusal.REQUEST),
        ("InvalidParameterValue", Refusal.REQUEST),
    ],
)
def test_classes_of_codes(code: str, expected: Refusal) -> None:
    assert refusal(code) is expected
    assert str(AwsError("CreateFleet", code, "why")) == f"CreateFleet: {code}: why"


def test_status_checks_and_events() -> None:
    at = datetime(2026, 3, 2, 21, tzinfo=UTC)
    answer = {
        "InstanceId": "i-1",
        "InstanceStatus": {"Details": [{"Name": "reachability", "Status": "failed", "ImpairedSince": at}]},
        "SystemStatus": {"Details": [{"Name": "reachability", "Status": "passed"}]},
        "Events": [
            {"Code": "instance-stop", "Description": "[Completed] The instance is old", "NotBefore": at},
            {"Code": "system-reboot", "Description": "The host needs a reboot", "NotBefore": at},
        ],
    }
    found = [(check.category, check.since) for check in read.status_checks(answer)]
    seconds = int(at.timestamp()) * 1_000_000_000
    assert found == [("instance_status", seconds), ("event_status", seconds)]


def test_errors_of_a_fleet() -> None:
    override = {"InstanceType": "m5.large", "AvailabilityZone": "us-east-1a", "SubnetId": "subnet-1"}
    answer = read.fleet(
        {
            "FleetId": "fleet-1",
            "Errors": [
                {
                    "ErrorCode": "InsufficientInstanceCapacity",
                    "ErrorMessage": "none left",
                    "Lifecycle": "spot",
                    "LaunchTemplateAndOverrides": {"Overrides": override},
                }
            ],
        }
    )
    (error,) = answer.errors
    assert error.pool == ("spot", "m5.large", "us-east-1a") and error.subnet == "subnet-1"


@pytest.mark.parametrize("keys", [True, False])
def test_no_answer_and_no_credentials(keys: bool, tmp_path: object) -> None:
    environ = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    if keys:
        environ |= {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}

    async def call() -> None:
        async with connect({"AWS_REGION": "us-east-1"}, endpoint=_NO_SERVER) as aws:
            await aws.sts.get_caller_identity()

    with mock.patch.dict(os.environ, environ, clear=True), pytest.raises(AwsError) as raised:
        asyncio.run(call())
    assert raised.value.refusal is (Refusal.UNREACHABLE if keys else Refusal.UNAUTHORIZED)


def test_a_region_is_needed(tmp_path: object) -> None:
    async def call() -> None:
        async with connect({}):
            pass

    environ = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    with mock.patch.dict(os.environ, environ, clear=True), pytest.raises(InputError, match="AWS region"):
        asyncio.run(call())


def test_only_who_runs_on_aws_loads_its_libraries() -> None:
    code = (
        "import sys, dovetail.cloud.aws.api, dovetail.cloud.aws.fake, dovetail.cli.main;"
        "sys.exit(any(name.partition('.')[0] in ('aiobotocore', 'botocore') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
