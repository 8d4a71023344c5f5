"""Renews nodes of static pools: one for one, the new one first."""

from __future__ import annotations

from dovetail.controllers.context import Context
from dovetail.controllers.disruption.turns import Turns
from dovetail.controllers.static.claims import planned, room
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import DRIFTED, EXPIRED, Command, Decision
from dovetail.disrupt.drift import drifted_since
from dovetail.disrupt.expiry import expired_since
from dovetail.disrupt.static import is_static


class StaticReplacement(Turns):
    """One node at a time, those due for longest first. Above its number the pool may go up to its limit."""

    async def decide(self, views: tuple[NodeView, ...]) -> Decision:
        """See the protocol."""
        turn = self._turn(views)
        for view in (*turn.empty, *turn.loaded):
            pool = view.pool
            if pool is None or not room(self._context, pool):
                continue
            wanted = planned(self._context, pool)
            if wanted is not None and not self._context.brakes.launches_paused(pool):
                return Decision(Command(self.reason, (view,), (wanted,)), turn.notes)
        return Decision(None, turn.notes)


def static_drift(context: Context) -> StaticReplacement:
    """Nodes that drifted."""
    return StaticReplacement(
        context, DRIFTED, lambda view: drifted_since(view) if is_static(view.pool) else None
    )


def static_expiry(context: Context) -> StaticReplacement:
    """Nodes that reached their age, where the pool wants a replacement first."""

    def due(view: NodeView) -> int | None:
        return expired_since(view, context.clock.now()) if is_static(view.pool) else None

    return StaticReplacement(context, EXPIRED, due)
