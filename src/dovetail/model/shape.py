"""Pod shapes: pods that no scheduling rule can tell apart share one key."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from dovetail.api.core import Pod
from dovetail.model.affinity import affinity_rules
from dovetail.model.ports import host_ports
from dovetail.model.requirement import Requirements, pod_requirements
from dovetail.model.resources import pod_requests
from dovetail.model.selector import Selector, node_rule
from dovetail.model.spread import spread_rules


def looked_at(pods: Iterable[Pod]) -> frozenset[str]:
    """The label keys that some spread or affinity rule of these pods looks at."""
    return frozenset(key for pod in pods for selector in selectors_of(pod) for key in selector.keys)


def selectors_of(pod: Pod) -> tuple[Selector, ...]:
    """The selectors in a pod's spread and affinity rules."""
    rules = affinity_rules(pod)
    terms = (*rules.affinity, *rules.anti_affinity, *rules.preferred_affinity, *rules.preferred_anti_affinity)
    return (*(rule.selector for rule in spread_rules(pod)), *(term.selector for term in terms))


def shape_key(pod: Pod, selectors: Iterable[Selector] | frozenset[str]) -> Hashable:
    """Equal for two pods iff every rule that matters to scheduling reads the same for both.

    `selectors` are those of all pods that are in play (or the keys of `looked_at`): only labels that one of
    them looks at are part of the key. Claims belong to a pod alone, so pods with claims never share a shape.
    """
    if isinstance(selectors, frozenset):
        keys = selectors
    else:
        keys = frozenset(key for selector in selectors for key in selector.keys)
    spec, meta = pod.spec, pod.metadata
    claims = [item for item in spec.volumes if item.persistent_volume_claim or item.ephemeral]
    return (
        meta.namespace,
        tuple(sorted(pod_requests(pod).items())),
        node_rule(pod),
        pod_requirements(pod),
        _preferred(pod),
        spec.tolerations,
        spread_rules(pod),
        affinity_rules(pod),
        host_ports(pod),
        tuple(sorted((key, meta.labels[key]) for key in keys & meta.labels.keys())),
        (spec.priority, spec.preemption_policy, spec.node_name),
        pod.key if claims else "",
    )


def _preferred(pod: Pod) -> tuple[tuple[int, Requirements], ...]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    terms = affinity.preferred if affinity else ()
    return tuple((term.weight, Requirements.read(term.preference.match_expressions)) for term in terms)
