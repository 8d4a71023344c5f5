"""Renews nodes of pools with a fixed number of them: one for one, the new one first."""

from __future__ import annotations

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.controllers.context import Context
from dovetail.controllers.fixed.claims import planned, room
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import DRIFTED, EXPIRED, Command, Decision
from dovetail.disrupt.drift import drifted_since
from dovetail.disrupt.expiry import expired_since
from dovetail.disrupt.fixed import is_fixed
from dovetail.disrupt.pods import Budgets
from dovetail.disrupt.rollout import Due, Rollout, Rules, rollout


class FixedReplacement:
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


def fixed_drift(context: Context) -> FixedReplacement:
    """Nodes that drifted."""
    return FixedReplacement(
        context, DRIFTED, lambda view: drifted_since(view) if is_fixed(view.pool) else None
    )


def fixed_expiry(context: Context) -> FixedReplacement:
    """Nodes that reached their age, where the pool wants a replacement first."""

    def due(view: NodeView) -> int | None:
        return expired_since(view, context.clock.now()) if is_fixed(view.pool) else None

    return FixedReplacement(context, EXPIRED, due)
