"""The provider that buys in production, over an AWS in memory, as the cloud of a simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import Clock
from dovetail.base.eventlog import EventLog
from dovetail.cloud.aws import shapes
from dovetail.cloud.aws.memory import MemoryAws
from dovetail.cloud.aws.provider import Around, AwsCloud, Options, SqsQueue, Told
from dovetail.cloud.aws.provider.instances import provider_id
from dovetail.cloud.interruption import InterruptionKind, InterruptionQueue, instance_id
from dovetail.cloud.provider import Instance
from dovetail.simulate.clouds import Part

_DNS = "10.100.0.10"


class _Heard(AwsCloud):
    """Tells of every launch before and after it."""

    asked: Callable[[str], None]
    started: Callable[[Instance, NodeClaim], None]

    async def create(self, claim: NodeClaim, node_class: EC2NodeClass) -> Instance:
        """See the port."""
        self.asked(claim.metadata.name)
        instance = await super().create(claim, node_class)
        self.started(instance, claim)
        return instance


class CloudOnAws:
    """Implements `clouds.Cloud`. `aws` is the account, `provider` what the controllers see."""

    def __init__(
        self, aws: MemoryAws, clock: Clock, log: EventLog, *, cluster: str, version: str, queue: str
    ) -> None:
        async def told_version() -> str:
            return version

        async def told_dns() -> str:
            return _DNS

        around = Around(aws.eks, clock, aws.region, Told(cluster), version=told_version, dns_ip=told_dns)
        self.aws = aws
        self.provider = _Heard(aws, clock, log, around, Options(cluster))
        self.provider.asked = self._ask
        self.provider.started = self._begin
        self.queue: InterruptionQueue = SqsQueue(aws.sqs, clock, queue)
        self._log = log
        self._there: dict[str, Instance] = {}  # those that were launched for a claim, by instance id
        self._ends: set[asyncio.Task[None]] = set()
        self._asked: list[Callable[[str, Sequence[Instance]], object]] = []
        self._started: list[Callable[[Instance, NodeClaim], None]] = []
        self._terminated: list[Callable[[Instance], None]] = []
        aws.machines.on_ended.append(self._end)

    def on_asked(self, callback: Callable[[str, Sequence[Instance]], object]) -> None:
        """See Cloud."""
        self._asked.append(callback)

    def on_started(self, callback: Callable[[Instance, NodeClaim], None]) -> None:
        """See Cloud."""
        self._started.append(callback)

    def on_terminated(self, callback: Callable[[Instance], None]) -> None:
        """See Cloud."""
        self._terminated.append(callback)

    async def start(self) -> None:
        """See Cloud: prices are heard of."""
        await self.provider.start()

    def parts(self) -> Iterable[Part]:
        """See Cloud."""
        yield "aws: spot pools", self.aws.run()
        yield "aws: provider", self.provider.run()

    async def list(self) -> Sequence[Instance]:
        """See Cloud."""
        return self._all()

    async def delete(self, provider_id: str) -> None:
        """See Cloud."""
        machine = self.aws.machines.there(instance_id(provider_id))
        if machine is not None:
            self.aws.machines.terminate(machine)

    def interrupt(self, provider_id: str, kind: InterruptionKind) -> None:
        """See Cloud."""
        self._log.record("instance.interrupted", instance=provider_id, kind=str(kind))
        ends = self.aws.interrupt(instance_id(provider_id), kind)
        task = asyncio.get_running_loop().create_task(ends, name=f"aws: interrupt {provider_id}")
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    def impair(self, provider_id: str, category: str) -> None:
        """See Cloud."""
        self.aws.impair(instance_id(provider_id), category)

    def _all(self) -> Sequence[Instance]:
        return [self._now(key, instance) for key, instance in self._there.items()]

    def _now(self, identifier: str, instance: Instance) -> Instance:
        machine = self.aws.machines.there(identifier)
        return replace(instance, terminating=machine is None or machine.ending)

    def _ask(self, claim: str) -> None:
        for tell in self._asked:
            tell(claim, self._all())

    def _begin(self, instance: Instance, claim: NodeClaim) -> None:
        identifier = instance_id(instance.provider_id)
        if identifier in self._there:
            return  # an answer that was lost once, and heard now
        self._there[identifier] = instance
        for tell in self._started:
            tell(instance, claim)

    def _end(self, found: shapes.Instance) -> None:
        instance = self._there.pop(found.id, None)
        if instance is None:
            return
        self._log.record("instance.terminated", instance=provider_id(found.zone, found.id))
        for tell in self._terminated:
            tell(instance)
