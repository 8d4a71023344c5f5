"""The ways to disrupt nodes, each of which proposes one command and validates it later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.clock import SECOND
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.moves import MoveBook
from dovetail.controllers.disruption.turns import Turns
from dovetail.controllers.disruption.whatif import WhatIf
from dovetail.disrupt import emptiness
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import DRIFTED, EMPTY, EXPIRED, Command, Decision, Note
from dovetail.disrupt.consolidation.churn import Arrival
from dovetail.disrupt.drift import drifted_since
from dovetail.disrupt.expiry import expired_since
from dovetail.disrupt.pods import budgets_among
from dovetail.disrupt.rollout import Due
from dovetail.disrupt.static import is_static


class Method(Protocol):
    """One way. The controller asks them in order; the first that proposes a command acts."""

    reason: str  # as budgets name it
    quiet: int  # nanoseconds that a command waits before it is validated

    async def decide(self, views: tuple[NodeView, ...]) -> Decision:
        """What it would do now, and what it has to say about nodes that it leaves alone."""

    async def validate(self, command: Command, views: tuple[NodeView, ...]) -> Command | None:
        """What is left of the command after the quiet period; None when nothing is."""


class Emptiness:
    """Deletes nodes that nothing would have to leave."""

    reason = EMPTY
    quiet = 15 * SECOND

    def __init__(self, context: Context) -> None:
        self._context = context

    async def decide(self, views: tuple[NodeView, ...]) -> Decision:
        """See the protocol."""
        state = self._context.state
        return emptiness.decide(
            views,
            state.all(NodePool),
            budgets_among(state.all(PodDisruptionBudget)),
            self._context.clock.now(),
        )

    async def validate(self, command: Command, views: tuple[NodeView, ...]) -> Command | None:
        """See the protocol."""
        state = self._context.state
        return emptiness.validate(
            command,
            views,
            state.all(NodePool),
            budgets_among(state.all(PodDisruptionBudget)),
            self._context.clock.now(),
        )


class Replacement(Turns):
    """Replaces nodes that are due: empty ones together, others one at a time, those due for longest first.

    A node whose pods have no other place does not keep the next one from its turn. Given a book of moves,
    nodes go first whose pods were moved longest ago, and one waits for a while whose pods came to save money.
    """

    def __init__(
        self,
        context: Context,
        what_if: WhatIf,
        reason: str,
        due: Due,
        moves: MoveBook | None,
        *,
        terminates_first: bool = False,
        steady: bool = False,
    ) -> None:
        """`terminates_first`: nodes go first whose pods have no place but in their full reservation."""
        super().__init__(context, reason, due, steady=steady)
        self._what_if = what_if
        self._moves = moves
        self._terminates_first = terminates_first

    def _moved(self, views: tuple[NodeView, ...]) -> Mapping[str, Arrival]:
        return self._moves.lately(views) if self._moves is not None else {}

    async def decide(self, views: tuple[NodeView, ...]) -> Decision:
        """See the protocol."""
        turn = self._turn(views)
        if turn.empty:
            return Decision(Command(self.reason, turn.empty), turn.notes)
        notes = list(turn.notes)
        for view in turn.loaded:
            outcome = await self._what_if.without((view,), self.reason)
            command = outcome.command
            if command is None and self._terminates_first:
                command = (await self._what_if.before_replacement(view, self.reason)).command
            if command is not None:
                return Decision(command, tuple(notes))
            notes.append(Note(view.claim.metadata.name, "DisruptionBlocked", outcome.obstacle))
        return Decision(None, tuple(notes))


def drift(
    context: Context, what_if: WhatIf, moves: MoveBook | None, *, terminates_first: bool = False
) -> Replacement:
    """Nodes that drifted."""

    def due(view: NodeView) -> int | None:
        return None if is_static(view.pool) else drifted_since(view)

    return Replacement(context, what_if, DRIFTED, due, moves, terminates_first=terminates_first, steady=True)


def expiry(context: Context, what_if: WhatIf, moves: MoveBook | None) -> Replacement:
    """Nodes that reached their age, where the pool wants a replacement first."""

    def due(view: NodeView) -> int | None:
        return None if is_static(view.pool) else expired_since(view, context.clock.now())

    return Replacement(context, what_if, EXPIRED, due, moves)
