"""`dovetail check aws`: what is missing in an account, per action, and how it is reported."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.clock import SECOND
from dovetail.cli.check import print_findings
from dovetail.cli.main import BAD_INPUT, run
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.fake import Account, MemoryAws, Options
from dovetail.cloud.aws.fake.gate import GateOptions
from dovetail.cloud.aws.permissions import FREE, PERMISSIONS, QUOTAS, SHIFTS
from dovetail.cloud.aws.preflight.account import Wanted, preflight
from dovetail.cloud.aws.preflight.finding import Finding, Verdict, failed
from dovetail.cloud.aws.quota.quotas import read as read_quotas
from dovetail.cloud.catalog import store
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from tests.unit.karpenters_policy import BEYOND

REGION, CLUSTER = "ap-northeast-2", "demo"
START = 1_772_409_600 * SECOND
USUAL = Account.usual(REGION, CLUSTER)
WANTED = Wanted(CLUSTER, queue=CLUSTER)
CLASS = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
"""


def node_class(**spec: Any) -> EC2NodeClass:
    terms = [{"tags": {"karpenter.sh/discovery": CLUSTER}}]
    usual = {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
    }
    return decode({"metadata": {"name": "default"}, "spec": {**usual, **spec}}, EC2NodeClass)


def found(
    wanted: Wanted = WANTED,
    *classes: EC2NodeClass,
    account: Account = USUAL,
    denied: tuple[str, ...] = (),
    spoil: Callable[[MemoryAws], None] = lambda _: None,
) -> dict[str, Finding]:
    """What was found out, by subject."""
    answer: list[tuple[Finding, ...]] = []

    async def main(clock: VirtualClock) -> None:
        aws = MemoryAws(clock, 7, account, Options())
        aws.gate.options = GateOptions(denied=frozenset(denied))
        spoil(aws)
        answer.append(await preflight(aws, clock, wanted, classes))
        # Nothing is left behind, and nothing was started.
        assert not await aws.ec2.describe_instances() if "ec2:DescribeInstances" not in denied else True
        assert not aws.iam.profiles
        if "ec2:DescribeLaunchTemplates" not in denied:
            assert not await aws.ec2.describe_launch_templates(())

    run_virtual(main, start=START)
    return {item.subject: item for item in answer[0]}


def test_an_account_where_nothing_is_missing() -> None:
    findings = found(WANTED, node_class())
    assert not failed(findings.values())
    assert findings["credentials"].detail.startswith("arn:aws:sts::123456789012:assumed-role/")
    assert findings["EC2NodeClass default: dry run"].verdict is Verdict.FINE
    assert findings["ec2:RunInstances"].verdict is Verdict.FINE
    actions = {item.action for item in PERMISSIONS if item.only_with not in OPTIONAL} - FREE
    assert actions <= set(findings)


OPTIONAL = (QUOTAS, SHIFTS)
# A try would change something, or needs what it would change.
UNTRIED = {
    *("ec2:CreateTags", "ec2:RebootInstances", "ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"),
    "sqs:DeleteMessage",
} | {f"iam:{verb}InstanceProfile" for verb in ("Create", "Tag", "AddRoleTo", "RemoveRoleFrom", "Delete")}
SPARED = {item.action for item in PERMISSIONS if item.without}
TRIED = sorted(
    {item.action for item in PERMISSIONS if item.only_with not in OPTIONAL} - FREE - UNTRIED - SPARED
)


@pytest.mark.parametrize("action", TRIED)
def test_the_missing_permission_is_named(action: str) -> None:
    findings = found(WANTED, node_class(), denied=(action,))
    bad = failed(findings.values())
    assert bad
    assert any(action in f"{item.subject} {item.detail}" for item in bad)
    assert all(item.area in ("permission", "class") for item in bad)


@pytest.mark.parametrize("action", sorted(SPARED))
def test_permissions_that_are_not_needed_by_all_are_reported_with_what_is_lost(action: str) -> None:
    finding = found(WANTED, node_class(), denied=(action,))[action]
    assert finding.verdict is Verdict.UNSURE
    assert finding.remedy.startswith("optional: without it ")


def test_the_policy_of_karpenter_is_enough() -> None:
    findings = found(WANTED, node_class(), denied=BEYOND)
    assert not failed(findings.values())
    assert findings["EC2NodeClass default: dry run"].verdict is Verdict.FINE
    # What it lacks is reported all the same.
    assert findings["ec2:DescribeInstanceStatus"].verdict is Verdict.UNSURE


