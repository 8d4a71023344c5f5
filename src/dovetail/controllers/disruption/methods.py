"""The ways to disrupt nodes, each of which proposes one command and validates it later."""

from __future__ import annotations

from typing import Protocol

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.controllers.context import Context
from dovetail.disrupt import emptiness
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import Command, Decision
from dovetail.disrupt.pods import Budgets


class Method(Protocol):
    """One way. The controller asks them in order; the first that proposes a command acts."""

    def decide(self, views: tuple[NodeView, ...]) -> Decision:
        """What it would do now, and what it has to say about nodes that it leaves alone."""

    def validate(self, command: Command, views: tuple[NodeView, ...]) -> Command | None:
        """What is left of the command after the quiet period; None when nothing is."""


class Emptiness:
    """Deletes nodes that nothing would have to leave."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def decide(self, views: tuple[NodeView, ...]) -> Decision:
        state = self._context.state
        return emptiness.decide(
            views, state.all(NodePool), Budgets(state.all(PodDisruptionBudget)), self._context.clock.now()
        )

    def validate(self, command: Command, views: tuple[NodeView, ...]) -> Command | None:
        state = self._context.state
        return emptiness.validate(
            command,
            views,
            state.all(NodePool),
            Budgets(state.all(PodDisruptionBudget)),
            self._context.clock.now(),
        )
