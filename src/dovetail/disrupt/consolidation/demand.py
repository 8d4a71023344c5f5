"""What pods of a node that may go ask of other nodes, each worked out once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.api.core import Affinity, NodeSelectorTerm, Pod, Toleration
from dovetail.base.memo import MOST_PODS, by_identity
from dovetail.disrupt.consolidation.churn import workload
from dovetail.model import labels
from dovetail.model.affinity import affinity_rules
from dovetail.model.labels import ALIASES, HOSTNAME
from dovetail.model.requirement import Requirement
from dovetail.model.resources import excess, pod_requests
from dovetail.model.spread import SpreadRule, spread_rules

Asked = tuple[tuple[str, int], ...]  # what a pod asks for, in order of names


@dataclass(frozen=True, slots=True)
class Demand:
    """Of one pod. `plannable`: it is in plans whatever volumes there are (`left_out` looks at these too).

    `spread` is what says in which zones or the like it may run, if nothing else does.
    """

    workload: str
    asked: Asked
    tolerations: tuple[Toleration, ...]
    plannable: bool
    spread: SpreadRule | None


@by_identity(MOST_PODS)
def demand(pod: Pod) -> Demand:
    """All of it at once: asked of each pod of a node again whenever any other pod there changes."""
    spec = pod.spec
    plannable = not (spec.resource_claims or spec.volumes or excess(pod))
    asked = tuple(sorted(pod_requests(pod).items()))
    return Demand(workload(pod), asked, spec.tolerations, plannable, _spread(pod))


def _spread(pod: Pod) -> SpreadRule | None:
    spec, constraints = pod.spec, pod.spec.topology_spread_constraints
    if not constraints or spec.affinity or spec.node_selector or spec.volumes or not pod.metadata.namespace:
        return None
    over = [rule for rule in spread_rules(pod) if ALIASES.get(rule.key, rule.key) != HOSTNAME]
    return over[0] if len(over) == 1 and over[0].selects_self and not over[0].honor_taints else None


@by_identity(MOST_PODS)
def may_keep_spot_out(pod: Pod) -> bool:
    """True iff a claim with the pod, or near it, may have to be of another capacity type than spot."""
    if pod.spec.node_selector.get(labels.CAPACITY_TYPE, labels.SPOT) != labels.SPOT:
        return True
    if any(rule.topology_key == labels.CAPACITY_TYPE for rule in pod.spec.topology_spread_constraints):
        return True
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    rules = affinity_rules(pod)
    between = rules.affinity + rules.anti_affinity + rules.preferred_affinity + rules.preferred_anti_affinity
    return any(rule.key == labels.CAPACITY_TYPE for rule in between) or any(
        item.key == labels.CAPACITY_TYPE and not Requirement.read(item).has(labels.SPOT)
        for term in _node_terms(affinity)
        for item in term.match_expressions
    )


def _node_terms(affinity: Affinity) -> Iterator[NodeSelectorTerm]:
    on_nodes = affinity.node_affinity
    if on_nodes is not None:
        yield from on_nodes.required.node_selector_terms if on_nodes.required is not None else ()
        yield from (item.preference for item in on_nodes.preferred)
