"""Inter-pod affinity and anti-affinity terms, resolved for one pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.api.core import Pod, PodAffinity, PodAffinityTerm
from dovetail.model.selector import NOTHING, Expression, Selector


@dataclass(frozen=True, slots=True)
class AffinityRule:
    """A term: pods in these namespaces with these labels, and the label whose values are the domains."""

    key: str
    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector  # matchLabelKeys and mismatchLabelKeys included
    weight: int = 0  # 0: required

    def matches(self, namespace: str, labels: Mapping[str, str], namespaces: NamespaceLabels) -> bool:
        """True iff the term means a pod with this namespace and these labels."""
        inside = namespace in self.namespaces or self.namespace_selector.matches(
            namespaces.get(namespace, {})
        )
        return inside and self.selector.matches(labels)

    def may_mean(self, pod: Pod) -> bool:
        """True iff it may mean the pod; any namespace counts if some are selected by labels."""
        inside = pod.metadata.namespace in self.namespaces or self.namespace_selector != NOTHING
        return inside and self.selector.matches(pod.metadata.labels)


def required_anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    """The terms that keep other pods away from it for certain."""
    affinity = pod.spec.affinity
    return affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()


# Namespace name -> its labels.
NamespaceLabels = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class AffinityRules:
    """All terms of a pod: those that must hold, and those that only count (with weights)."""

    affinity: tuple[AffinityRule, ...] = ()
    anti_affinity: tuple[AffinityRule, ...] = ()
    preferred_affinity: tuple[AffinityRule, ...] = ()
    preferred_anti_affinity: tuple[AffinityRule, ...] = ()

    @property
    def all(self) -> tuple[AffinityRule, ...]:
        """Those that must hold and those that count."""
        return (
            *self.affinity,
            *self.anti_affinity,
            *self.preferred_affinity,
            *self.preferred_anti_affinity,
        )


_NONE = AffinityRules()


def affinity_rules(pod: Pod) -> AffinityRules:
    """What a pod says about other pods."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return _NONE
    near, far = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()
    return AffinityRules(
        tuple(_resolve(pod, term) for term in near.required),
        tuple(_resolve(pod, term) for term in far.required),
        tuple(_resolve(pod, item.pod_affinity_term, item.weight) for item in near.preferred),
        tuple(_resolve(pod, item.pod_affinity_term, item.weight) for item in far.preferred),
    )


def _resolve(pod: Pod, term: PodAffinityTerm, weight: int = 0) -> AffinityRule:
    labels = pod.metadata.labels
    same = [Expression(key, "In", (labels[key],)) for key in term.match_label_keys if key in labels]
    other = [Expression(key, "NotIn", (labels[key],)) for key in term.mismatch_label_keys if key in labels]
    names = frozenset(term.namespaces)
    if not names and term.namespace_selector is None:
        names = frozenset({pod.metadata.namespace})
    return AffinityRule(
        key=term.topology_key,
        namespaces=names,
        namespace_selector=NOTHING
        if term.namespace_selector is None
        else Selector.read(term.namespace_selector),
        selector=Selector.read(term.label_selector).also(*same, *other),
        weight=weight,
    )
