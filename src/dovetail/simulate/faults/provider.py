"""The cloud's port, with faults."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.errors import CloudError, CreateFailed, InsufficientCapacity
from dovetail.cloud.interruption import Impairment, InterruptionQueue, Letter
from dovetail.cloud.provider import Instance, NodeClassResolution, Provider
from dovetail.cloud.repair import RepairPolicy
from dovetail.model.offering import InstanceType
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.epoch import Epoch


class FaultyProvider:
    """A Provider of one process over a good one. What was asked for happens even if the process dies."""

    node_class_kinds: tuple[tuple[str, str], ...]
    repair_policies: tuple[RepairPolicy, ...]

    def __init__(self, provider: Provider, dice: Dice, epoch: Epoch) -> None:
        self.node_class_kinds = provider.node_class_kinds
        self.repair_policies = provider.repair_policies
        self._provider = provider
        self._dice = dice
        self._epoch = epoch

    def instance_types(self, node_class: EC2NodeClass | None) -> tuple[InstanceType, ...]:
        """See Provider."""
        return self._provider.instance_types(node_class)

    def volume_price(self, node_class: EC2NodeClass | None) -> int:
        """See Provider."""
        return self._provider.volume_price(node_class)

    def commons(self) -> Mapping[str, int]:
        """See Provider."""
        return self._provider.commons()

    async def create(self, claim: NodeClaim, node_class: EC2NodeClass) -> Instance:
        """See Provider."""
        name = claim.metadata.name
        self._enter("create", name)
        if self._dice.hit(kinds.LAUNCH_FAILURE, "create", name):
            if self._dice.stream(kinds.LAUNCH_FAILURE, "which").random() < 0.5:
                raise InsufficientCapacity("no capacity for any of the offerings")
            raise CreateFailed("the fleet request was refused")
        lost = self._dice.hit(kinds.LAUNCH_TIMEOUT, "create", name)
        request = asyncio.get_running_loop().create_task(
            self._provider.create(claim, node_class), name=f"cloud: launch {name}"
        )
        request.add_done_callback(_attended)
        instance = await asyncio.shield(request)
        self._epoch.step()
        if lost is not None:
            raise CreateFailed("the fleet request was not answered in time", reason="LaunchTimeout")
        return instance

    async def delete(self, provider_id: str) -> None:
        """See Provider."""
        self._enter("delete", provider_id)
        await self._provider.delete(provider_id)
        self._epoch.step()

    async def get(self, provider_id: str) -> Instance:
        """See Provider."""
        self._enter("get", provider_id)
        return await self._provider.get(provider_id)

    async def list(self) -> Sequence[Instance]:
        """See Provider."""
        self._enter("list", "instances")
        return await self._provider.list()

    async def drifted(self, claim: NodeClaim, node_class: EC2NodeClass) -> str:
        """See Provider."""
        self._enter("drifted", claim.metadata.name)
        return await self._provider.drifted(claim, node_class)

    async def resolve(self, node_class: EC2NodeClass) -> NodeClassResolution:
        """See Provider."""
        self._enter("resolve", node_class.metadata.name)
        return await self._provider.resolve(node_class)

    async def release(self, node_class: EC2NodeClass) -> None:
        """See Provider."""
        self._enter("release", node_class.metadata.name)
        await self._provider.release(node_class)

    async def tidy(self, in_use: frozenset[str]) -> None:
        """See Provider."""
        self._enter("tidy", "instance profiles")
        await self._provider.tidy(in_use)

    async def mark(self, claim: NodeClaim, node: str) -> Mapping[str, str]:
        """See Provider."""
        self._enter("mark", claim.metadata.name)
        return await self._provider.mark(claim, node)

    async def impairments(self) -> Sequence[Impairment]:
        """See Provider."""
        self._enter("impairments", "instances")
        return await self._provider.impairments()

    def shifted_zones(self) -> Mapping[str, str]:
        """See Provider."""
        return self._provider.shifted_zones()

    def discovered(self, instance_type: str, image: str, memory: int) -> None:
        """See Provider."""
        self._provider.discovered(instance_type, image, memory)

    def out_of_capacity(self, claim: NodeClaim) -> None:
        """See Provider."""
        self._provider.out_of_capacity(claim)

    def _enter(self, call: str, subject: str) -> None:
        self._epoch.step()
        if self._dice.hit(kinds.CLOUD_THROTTLE, call, f"{call} {subject}"):
            raise CloudError("RequestLimitExceeded: request limit exceeded")


class FaultyQueue:
    """An InterruptionQueue of one process over a good one."""

    def __init__(self, queue: InterruptionQueue, dice: Dice, epoch: Epoch) -> None:
        self._queue = queue
        self._dice = dice
        self._epoch = epoch

    async def receive(self) -> Sequence[Letter]:
        """See InterruptionQueue."""
        self._enter("receive")
        letters = await self._queue.receive()
        self._epoch.step()
        return letters

    async def delete(self, letter: Letter) -> None:
        """See InterruptionQueue."""
        self._enter("delete letter")
        await self._queue.delete(letter)
        self._epoch.step()

    def _enter(self, call: str) -> None:
        self._epoch.step()
        if self._dice.hit(kinds.CLOUD_THROTTLE, call):
            raise CloudError("RequestThrottled: too many requests for the queue")


def _attended(request: asyncio.Task[Instance]) -> None:
    """A launch that fails after the process that asked for it died concerns nobody."""
    if not request.cancelled():
        request.exception()
