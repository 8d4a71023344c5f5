"""What would become of pods if their nodes were gone: asked of the solver, nothing is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dovetail.controllers.context import Context
from dovetail.controllers.disruption.unanswered import Unanswered
from dovetail.controllers.planner import Planner
from dovetail.controllers.provisioning.intake import Intake
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import NO_RESERVED_CAPACITY, Command
from dovetail.disrupt.obstacles import obstacle
from dovetail.disrupt.pods import unbound
from dovetail.model import labels
from dovetail.model.offering import InstanceType
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

    async def before_replacement(self, view: NodeView, reason: str) -> Outcome:
        """How to delete a node in a full reservation, whose own place there its pods need.

        An obstacle is none of the user's business: it is said why the pods have no place as things stand.
        """
        reservation = _full_reservation(self._context, view)
        if not reservation:
            return Outcome(None)
        outcome = await self._asked((view,), reason, reservation)
        if outcome.command is None:
            return Outcome(None)
        return Outcome(Command(reason, (view,), terminate_first=NO_RESERVED_CAPACITY))

    async def without(self, views: Sequence[NodeView], reason: str) -> Outcome:
        """How to delete these nodes for that reason so that each of their pods has a place first.

        A question that raises, or that the solver has no answer to, is an obstacle to these nodes alone.
        """
        return await self._asked(views, reason, "")

    async def _asked(self, views: Sequence[NodeView], reason: str, free: str) -> Outcome:
        """The same as if one more machine might start in the reservation `free`, unless that is ""."""
        names = [view.name for view in views]
        if cause := self._unanswered.rests(names):
            return Outcome(None, NO_ANSWER.format(cause))
        try:
            moved = {pod.key: view.name for view in views for pod in view.moving}
            problem = with_room(self._problem(views), free) if free else self._problem(views)
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


def _full_reservation(context: Context, view: NodeView) -> str:
    """The reservation that the node runs in, if it is offered and nothing more may start there; or ""."""
    name = view.claim.metadata.labels.get(labels.RESERVATION_ID, "")
    if view.pool is None or not name:
        return ""
    own = (
        offering
        for kind in context.instance_types(view.pool)
        for offering in kind.offerings
        if offering.reservation_id == name
    )
    return name if any(offering.available and not offering.launchable for offering in own) else ""


def with_room(problem: Problem, reservation: str) -> Problem:
    """The problem if one more machine might start in the reservation."""
    pools = tuple(
        replace(pool, instance_types=tuple(_with_room(kind, reservation) for kind in pool.instance_types))
        for pool in problem.pools
    )
    return replace(problem, pools=pools)


def _with_room(kind: InstanceType, reservation: str) -> InstanceType:
    if all(offering.reservation_id != reservation for offering in kind.offerings):
        return kind
    return replace(
        kind,
        offerings=tuple(
            replace(one, reservation_capacity=one.reservation_capacity + 1)
            if one.reservation_id == reservation
            else one
            for one in kind.offerings
        ),
    )
