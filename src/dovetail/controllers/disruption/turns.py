"""Nodes that are due, in turn: what methods have in common that replace them one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.memo import by_identity
from dovetail.controllers.context import Context
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import Command
from dovetail.disrupt.consolidation.churn import Arrival
from dovetail.disrupt.pods import budgets_among
from dovetail.disrupt.rollout import Due, Rollout, Rules, rollout

_LOOKS = 1  # at all nodes, that are remembered: of more, nodes that are gone would stay where all is quiet


class Turns:
    """Whose turn it is, for one reason; `due` says since when a node has to go. `steady`: it says the same of
    a view at any time, so that all views are asked once, and not at each turn.
    """

    quiet = 0  # what is due does not go away by waiting

    def __init__(self, context: Context, reason: str, due: Due, *, steady: bool = False) -> None:
        self._context = context
        self.reason = reason
        self._due = due

        def none_due(views: tuple[NodeView, ...]) -> bool:
            return all(due(view) is None for view in views)

        self._none_due = by_identity(_LOOKS)(none_due) if steady else none_due

    async def validate(self, command: Command, views: tuple[NodeView, ...]) -> Command | None:
        """That command, if nothing came up while its plan was made."""
        turn = self._turn(views)
        free = {view.claim.metadata.uid for view in (*turn.empty, *turn.loaded)}
        return command if all(view.claim.metadata.uid in free for view in command.candidates) else None

    def _turn(self, views: tuple[NodeView, ...]) -> Rollout:
        if self._none_due(views):  # nearly always
            return Rollout((), (), ())
        state, now = self._context.state, self._context.clock.now()
        budgets = budgets_among(state.all(PodDisruptionBudget))
        rules = Rules(state.all(NodePool), budgets, now, self._moved(views))
        return rollout(views, self._due, self.reason, rules)

    def _moved(self, _views: tuple[NodeView, ...]) -> Mapping[str, Arrival]:
        """See Rules; none where it does not matter."""
        return {}
