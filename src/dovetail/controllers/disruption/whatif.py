"""What would become of pods if their nodes were gone: asked of the solver, nothing is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.controllers.context import Context
from dovetail.controllers.disruption.unanswered import Unanswered
from dovetail.controllers.planner import Planner
from dovetail.controllers.provisioning.intake import Intake
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import Command
from dovetail.disrupt.obstacles import obstacle
from dovetail.disrupt.pods import unbound
from dovetail.model.problem import Problem

NO_ANSWER = "No plan could be made for its pods ({})"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The command that would empty the nodes, or why there is none."""

    command: Command | None
    obstacle: str = ""


class WhatIf:
    """Imagines nodes away. Pending pods and those of other nodes on their way out are in every question."""

    def __init__(self, context: Context, planner: Planner, intake: Intake, deadline: int) -> None:
        self._context = context
        self._planner = planner
        self._intake = intake
        self._deadline = deadline
        self._unanswered = Unanswered(context)

    async def without(self, views: Sequence[NodeView], reason: str) -> Outcome:
        """How to delete these nodes for that reason so that each of their pods has a place first.

        A question that raises, or that the solver has no answer to, is an obstacle to these nodes alone.
        """
        names = [view.name for view in views]
        if cause := self._unanswered.rests(names):
            return Outcome(None, NO_ANSWER.format(cause))
        try:
            moved = {pod.key: view.name for view in views for pod in view.moving}
            problem = self._problem(views)
            plan = await self._planner.plan(problem, self._deadline)
            found = obstacle(problem, plan, moved)
        except Exception as error:
            return Outcome(None, NO_ANSWER.format(self._unanswered.failed(names, error)))
        self._unanswered.answered(names)
        if found:
            return Outcome(None, found)
        replacements = tuple(claim for claim in plan.claims if not moved.keys().isdisjoint(claim.pods))
        used = tuple(name for name, pods in plan.existing.items() if not moved.keys().isdisjoint(pods))
        return Outcome(Command(reason, tuple(views), replacements, used))

    def _problem(self, views: Sequence[NodeView]) -> Problem:
        places = self._intake.places()
        waiting, _ = self._intake.waiting(places)
        coming = [unbound(pod) for view in views for pod in view.moving]
        known = {pod.key for pod in coming}
        others = [pod for pod in (*waiting, *self._intake.moving()) if pod.key not in known]
        leaving = frozenset(name for view in views for name in (view.claim.metadata.name, view.name))
        return self._intake.problem((*coming, *others), places, leaving)
