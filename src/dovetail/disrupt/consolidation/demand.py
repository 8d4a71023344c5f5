"""What pods of a node that may go ask of other nodes, each worked out once."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.api.core import Affinity, NodeSelectorTerm, Pod
from dovetail.base.memo import by_identity
from dovetail.model import labels
from dovetail.model.affinity import affinity_rules
from dovetail.model.requirement import Requirement
from dovetail.model.resources import excess, pod_requests

Asked = tuple[tuple[str, int], ...]  # what a pod asks for, in order of names


@by_identity(32_768)
def asked(pod: Pod) -> Asked:
    """What the pod asks for."""
    return tuple(sorted(pod_requests(pod).items()))


def plannable(pod: Pod) -> bool:
    """True iff the pod is in plans whatever volumes there are (`left_out` looks at these as well)."""
    return not (pod.spec.resource_claims or pod.spec.volumes or excess(pod))


@by_identity(32_768)
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
