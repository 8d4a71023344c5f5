"""Accounts of both twins of the AWS port, alike as far as the suite looks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from unittest import mock

from dovetail.cloud.aws.api import Aws
from dovetail.cloud.aws.fake import Account, MemoryAws, Options
from dovetail.cloud.aws.fake.account import AMAZON, DISCOVERY, NUMBER
from dovetail.cloud.aws.fake.machines import LifeOptions
from dovetail.cloud.inmemory import Uniform
from dovetail.runtime.process.clock import WallClock

REGION, CLUSTER = "us-east-1", "demo"
ROLE = f"KarpenterNodeRole-{CLUSTER}"
PARAMETER = "/aws/service/bottlerocket/aws-k8s-1.33/x86_64/latest/image_id"
_AT_ONCE = Uniform(0, 0)


@dataclass(frozen=True, slots=True)
class Settled:
    """A twin, and what its account holds: a subnet and a group tagged for discovery, an image, a queue."""

    aws: Aws
    subnet: str
    zone: str
    group: str
    image: str
    owner: str  # of the image
    send: Callable[[str], Awaitable[None]]  # a message into the queue
    real: bool = True  # False for moto, where it does otherwise than AWS


@contextlib.asynccontextmanager
async def memory_account() -> AsyncIterator[Settled]:
    """The twin in memory, where everything shows at once."""
    account = Account.usual(REGION, CLUSTER)
    aws = MemoryAws(WallClock(), 7, account, Options(life=LifeOptions(_AT_ONCE, _AT_ONCE, _AT_ONCE)))
    subnet = account.subnets[0]

    async def send(body: str) -> None:
        aws.send(body)

    image = account.parameters[PARAMETER]
    yield Settled(aws, subnet.id, subnet.zone, account.security_groups[0].id, image, AMAZON, send)


@contextlib.asynccontextmanager
async def moto_account() -> AsyncIterator[Settled]:
    """The twin over the network, against a server of moto's in this process."""
    fake = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with served() as endpoint, mock.patch.dict(os.environ, fake):
        from dovetail.cloud.aws.live import connect

        async with connect({"AWS_REGION": REGION}, endpoint=endpoint) as aws:
            yield settle(aws)


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The URL of an account without anything of its own, for as long as the block lasts."""
    from moto.core.base_backend import BackendDict
    from moto.core.model_instances import reset_model_data
    from moto.server import ThreadedMotoServer

    BackendDict.reset()
    reset_model_data()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def settle(aws: Aws | None = None) -> Settled:
    """What the account needs is put into moto's own tables: not all of it can be asked for.

    Without `aws` only the account counts, for who asks it in a way of its own.
    """
    ec2, ssm, sqs, eks, iam = (moto_table(name) for name in ("ec2", "ssm", "sqs", "eks", "iam"))
    subnet = min(ec2.describe_subnets(), key=lambda item: item.availability_zone)
    group = ec2.create_security_group(f"{CLUSTER}-nodes", "nodes", vpc_id=subnet.vpc_id)
    image = next(item for item in ec2.describe_images() if item.architecture == "x86_64")
    for resource in (subnet.id, group.id):
        ec2.create_tags([resource], {DISCOVERY: CLUSTER})
    put_parameter(ssm, PARAMETER, image.id)
    queue = sqs.create_queue(CLUSTER, {})
    iam.create_role(ROLE, "{}", "/", None, "", [], None)
    role = f"arn:aws:iam::{NUMBER}:role/eks"
    eks.create_cluster(CLUSTER, role, {"subnetIds": [subnet.id]}, version="1.33")

    async def send(body: str) -> None:
        sqs.send_message(queue.name, body)

    return Settled(
        cast("Aws", aws),
        subnet.id,
        subnet.availability_zone,
        group.id,
        image.id,
        image.owner_id,
        send,
        real=False,
    )


def moto_table(service: str) -> Any:
    """What moto holds of a service in the account."""
    from moto.backends import get_backend

    # IAM knows no regions.
    return get_backend(service)[NUMBER]["aws" if service == "iam" else REGION]


def put_parameter(ssm: Any, name: str, value: str) -> None:
    """A parameter under /aws, where only AWS may put one."""
    from moto.ssm.models import Parameter

    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = Parameter(NUMBER, name, value, "String", None, None, None, now, 1, "text")
    ssm._parameters[name].append(made)
