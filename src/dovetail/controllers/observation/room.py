"""CapacityBuffers as an observer has them: where units have room, and what would be bought for others."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.api.namespaces import LimitRange
from dovetail.controllers.buffers import Kept
from dovetail.controllers.context import Context
from dovetail.controllers.planner import Planner
from dovetail.controllers.provisioning.intake import Intake
from dovetail.controllers.provisioning.keep import RoomKeeper
from dovetail.model.buffers import replicas, resolve
from dovetail.model.plan import PlannedClaim


class ObservedRoom:
    """Resolves all buffers and places their units anew, each time that it is asked. Nothing is written or
    bought: what would be is reported, once as long as it is the same.
    """

    def __init__(self, context: Context, planner: Planner, intake: Intake, deadline: int) -> None:
        self._context = context
        self._said: tuple[tuple[str, str, str, str], ...] = ()
        self._keeper = RoomKeeper(context, intake, self, lambda problem: planner.plan(problem, deadline))

    async def look(self) -> None:
        """Once. Where no plan can be made all stays as it was."""
        context, state = self._context, self._context.state
        if not context.buffers.enabled:
            return
        there = {buffer.key: buffer for buffer in state.all(CapacityBuffer)}
        for key in context.buffers.known() - there.keys():
            context.buffers.forget(key)
        for buffer in there.values():
            found = resolve(buffer, state.get, state.all(LimitRange))
            wanted = replicas(buffer, found) if found.template else 0
            context.buffers.keep(Kept(buffer, found, wanted))
        await self._keeper.keep(())

    async def buy(self, claims: Sequence[PlannedClaim], _: list[tuple[str, PlannedClaim]]) -> None:
        """Report them."""
        made = tuple((one.pool, one.instance_type, one.zone, one.capacity_type) for one in claims)
        if made and made != self._said:
            self._context.log.record(
                "observed.room",
                nodes=[one.instance_type for one in claims],
                hourly=sum(one.price for one in claims),
            )
        self._said = made
