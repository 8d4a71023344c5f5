"""The provider for AWS on an account in memory, with what tests of a whole cluster ask of a cloud."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.eventlog import EventLog
from dovetail.cloud.aws import images, shapes
from dovetail.cloud.aws.launch import Document
from dovetail.cloud.aws.memory import Account, MemoryAws, Options
from dovetail.cloud.aws.memory.account import AMAZON, identifier
from dovetail.cloud.aws.memory.market import MarketOptions
from dovetail.cloud.aws.provider.cloud import AwsCloud
from dovetail.cloud.aws.provider.cloud import Options as CloudOptions
from dovetail.cloud.aws.provider.instances import provider_id
from dovetail.cloud.aws.provider.queue import SqsQueue
from dovetail.cloud.aws.provider.surroundings import Around, Told
from dovetail.cloud.aws.quotas import Quotas
from dovetail.cloud.interruption import InterruptionKind, instance_id
from dovetail.cloud.provider import Instance
from dovetail.cloud.simulated import Limit
from dovetail.simulate.clock import VirtualClock

CLUSTER, VERSION = "demo", "1.33"
PINNED = ("v20250403",)
ROLES = frozenset({"nodes", "travel-node", "controller"})


def account(region: str) -> Account:
    """The usual one, with the roles of the tests' classes and images of a version that is pinned."""
    usual = Account.usual(region, CLUSTER, VERSION)
    found, parameters = list(usual.images), dict(usual.parameters)
    for version in PINNED:
        for item in images.parameters(f"al2023@{version}", VERSION):
            newest = usual.parameters[_latest(item.name, version)]
            known = next(image for image in usual.images if image.id == newest)
            parameters[item.name] = identifier("ami", region, item.name)
            found.append(
                replace(known, id=parameters[item.name], owner=AMAZON, created="2025-04-03T00:00:00.000Z")
            )
    return replace(
        usual, images=tuple(found), parameters=parameters, roles=usual.roles | ROLES, queues=(CLUSTER,)
    )


def _latest(parameter: str, version: str) -> str:
    """The parameter of the newest image of the same kind."""
    pinned = [item.name for item in images.parameters(f"al2023@{version}", VERSION)]
    return images.parameters(f"al2023@{images.LATEST}", VERSION)[pinned.index(parameter)].name


class OnAws(AwsCloud):
    """`aws` is the account."""

    def __init__(
        self,
        clock: VirtualClock,
        log: EventLog,
        region: str,
        limits: tuple[Limit, ...] = (),
        *,
        known: Account | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        options = Options(market=MarketOptions(limits=limits, quotas=quotas or {}))
        self.aws = MemoryAws(clock, 1, known or account(region), options)

        async def version() -> str:
            return VERSION

        async def dns_ip() -> str:
            return "10.100.0.10"

        around = Around(self.aws.eks, clock, region, Told(CLUSTER), version=version, dns_ip=dns_ip)
        super().__init__(self.aws, clock, log, around, CloudOptions(CLUSTER, zonal_shift=True))
        self.queue = SqsQueue(self.aws.sqs, clock, CLUSTER)
        self.fleets: list[Document] = []  # every request, in order
        self.refused: list[str] = []  # the code of every error of an answer
        self._ask = self.aws.ec2.create_fleet
        self.aws.ec2.create_fleet = self._create_fleet  # type: ignore[method-assign]  # to see what is asked
        self._log_of = log
        self._started: list[Callable[[Instance, NodeClaim], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def on_started(self, callback: Callable[[Instance, NodeClaim], None]) -> None:
        """Called right after an instance came into being, before `create` returns."""
        self._started.append(callback)

    def on_terminated(self, callback: Callable[[Instance], None]) -> None:
        """Called once an instance is gone."""

        def gone(found: shapes.Instance) -> None:
            place = provider_id(found.zone, found.id)
            self._log_of.record("instance.terminated", instance=place)
            callback(Instance(place, found.instance_type, found.zone, "", 0, found.image, found.launched))

        self.aws.machines.on_ended.append(gone)

    async def create(self, claim: NodeClaim, node_class: EC2NodeClass) -> Instance:
        """See the port."""
        made = await super().create(claim, node_class)
        for callback in self._started:
            callback(made, claim)
        return made

    async def _create_fleet(
        self, request: Document, *, token: str = "", dry_run: bool = False
    ) -> shapes.FleetAnswer:
        if not dry_run:
            self.fleets.append(request)
        answer = await self._ask(request, token=token, dry_run=dry_run)
        self.refused += [error.code for error in answer.errors]
        return answer

    def interrupt(self, place: str, kind: InterruptionKind) -> None:
        """It happens to the instance."""
        task = asyncio.get_running_loop().create_task(self.aws.interrupt(instance_id(place), kind))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