def test_without_a_class_launches_are_not_tried() -> None:
    findings = found()
    assert findings["ec2:CreateFleet"].verdict is Verdict.UNTRIED
    assert "-f" in findings["ec2:CreateFleet"].detail
    assert findings["ec2:TerminateInstances"].verdict is Verdict.UNTRIED
    assert "only for node repair that reboots" in findings["ec2:RebootInstances"].detail


def refusing(code: str, message: str = "why") -> Callable[[MemoryAws], None]:
    def spoil(aws: MemoryAws) -> None:
        async def refuse() -> Any:
            raise AwsError("GetCallerIdentity", code, message)

        aws.sts.get_caller_identity = refuse  # type: ignore[method-assign]  # the twin always knows who asks

    return spoil


@pytest.mark.parametrize("code", ["NoCredentials", "ExpiredToken", "InvalidClientTokenId"])
def test_no_identity_ends_the_search_and_says_how_to_get_one(code: str) -> None:
    findings = found(spoil=refusing(code))
    assert list(findings) == ["credentials"]
    only = findings["credentials"]
    assert (only.area, only.verdict) == ("identity", Verdict.MISSING)
    assert "Pod Identity" in only.remedy and "eks.amazonaws.com/role-arn" in only.remedy


def test_no_way_to_aws_is_not_a_missing_identity() -> None:
    findings = found(spoil=refusing("RequestTimeout", "Connect timeout"))
    only = findings["sts:GetCallerIdentity"]
    assert (only.area, only.verdict) == ("endpoint", Verdict.UNREACHABLE)
    assert "VPC endpoint" in only.remedy


def test_the_role_of_a_node_is_suspicious() -> None:
    def spoil(aws: MemoryAws) -> None:
        known = aws.sts.get_caller_identity

        async def as_node() -> Any:
            arn = "arn:aws:sts::123456789012:assumed-role/demo-NodeInstanceRole-1/i-0123"
            return replace(await known(), arn=arn)

        aws.sts.get_caller_identity = as_node  # type: ignore[method-assign]  # as another role

    assert found(spoil=spoil)["credentials"].verdict is Verdict.UNSURE


def unreachable(service: str, call: str) -> Callable[[MemoryAws], None]:
    def spoil(aws: MemoryAws) -> None:
        async def refuse(*_: object) -> Any:
            raise AwsError(call, "RequestTimeout", "Connect timeout on endpoint URL")

        setattr(getattr(aws, service), call, refuse)

    return spoil


@pytest.mark.parametrize(
    ("service", "call", "action"),
    [
        ("pricing", "on_demand", "pricing:GetProducts"),
        ("ssm", "get_parameter", "ssm:GetParameter"),
        ("iam", "list_instance_profiles", "iam:ListInstanceProfiles"),
        ("sqs", "receive", "sqs:ReceiveMessage"),
    ],
)
def test_an_endpoint_without_a_route_has_a_message_of_its_own(service: str, call: str, action: str) -> None:
    finding = found(spoil=unreachable(service, call))[action]
    assert (finding.area, finding.verdict) == ("endpoint", Verdict.UNREACHABLE)


def test_an_isolated_vpc_asks_for_no_prices() -> None:
    wanted = replace(WANTED, isolated_vpc=True)
    assert "pricing:GetProducts" not in found(wanted, spoil=unreachable("pricing", "on_demand"))


def test_in_an_isolated_vpc_types_without_a_price_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "list prices" not in found()
    isolated = replace(WANTED, isolated_vpc=True)
    assert found(isolated)["list prices"].verdict is Verdict.UNSURE
    assert "258 of 754 types in ap-northeast-2 are estimates" in found(isolated)["list prices"].detail
    monkeypatch.setattr(store, "unpriced", lambda _: (3, 754))
    finding = found(isolated)["list prices"]
    assert finding.verdict is Verdict.UNSURE
    assert "no price is known of 3 of 754 types in ap-northeast-2, so they are not bought" in finding.detail
    assert "dovetail catalog refresh --region ap-northeast-2" in finding.remedy


def test_a_cluster_that_is_not_there() -> None:
    finding = found(replace(WANTED, cluster="other"))["other"]
    assert finding.verdict is Verdict.MISSING
    assert "there is no EKS cluster 'other' in ap-northeast-2" in finding.detail


def test_an_endpoint_that_is_given_makes_up_for_the_cluster() -> None:
    wanted = replace(WANTED, endpoint="https://demo", version="1.33")
    findings = found(wanted, node_class(), denied=("eks:DescribeCluster",))
    assert findings["eks:DescribeCluster"].verdict is Verdict.UNSURE
    assert findings["EC2NodeClass default: dry run"].verdict is Verdict.FINE


