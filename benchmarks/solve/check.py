"""Plans are checked after the clock has stopped: small ones whole, of large ones what is checked quickly."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from dovetail.api.core import Pod
from dovetail.model.affinity import affinity_rules
from dovetail.model.labels import HOSTNAME
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Problem
from dovetail.model.spread import SpreadRule, spread_rules
from dovetail.verify import Violation, verify
from dovetail.verify.claim import claim_violations
from dovetail.verify.whole import whole_violations
from dovetail.verify.worlds import Catalogue

_WHOLE = 1_000  # claims and pods with rules between them that the checker replays one by one
_PLAIN = 25_000  # pods without such rules
_SAMPLE = 100  # claims of a large plan that are looked at, evenly chosen
_SHOWN = 3  # violations that are spelled out


def checked(name: str, problem: Problem, plan: Plan) -> tuple[int, str]:
    """How many rules the plan breaks, and 'sample' where not everything was looked at."""
    ruled = sum(bool(spread_rules(pod) or affinity_rules(pod).anti_affinity) for pod in problem.pods)
    whole = max(ruled, len(plan.claims) if ruled else 0) <= _WHOLE and len(problem.pods) <= _PLAIN
    found = verify(problem, plan) if whole else tuple(_sampled(problem, plan))
    for violation in found[:_SHOWN]:
        print(f"{name}: {violation}", file=sys.stderr)
    return len(found), "" if whole else "sample"


def _sampled(problem: Problem, plan: Plan) -> Iterator[Violation]:
    """Accounting, limits and cost of all; some claims one by one; rules between pods in the final state."""
    yield from whole_violations(problem, plan)
    catalogue = Catalogue(problem)
    for claim in plan.claims[:: max(1, len(plan.claims) // _SAMPLE)]:
        yield from claim_violations(catalogue, claim)
    yield from _between(problem, plan)


def _between(problem: Problem, plan: Plan) -> Iterator[Violation]:
    """Spread and anti-affinity among pods on new nodes, where every counted pod obeys the rule itself.

    Then the final state decides: whatever the order, the last pod of the fullest domain was let in.
    """
    places = {pod: claim for claim in plan.claims for pod in claim.pods}
    alike: dict[str, list[Pod]] = defaultdict(list)
    for pod in problem.pods:
        if pod.key in places:
            alike[repr((pod.metadata.namespace, sorted(pod.metadata.labels.items())))].append(pod)
    for rule, owners in _rules(problem, places).items():
        counted = [
            pod
            for pods in alike.values()
            if rule.counts(pods[0].metadata.namespace, pods[0].metadata.labels)
            for pod in pods
        ]
        if len(counted) == owners:
            counts = Counter(_domain(places[pod.key], rule.key) for pod in counted)
            least = 0 if rule.key == HOSTNAME else min(counts.values())
            if max(counts.values()) - least > rule.max_skew:
                yield Violation("between pods", counted[0].key, f"{rule.key} holds {dict(counts)}"[:200])


def _rules(problem: Problem, places: Mapping[str, PlannedClaim]) -> Counter[SpreadRule]:
    """Spread rules, and anti-affinity on hostnames as one more of skew 1, with how many pods own each."""
    found: Counter[SpreadRule] = Counter()
    for pod in problem.pods:
        if pod.key not in places:
            continue
        found.update(rule for rule in spread_rules(pod) if rule.hard and rule.selects_self)
        for term in affinity_rules(pod).anti_affinity:
            if term.namespaces == {pod.metadata.namespace} and term.selector.matches(pod.metadata.labels):
                found[SpreadRule(term.key, pod.metadata.namespace, term.selector, 1, hard=True)] += 1
    return found


def _domain(claim: PlannedClaim, key: str) -> str:
    return claim.name if key == HOSTNAME else claim.requirements.get(key).any_value()
