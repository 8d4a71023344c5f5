"""Clear misses: pods that are left over, or on a pool of lower weight, for no reason at all."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from dovetail.model import labels
from dovetail.model.cluster_view import PodFacts
from dovetail.model.left_out import left_out
from dovetail.model.plan import Plan
from dovetail.model.problem import Pool
from dovetail.model.requirement import Requirements, pod_requirements
from dovetail.model.resources import add, fits
from dovetail.model.taints import untolerated
from dovetail.verify.violation import Violation
from dovetail.verify.worlds import Catalogue, runs_on


def missed_violations(catalogue: Catalogue, plan: Plan) -> Iterator[Violation]:
    """Cases beyond doubt only: pods without ties or volumes, pools without limits or minValues.

    That there was no time for a pod is a reason, and that no node is to be bought, and that all of its gang
    is left over.
    """
    if not catalogue.problem.buys:
        return
    known = catalogue.problem.commons
    free = [pool for pool in catalogue.problem.pools if _unbounded(pool) and not _drawing(pool, known)]
    possible = _Possible(catalogue)
    left = {item.pod for item in plan.unschedulable}
    together = {pod for gang in catalogue.problem.gangs if left.issuperset(gang.pods) for pod in gang.pods}
    for item in plan.unschedulable:
        for pool in () if item.untried or item.pod in together else free:
            name = possible.alone(item.pod, pool)
            if name:
                yield Violation("left over", item.pod, f"would run alone on {name} of pool {pool.name}")
                break
    for claim in plan.claims:
        weight = catalogue.pools[claim.pool].weight
        better = [pool for pool in free if pool.weight > weight]
        found = [possible.first(pod, better) for pod in claim.pods] if better else []
        if found and all(found):
            message = f"is of pool {claim.pool}, all its pods could run on {', '.join(sorted(set(found)))}"
            yield Violation("weight", claim.name, message)


class _Possible:
    """Where pods may run alone; pods that share their spec and their labels have one answer."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._known: dict[Hashable, str] = {}

    def alone(self, pod: str, pool: Pool) -> str:
        """A type of the pool that holds the pod and its daemons, whatever zone it gets; "" for none."""
        facts = self._catalogue.facts(pod)
        key = id(facts.pod.spec), facts.namespace, tuple(sorted(facts.labels.items())), pool.name
        if key not in self._known:
            self._known[key] = _possible_alone(self._catalogue, facts, pool)
        return self._known[key]

    def first(self, pod: str, pools: list[Pool]) -> str:
        """The first pool where the pod may; "" for none."""
        return next((pool.name for pool in pools if self.alone(pod, pool)), "")


def _unbounded(pool: Pool) -> bool:
    return not pool.limits and not any(item.min_values for item in pool.requirements)


def _drawing(pool: Pool, commons: Mapping[str, int]) -> bool:
    """True iff some offering of the pool draws on what is known to end."""
    return bool(commons) and any(
        name in commons for kind in pool.instance_types for item in kind.offerings for name, _ in item.draws
    )


def _plain(facts: PodFacts) -> bool:
    """True iff nothing but the pod itself decides where it may run."""
    spec = facts.pod.spec
    affinity = spec.affinity
    soft = affinity and (
        affinity.pod_affinity
        or affinity.pod_anti_affinity
        or (affinity.node_affinity and affinity.node_affinity.preferred)
    )
    return not (soft or spec.topology_spread_constraints or spec.volumes or facts.ports or spec.node_name)


def _possible_alone(catalogue: Catalogue, facts: PodFacts, pool: Pool) -> str:
    if not _plain(facts) or catalogue.repelled(facts) or left_out(facts.pod, catalogue.problem.volumes):
        return ""
    if untolerated(pool.taints, facts.pod.spec.tolerations):
        return ""
    well_known = catalogue.problem.options.well_known
    for wanted in pod_requirements(facts.pod):
        if not pool.requirements.suits(wanted, well_known):
            continue
        name = _holding_type(catalogue, facts, pool, pool.requirements.add(*wanted))
        if name:
            return name
    return ""


def _holding_type(catalogue: Catalogue, facts: PodFacts, pool: Pool, asked: Requirements) -> str:
    for kind in pool.instance_types:
        room = catalogue.allocatable(kind)
        if not asked.get(labels.INSTANCE_TYPE).has(kind.name) or not fits(facts.requests, room):
            continue
        for world in catalogue.worlds_of_type(pool, asked, {}, kind.name):
            if any(len(values) > 1 for values in world.possible.values()):
                continue
            node = {key: values[0] for key, values in world.possible.items()}
            load = facts.requests
            for daemon in catalogue.daemons:
                if runs_on(daemon, pool.taints, "", node):
                    load = add(load, daemon.facts.requests)
            if facts.node_rule.matches("", node) and fits(load, room):
                return kind.name
    return ""
