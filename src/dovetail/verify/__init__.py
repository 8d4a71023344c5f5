"""A slow, obvious checker of plans, written from the scheduling rules alone.

It shares no code with the solver. What the scheduler would say comes from `model.filters`, which are proven
against a real scheduler; the rest are plain checks, one small function per rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import fields

from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Problem
from dovetail.verify.claim import claim_violations
from dovetail.verify.existing import existing_violations
from dovetail.verify.missed import missed_violations
from dovetail.verify.replay import replay_violations
from dovetail.verify.unused import unused_violations
from dovetail.verify.violation import Violation
from dovetail.verify.whole import whole_violations
from dovetail.verify.worlds import Catalogue, looks_at_names

__all__ = ["Violation", "verify"]


# What of a claim its offer does not follow from, and is neither a name nor a mapping.
_OFFERED = {"pool", "requirements", "labels", "instance_types"}
_PLAIN = tuple(
    one.name for one in fields(PlannedClaim) if one.name not in {*_OFFERED, "name", "pods", "requests"}
)


def verify(problem: Problem, plan: Plan) -> tuple[Violation, ...]:
    """Every rule that the plan breaks, sorted; empty for a correct plan."""
    found = [*whole_violations(problem, plan)]
    if found:
        # Pods that are unknown or in two places would only cause more of the same below.
        return _sorted(found)
    catalogue = Catalogue(problem)
    named = any(looks_at_names(item.facts.node_rule) for item in catalogue.daemons)
    right: set[Hashable] = set()
    for claim in plan.claims:
        content = None if named else _content(catalogue, claim)
        if content is not None and content in right:
            continue
        faults = tuple(claim_violations(catalogue, claim))
        found += faults
        if not faults and content is not None:
            right.add(content)
    found += existing_violations(catalogue, plan)
    if not found:
        found += replay_violations(catalogue, plan)
        found += unused_violations(catalogue, plan)
        found += missed_violations(catalogue, plan)
    return _sorted(found)


def _content(catalogue: Catalogue, claim: PlannedClaim) -> Hashable | None:
    """All that the rules on one claim look at, but names: what is right of one is right of its equals.

    None where a name counts.
    """
    made_of = Counter(map(catalogue.template, claim.pods))
    if None in made_of:
        return None
    return (
        catalogue.offer(claim),
        tuple(getattr(claim, name) for name in _PLAIN),
        frozenset(claim.requests.items()),
        frozenset(made_of.items()),
    )


def _sorted(found: list[Violation]) -> tuple[Violation, ...]:
    return tuple(sorted(set(found), key=lambda item: (item.rule, item.subject, item.message)))
