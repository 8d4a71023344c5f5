"""What a plan promised beyond the rules, as rules: the preferences that pods kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from dovetail.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from dovetail.model.plan import Plan
from dovetail.model.problem import Pool, Problem

_OTHER_TERM = "required node affinity term"  # nothing that was promised is lost with it


class Unsupported(Exception):
    """The problem has a combination of rules that the exhaustive solver does not know how to try."""


def hardened(problem: Problem, plan: Plan) -> Problem:
    """The placed pods with the preferences that the plan kept for them as strict rules.

    A preferred anti-affinity that was kept becomes a strict one, which binds the other side as well: plans
    are then sought among fewer, never among more. Spreads go on counting where a pod would rather not be, as
    long as it asks for nothing else of its node. Raises Unsupported where a pod keeps several affinities.
    """
    left = {item.pod for item in plan.unschedulable}
    pods = tuple(pod for pod in problem.pods if pod.key not in left)
    if problem.options.respect_preferences:
        pods = tuple(_kept(pod, plan.relaxed.get(pod.key, ())) for pod in pods)
    return replace(problem, pods=pods)


def gives_up(plan: Plan) -> bool:
    """True iff some pod gave up a preference; one required term in place of another is none."""
    return any(word != _OTHER_TERM for words in plan.relaxed.values() for word in words)


def unhardened(problem: Problem, plan: Plan) -> Problem:
    """The placed pods as they are: where limits refuse something, which give up what is as turns come."""
    left = {item.pod for item in plan.unschedulable}
    return replace(problem, pods=tuple(pod for pod in problem.pods if pod.key not in left))


def refusing(problem: Problem, plan: Plan) -> frozenset[str]:
    """The pools whose limits refuse a type by the end of the plan that they allowed before."""
    return frozenset(pool.name for pool in problem.pools if _refuses(pool, plan))


def _refuses(pool: Pool, plan: Plan) -> bool:
    if pool.limits is None:
        return False
    rest = {name: most - pool.usage.get(name, 0) for name, most in pool.limits.items()}
    sizes = {kind.name: {**kind.capacity, "nodes": 1} for kind in pool.instance_types}
    bought = [claim.instance_types for claim in plan.claims if claim.pool == pool.name]
    took = {name: sum(max(sizes[kind].get(name, 0) for kind in kinds) for kinds in bought) for name in rest}
    return any(
        all(size.get(name, 0) <= before for name, before in rest.items())
        and any(size.get(name, 0) > before - took[name] for name, before in rest.items())
        for size in sizes.values()
    )


def staying(problem: Problem, plan: Plan) -> dict[str, int]:
    """Pods on nodes of such pools -> the least weight of a pool whose nodes they may be on.

    Which pods such a pool takes is as their turns come; promised is that its nodes hold as much.
    """
    full, weight = refusing(problem, plan), {pool.name: pool.weight for pool in problem.pools}
    least = lightest(problem, plan)
    return {
        pod: weight[claim.pool]
        for claim in plan.claims
        if claim.pool in full and weight[claim.pool] > least
        for pod in claim.pods
    }


def lightest(problem: Problem, plan: Plan) -> int:
    """The least weight of a pool that the plan buys from; 0 if it buys nothing."""
    weight = {pool.name: pool.weight for pool in problem.pools}
    return min((weight[claim.pool] for claim in plan.claims), default=0)


def keeps_soft_taints(problem: Problem, plan: Plan, pod: str) -> bool:
    """True iff PreferNoSchedule taints keep the pod away."""
    return problem.options.respect_preferences and "PreferNoSchedule taints" not in plan.relaxed.get(pod, ())


def _kept(pod: Pod, given_up: tuple[str, ...]) -> Pod:
    lost = Counter("topology spread" if "topology spread" in text else text for text in given_up)
    affinity = pod.spec.affinity or Affinity()
    near = _rest(affinity.pod_affinity, lost["preferred pod affinity"])
    far = _rest(affinity.pod_anti_affinity, lost["preferred pod anti-affinity"])
    if near and (len(near) > 1 or (affinity.pod_affinity and affinity.pod_affinity.required)):
        raise Unsupported(f"{pod.key} keeps several pod affinities")
    spec = msgspec.structs.replace(
        pod.spec,
        affinity=Affinity(
            node_affinity=_node_affinity(affinity.node_affinity, lost["preferred node affinity"]),
            pod_affinity=_strict(affinity.pod_affinity, near),
            pod_anti_affinity=_strict(affinity.pod_anti_affinity, far),
        ),
        topology_spread_constraints=tuple(_spread(pod, lost["topology spread"])),
    )
    return msgspec.structs.replace(pod, spec=spec)


def _rest(terms: PodAffinity | None, lost: int) -> list[WeightedPodAffinityTerm]:
    """What is left of the preferred terms once the heaviest were given up."""
    return sorted(terms.preferred, key=lambda item: -item.weight)[lost:] if terms else []


def _strict(terms: PodAffinity | None, kept: Iterable[WeightedPodAffinityTerm]) -> PodAffinity:
    required = terms.required if terms else ()
    return PodAffinity(required=(*required, *(item.pod_affinity_term for item in kept)))


def _node_affinity(affinity: NodeAffinity | None, lost: int) -> NodeAffinity | None:
    """Only the heaviest preference that is left counts, together with each alternative that is required."""
    if affinity is None:
        return None
    preferred = sorted(affinity.preferred, key=lambda item: -item.weight)[lost:]
    required = affinity.required
    if not preferred:
        return NodeAffinity(required=required)
    wish = preferred[0].preference.match_expressions
    terms = required.node_selector_terms if required else (NodeSelectorTerm(),)
    return NodeAffinity(
        required=NodeSelector(
            node_selector_terms=tuple(
                msgspec.structs.replace(term, match_expressions=(*term.match_expressions, *wish))
                for term in terms
                if required is None or term.match_expressions or term.match_fields
            )
        )
    )


def _spread(pod: Pod, lost: int) -> Iterator[TopologySpreadConstraint]:
    """The strict constraints, and those of the others that are left: the first goes, the last moves up."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    free = not pod.spec.node_selector and not (affinity and affinity.required)
    every = pod.spec.topology_spread_constraints
    if free:
        every = tuple(msgspec.structs.replace(item, node_affinity_policy="Ignore") for item in every)
    anyway = [item for item in every if item.when_unsatisfiable == "ScheduleAnyway"]
    for _ in range(min(lost, len(anyway))):
        anyway = [*anyway[-1:], *anyway[1:-1]] if len(anyway) > 1 else []
    for item in every:
        if item.when_unsatisfiable != "ScheduleAnyway":
            yield item
        elif item in anyway:
            yield msgspec.structs.replace(item, when_unsatisfiable="DoNotSchedule")
