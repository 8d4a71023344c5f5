"""Renews nodes of static pools: one for one, the new one first."""

from __future__ import annotations

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.controllers.context import Context
from dovetail.controllers.static.claims import planned, room
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import DRIFTED, EXPIRED, Command, Decision
from dovetail.disrupt.drift import drifted_since
from dovetail.disrupt.expiry import expired_since
from dovetail.disrupt.pods import Budgets
from dovetail.disrupt.rollout import Due, Rollout, Rules, rollout
from dovetail.disrupt.static import is_static


class StaticReplacement:
    """One node at a time, those due for longest first. Above its number the pool may go up to its limit."""

    quiet = 0  # what is due does not go away by waiting

    def __init__(self, context: Context, reason: str, due: Due) -> None:
        self._context = context
        self.reason = reason
        self._due = due

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

    async def validate(self, command: Command, views: tuple[NodeView, ...]) -> Command | None:
        """The same command, if nothing came up meanwhile."""
        turn = self._turn(views)
        free = {view.claim.metadata.uid for view in (*turn.empty, *turn.loaded)}
        return command if all(view.claim.metadata.uid in free for view in command.candidates) else None

    def _turn(self, views: tuple[NodeView, ...]) -> Rollout:
        state, now = self._context.state, self._context.clock.now()
        rules = Rules(state.all(NodePool), Budgets(state.all(PodDisruptionBudget)), now)
        return rollout(views, self._due, self.reason, rules)


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
