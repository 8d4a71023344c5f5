"""Accounts of both twins of the AWS port, alike as far as the suite looks."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from dovetail.cloud.aws.api import Aws
from dovetail.cloud.aws.memory import Account, MemoryAws, Options
from dovetail.cloud.aws.memory.account import AMAZON
from dovetail.cloud.aws.memory.machines import LifeOptions
from dovetail.cloud.simulated import Uniform
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
