"""Which domains of a spread a plan's bound counts, and what is proven if only those with nodes count.

The solver keeps a spread for every domain where one more node could be bought, hosts included: so does its
bound where rules between pods take part in the proof. kube-scheduler counts domains that have nodes, so a
plan that opens fewer of them would pass it too, and may cost less. The bound of that question is one without
these spreads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import msgspec

from dovetail.api.core import Pod, TopologySpreadConstraint
from dovetail.model.labels import HOSTNAME
from dovetail.model.plan import BETWEEN_PODS, Plan
from dovetail.model.problem import Budget, Problem
from dovetail.solve.solver import solve

_WORK = 100_000  # units, of the plan that is made without the spreads
_SPREAD = "topology spread"  # how rules on hosts and preferences that were given up are called


@dataclass(frozen=True, slots=True)
class AsSeen:
    """What a plan's bound says of domains that no node opens."""

    counted: bool  # True iff it is proven for spreads over such domains as well
    bound: int | None  # nano-dollars per hour if they do not count; None where that is not proven


def as_seen(problem: Problem, plan: Plan, over: Callable[[], bool]) -> AsSeen:
    """The bound if only domains counted that have nodes; the plan's own where it says nothing of others.

    It takes another, smaller plan, unless the time is `over`.
    """
    lower = plan.cost.lower_bound
    keys = _keys(problem, plan) if plan.claims else frozenset()
    if not keys:
        return AsSeen(counted=False, bound=lower)
    if over():
        return AsSeen(counted=True, bound=None)
    left = set(plan.left)
    lifted: dict[int, Pod] = {}
    placed = tuple(_lifted(pod, keys, lifted) for pod in problem.pods if pod.key not in left)
    found = solve(replace(problem, pods=placed), Budget(min(_WORK, max(1, plan.work))), stop=over)
    if found.unschedulable or not _promises_less(problem, found, plan):
        return AsSeen(counted=True, bound=None)
    return AsSeen(counted=True, bound=min(lower, found.cost.lower_bound))


def _keys(problem: Problem, plan: Plan) -> frozenset[str]:
    """The labels of spreads that the proof keeps over domains which no node opens yet."""
    hosts = any(rule.name.startswith(_SPREAD) for rule in plan.proof.rules)
    if not hosts and plan.proof.method != BETWEEN_PODS:
        return frozenset()
    every = {spread.topology_key for pod in problem.pods for spread in _kept(problem, pod)}
    if plan.proof.method != BETWEEN_PODS:
        return frozenset(every & {HOSTNAME})
    return frozenset(key for key in every if key == HOSTNAME or _openable(problem, key))


def _kept(problem: Problem, pod: Pod) -> Iterator[TopologySpreadConstraint]:
    for spread in pod.spec.topology_spread_constraints:
        if spread.when_unsatisfiable == "DoNotSchedule" or problem.options.respect_preferences:
            yield spread


def _openable(problem: Problem, key: str) -> bool:
    """True iff a node may be bought in a domain that has none."""
    seen = {node.labels.get(key) for node in problem.nodes}
    for pool in problem.pools:
        allowed = pool.requirements.get(key)
        if not pool.requirements.has(key) and not any(
            key in kind.requirements.by_key or any(key in one.requirements.by_key for one in kind.offerings)
            for kind in pool.instance_types
        ):
            continue
        for kind in pool.instance_types:
            for offering in kind.offerings:
                if offering.launchable:
                    values = allowed.intersection(kind.requirements.get(key))
                    values = values.intersection(offering.requirements.get(key))
                    if values.complement or values.values - seen:
                        return True
    return False


def _lifted(pod: Pod, keys: frozenset[str], known: dict[int, Pod]) -> Pod:
    """The pod without its spreads over these labels; pods of one template go on sharing their spec."""
    like = known.get(id(pod.spec))
    if like is None:
        some = tuple(one for one in pod.spec.topology_spread_constraints if one.topology_key not in keys)
        spec = msgspec.structs.replace(pod.spec, topology_spread_constraints=some)
        like = known[id(pod.spec)] = (
            pod
            if len(some) == len(pod.spec.topology_spread_constraints)
            else (msgspec.structs.replace(pod, spec=spec))
        )
    return pod if like.spec is pod.spec else msgspec.structs.replace(pod, spec=like.spec)


def _promises_less(problem: Problem, found: Plan, plan: Plan) -> bool:
    """True only if every plan that keeps the promises of `plan` keeps those of `found`, so that it costs no
    less than is proven of that: no pod has a heavier pool there, none keeps a preference that is lost here.
    """
    for pod, words in plan.relaxed.items():
        gone = Counter(word for word in words if _SPREAD not in word)
        if gone - Counter(found.relaxed.get(pod, ())):
            return False
    weights = {pool.name: pool.weight for pool in problem.pools}
    if len(set(weights.values())) < 2:
        return True
    if any(pool.limits for pool in problem.pools):
        return False
    most = max(weights.values())
    there = {pod: weights[claim.pool] for claim in found.claims for pod in claim.pods}
    return all(there.get(pod, most) <= weights[claim.pool] for claim in plan.claims for pod in claim.pods)
