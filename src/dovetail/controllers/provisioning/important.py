"""Where limits do not allow all that waits, pods of a higher priority come first. Pure.

A plan places as much as it can for the least money, whoever it is for: of ten pods of no priority and two of
a high one that need another architecture, under a limit of 8 CPUs, it bought for four of the ten, and the
two had no node for ever.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from dovetail.base.clock import SECOND
from dovetail.explain.aftermath import aftermath
from dovetail.model.plan import Plan, PlannedClaim, Unschedulable
from dovetail.model.problem import Problem

# Priorities at which it is asked what is left for lower ones: clusters have three or four of them.
MOST = 4
LITTLE = SECOND // 20  # nanoseconds of work for an answer of which only the placed pods count


@dataclass(frozen=True, slots=True)
class Question:
    """`thorough`: the answer is to be carried out. Of others only the placed pods count, so that they need
    little work.
    """

    problem: Problem
    thorough: bool = False


def by_priority(problem: Problem, plan: Plan) -> Generator[Question, Plan, Plan]:
    """The plan, or where limits bind one that has places for the pods that come first.

    Asks for 2 * MOST + 1 plans at most, and for none where no pod is passed over: first of all pods of the
    highest priority that is left over and of higher ones, then of the others beside them; at last of all
    that have a place by then, at once.
    """
    asked, found = problem, plan
    left: list[Unschedulable] = []
    for number in range(MOST):
        least = _passed_over(asked, found)
        if least is None:
            break
        first = tuple(pod for pod in asked.pods if pod.spec.priority >= least)
        above = yield Question(replace(asked, pods=first))
        if not {pod.key for pod in first}.intersection(found.left).difference(above.left):
            break  # without the others there is no more room for them
        left += above.unschedulable
        names = tuple(replace(claim, name=f"{claim.name}-{number}") for claim in above.claims)
        rest = tuple(pod for pod in asked.pods if pod.spec.priority < least)
        asked = aftermath(asked, replace(above, claims=names), rest)
        found = yield Question(asked)
    if found is plan:
        return plan
    left += found.unschedulable
    over = {one.pod for one in left}
    chosen = replace(problem, pods=tuple(pod for pod in problem.pods if pod.key not in over))
    final = yield Question(chosen, thorough=True)
    together = sorted((*left, *final.unschedulable), key=lambda one: one.pod)
    other = replace(final, unschedulable=tuple(together))
    return max(plan, other, key=lambda one: _served(problem, one))


def _served(problem: Problem, plan: Plan) -> tuple[int, ...]:
    """How many pods have a place, per priority, the highest first."""
    left = set(plan.left)
    counts = dict.fromkeys(sorted({-pod.spec.priority for pod in problem.pods}), 0)
    for pod in problem.pods:
        counts[-pod.spec.priority] += pod.key not in left
    return tuple(counts.values())


def in_order(problem: Problem, claims: Sequence[PlannedClaim]) -> list[PlannedClaim]:
    """Those first that are for the highest priorities, others as they were: claims are made one after the
    other, and a brake may let only some of them be made.
    """
    priorities = {pod.key: pod.spec.priority for pod in problem.pods}
    return sorted(claims, key=lambda claim: -max((priorities.get(key, 0) for key in claim.pods), default=0))


def _passed_over(problem: Problem, plan: Plan) -> int | None:
    """The highest priority of a pod that limits leave over, while one of a lower priority has a place."""
    left = set(plan.left)
    limited = {one.pod for one in plan.unschedulable if one.limited}
    highest = max((pod.spec.priority for pod in problem.pods if pod.key in limited), default=None)
    lowest = min((pod.spec.priority for pod in problem.pods if pod.key not in left), default=None)
    return highest if highest is not None and lowest is not None and lowest < highest else None
