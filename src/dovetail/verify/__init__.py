"""A slow, obvious checker of plans, written from the scheduling rules alone.

It shares no code with the solver. What the scheduler would say comes from `model.filters`, which are proven
against a real scheduler; the rest are plain checks, one small function per rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import fields

from dovetail.api.core import Pod
from dovetail.model.filters import PodFacts
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Problem
from dovetail.model.selector import EVERYTHING
from dovetail.verify.claim import claim_violations
from dovetail.verify.existing import existing_violations
from dovetail.verify.missed import missed_violations
from dovetail.verify.replay import replay_violations
from dovetail.verify.unused import unused_violations
from dovetail.verify.violation import Violation
from dovetail.verify.whole import whole_violations
from dovetail.verify.worlds import Catalogue, attached

__all__ = ["Violation", "verify"]


# What of a claim is neither a name nor a mapping.
_PLAIN = tuple(
    one.name for one in fields(PlannedClaim) if one.name not in ("name", "pods", "requests", "labels")
)


def verify(problem: Problem, plan: Plan) -> tuple[Violation, ...]:
    """Every rule that the plan breaks, sorted; empty for a correct plan."""
    found = [*whole_violations(problem, plan)]
    if found:
        # Pods that are unknown or in two places would only cause more of the same below.
        return _sorted(found)
    catalogue = Catalogue(problem)
    names = _Names(catalogue)
    right: set[Hashable] = set()
    for claim in plan.claims:
        content = names.content(claim)
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


class _Names:
    """Says where names count: a pod or daemon may ask for one node, and a volume be of one pod."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._daemons = any(_looks_at_names(item.facts) for item in catalogue.daemons)
        self._specs: dict[int, bool] = {}  # by identity: the problem holds them as long as this lasts

    def content(self, claim: PlannedClaim) -> Hashable | None:
        """All that the rules on one claim look at, but names: what is right of one is right of its equals.

        Pods are equal that are made of one template. None where a name counts.
        """
        pods = [self._catalogue.pods[key] for key in claim.pods]
        if self._daemons or any(map(self._count, pods)):
            return None
        made_of = Counter(
            (pod.metadata.namespace, id(pod.spec), tuple(pod.metadata.labels.items())) for pod in pods
        )
        return (
            tuple(getattr(claim, name) for name in _PLAIN),
            frozenset(claim.requests.items()),
            frozenset(claim.labels.items()),
            frozenset(made_of.items()),
        )

    def _count(self, pod: Pod) -> bool:
        known = self._specs.get(id(pod.spec))
        if known is None:
            known = attached(pod) or _looks_at_names(self._catalogue.facts_of(pod))
            self._specs[id(pod.spec)] = known
        return known


def _looks_at_names(facts: PodFacts) -> bool:
    return any(term.fields != EVERYTHING for term in facts.node_rule.terms or ())


def _sorted(found: list[Violation]) -> tuple[Violation, ...]:
    return tuple(sorted(set(found), key=lambda item: (item.rule, item.subject, item.message)))