def test_quotas_that_are_small_are_reported_and_not_knowing_them_is_no_fault() -> None:
    def quotas(vcpus: int) -> Callable[[MemoryAws], None]:
        def spoil(aws: MemoryAws) -> None:
            async def small() -> dict[tuple[str, str], int]:
                return {("on-demand", "standard"): vcpus}

            aws.quotas.vcpus = small  # type: ignore[method-assign]  # another account's

        return spoil

    assert found(spoil=quotas(5))["vCPU quota, on-demand"].verdict is Verdict.UNSURE
    assert found(spoil=quotas(640))["vCPU quota, on-demand"].verdict is Verdict.FINE
    denied = found(denied=("servicequotas:ListServiceQuotas",))
    assert denied["servicequotas:ListServiceQuotas"].verdict is Verdict.UNSURE


def test_quotas_are_read_by_their_codes() -> None:
    rows = [
        {"QuotaCode": "L-1216C47A", "Value": 5.0},
        {"QuotaCode": "L-3819A6DF", "Value": 64.0},
        {"QuotaCode": "L-0000000", "Value": 1.0},
        {"QuotaCode": "L-34B43A08"},
    ]
    assert read_quotas(rows) == {("on-demand", "standard"): 5, ("spot", "g"): 64}


def test_queues() -> None:
    assert found(replace(WANTED, queue=""))["interruption queue"].verdict is Verdict.UNSURE
    finding = found(replace(WANTED, queue="else"))["else"]
    assert finding.verdict is Verdict.MISSING
    assert "there is no queue 'else'" in finding.detail


def test_a_tag_that_is_nearly_there_is_named() -> None:
    subnets = tuple(replace(item, tags={"karpenter.sh/discovert": CLUSTER}) for item in USUAL.subnets)
    findings = found(WANTED, node_class(), account=replace(USUAL, subnets=subnets))
    finding = findings["EC2NodeClass default: SubnetsReady"]
    assert finding.verdict is Verdict.MISSING
    assert "found key 'karpenter.sh/discovert'" in finding.detail


def test_faults_of_a_class_are_reported() -> None:
    findings = found(WANTED, node_class(userData="x" * 17_000))
    assert findings["EC2NodeClass default: UserDataSizeLimitExceeded"].verdict is Verdict.MISSING


def test_json_is_all_that_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    findings = tuple(found(replace(WANTED, queue="else")).values())
    print_findings(findings, "json")
    printed = json.loads(capsys.readouterr().out)
    assert printed["ready"] is False
    assert len(printed["findings"]) == len(findings)


def test_the_table_ends_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    print_findings((Finding("queue", "q", Verdict.MISSING, "there is none [x]", "make it"),), "table")
    printed = capsys.readouterr().out
    assert "there is none [x]" in printed and "make it" in printed and "1 missing." in printed
    print_findings((Finding("queue", "q", Verdict.FINE),), "table")
    assert "Nothing is missing." in capsys.readouterr().out


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials, no region, no profile, no machine that would give any."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "CLUSTER_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--cluster-name: the cluster's name is missing"),
        (("--cluster-name", "demo"), "AWS_REGION"),
        (("--cluster-name", "demo", "--region", "eu-west-1", "-f", "nothing.yaml"), "nothing.yaml"),
    ],
)
def test_what_is_missing_in_the_call(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", "aws", *arguments]) == BAD_INPUT
    assert words in capsys.readouterr().err


@pytest.mark.usefixtures("bare")
def test_without_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "aws", "--cluster-name", "demo", "--region", "eu-west-1", "-o", "json"]) == BAD_INPUT
    printed = json.loads(capsys.readouterr().out)
    assert [item["subject"] for item in printed["findings"]] == ["credentials"]
    assert "NoCredentials" in printed["findings"][0]["detail"]


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("command", [("check", "aws", "--cluster-name", "demo"), ("catalog", "refresh")])
def test_without_the_libraries_of_aws(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "dovetail.cloud.aws.live.cloud", raising=False)
    monkeypatch.setitem(sys.modules, "aiobotocore", None)
    monkeypatch.setitem(sys.modules, "aiobotocore.session", None)
    assert run([*command, "--region", "eu-west-1"]) == BAD_INPUT
    refused = capsys.readouterr().err
    assert "asking AWS needs aiobotocore, which is not installed" in refused
    assert "pip install 'dovetail[aws]'" in refused


@pytest.mark.usefixtures("bare")
def test_manifests_without_a_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    assert run(["check", "aws", "--cluster-name", "demo", "-f", str(file)]) == BAD_INPUT
    assert "hold no EC2NodeClass" in capsys.readouterr().err


def test_a_slip_in_the_name_of_a_check_is_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["check", "asw"]) == BAD_INPUT
    assert "did you mean dovetail check aws?" in capsys.readouterr().err
    Path("asw").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    assert run(["check", "asw"]) == 0
