"""The cloud's port, with faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.base.errors import CloudError, CreateFailed, InsufficientCapacity
from dovetail.cloud.interruption import InterruptionQueue, Letter
from dovetail.cloud.over import Over
from dovetail.cloud.provider import Instance, Overlay, Provider, as_sold
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.epoch import Epoch

T = TypeVar("T")


class FaultyProvider(Over):
    """A Provider of one process over a good one. What was asked for happens even if the process dies."""

    def __init__(self, provider: Provider, dice: Dice, epoch: Epoch) -> None:
        super().__init__(provider)
        self._dice = dice
        self._epoch = epoch

    async def create(
        self, claim: NodeClaim, node_class: EC2NodeClass, overlay: Overlay = as_sold
    ) -> Instance:
        """See Provider."""
        name = claim.metadata.name
        self._enter("create", name)
        if self._dice.hit(kinds.LAUNCH_FAILURE, "create", name):
            if self._dice.stream(kinds.LAUNCH_FAILURE, "which").random() < 0.5:
                raise InsufficientCapacity("no capacity for any of the offerings")
            raise CreateFailed("the fleet request was refused")
        lost = self._dice.hit(kinds.LAUNCH_TIMEOUT, "create", name)
        crash = self._dice.hit(kinds.LAUNCH_CRASH, "create", name)
        request = asyncio.get_running_loop().create_task(
            self.provider.create(claim, node_class, overlay), name=f"cloud: launch {name}"
        )
        request.add_done_callback(_attended)
        if crash is not None and self._dice.stream(kinds.LAUNCH_CRASH, "when").random() < 0.5:
            await asyncio.sleep(0)  # the request is on its way
            self._epoch.kill(crash.lasts)
        instance = await asyncio.shield(request)
        if crash is not None:
            self._epoch.kill(crash.lasts)
        self._epoch.step()
        if lost is not None:
            raise CreateFailed("the fleet request was not answered in time", reason="LaunchTimeout")
        return instance

    async def delete(self, provider_id: str) -> None:
        """See Provider."""
        await super().delete(provider_id)
        self._epoch.step()

    def known_drift(self, claim: NodeClaim, node_class: Any) -> str | None:  # noqa: ARG002 - of no claim
        """See Provider: as long as the call may fail, it is made."""
        return None

    async def call(self, name: str, about: Any, made: Callable[[], Awaitable[T]]) -> T:
        """See Over."""
        self._enter(name, about.metadata.name if isinstance(about, Object) else about)
        return await made()

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
    """A launch that fails after the process that asked for it died is of no concern."""
    if not request.cancelled():
        request.exception()
