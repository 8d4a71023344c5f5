"""A slow, obvious checker of plans, written from the scheduling rules alone.

It shares no code with the solver. What the scheduler would say comes from `model.filters`, which are proven
against a real scheduler; the rest are plain checks, one small function per rule.
"""

from __future__ import annotations

from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.verify.claim import claim_violations
from dovetail.verify.existing import existing_violations
from dovetail.verify.missed import missed_violations
from dovetail.verify.replay import replay_violations
from dovetail.verify.unused import unused_violations
from dovetail.verify.violation import Violation
from dovetail.verify.whole import whole_violations
from dovetail.verify.worlds import Catalogue

__all__ = ["Violation", "verify"]


def verify(problem: Problem, plan: Plan) -> tuple[Violation, ...]:
    """Every rule that the plan breaks, sorted; empty for a correct plan."""
    found = [*whole_violations(problem, plan)]
    if found:
        # Pods that are unknown or in two places would only cause more of the same below.
        return _sorted(found)
    catalogue = Catalogue(problem)
    for claim in plan.claims:
        found += claim_violations(catalogue, claim)
    found += existing_violations(catalogue, plan)
    if not found:
        found += replay_violations(catalogue, plan)
        found += unused_violations(catalogue, plan)
        found += missed_violations(catalogue, plan)
    return _sorted(found)


def _sorted(found: list[Violation]) -> tuple[Violation, ...]:
    return tuple(sorted(set(found), key=lambda item: (item.rule, item.subject, item.message)))
