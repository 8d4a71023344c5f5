"""What one pod asks for, and the preferences that it gives up one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from dovetail.api.core import (
    Affinity,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
    Toleration,
    WeightedPodAffinityTerm,
)
from dovetail.model.affinity import AffinityRule, affinity_rules
from dovetail.model.ports import HostPort, host_ports
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.resources import CPU, MEMORY, Resources, pod_requests
from dovetail.model.spread import SpreadRule, spread_rules
from dovetail.model.taints import PREFER_NO_SCHEDULE
from dovetail.model.volumes import VolumeIndex, csi_volumes, ignored_reason, volume_alternatives

_Weighed = TypeVar("_Weighed", PreferredSchedulingTerm, WeightedPodAffinityTerm)
_ANYWAY = "ScheduleAnyway"
_TOLERATES_SOFT = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


@dataclass(frozen=True, slots=True)
class PodData:
    """A pod at one level of relaxation, resolved. What it would only prefer stands among what it demands."""

    pod: Pod
    requests: Resources
    requirements: Requirements  # with the heaviest preference, and the first of alternative terms
    strict: Requirements  # without the preference: what counts for topology
    ports: tuple[HostPort, ...]
    alternatives: tuple[Requirements, ...]  # of its volumes; one of them must hold
    attachments: dict[str, frozenset[str]]
    spread: tuple[SpreadRule, ...]
    affinity: tuple[AffinityRule, ...]
    anti_affinity: tuple[AffinityRule, ...]
    repels: tuple[AffinityRule, ...]  # the required ones among `anti_affinity`
    fault: str  # why it cannot be scheduled at all; '' usually

    @property
    def key(self) -> str:
        return self.pod.key

    @property
    def order(self) -> tuple[int, int, str, str]:
        """Sorts the largest first: by CPU, then memory, then age."""
        meta = self.pod.metadata
        return (
            -self.requests.get(CPU, 0),
            -self.requests.get(MEMORY, 0),
            meta.creation_timestamp or "",
            meta.uid or self.key,
        )


def pod_data(pod: Pod, volumes: VolumeIndex, *, respect: bool) -> PodData:
    """The pod as it is; with `respect`, preferences count as demands until they are given up."""
    strict, preferred = _label_demands(pod, respect=respect)
    rules = affinity_rules(pod)
    return PodData(
        pod=pod,
        requests=pod_requests(pod),
        requirements=preferred,
        strict=strict,
        ports=host_ports(pod),
        alternatives=volume_alternatives(pod, volumes) if pod.spec.volumes else (),
        attachments=csi_volumes(pod, volumes) if pod.spec.volumes else {},
        spread=tuple(rule for rule in spread_rules(pod) if rule.hard or respect),
        affinity=rules.affinity + (rules.preferred_affinity if respect else ()),
        anti_affinity=rules.anti_affinity + (rules.preferred_anti_affinity if respect else ()),
        repels=rules.anti_affinity,
        fault=ignored_reason(pod, volumes) if pod.spec.volumes else "",
    )


def _label_demands(pod: Pod, *, respect: bool) -> tuple[Requirements, Requirements]:
    found = [Requirement.new(key, "In", (value,)) for key, value in pod.spec.node_selector.items()]
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None:
        both = Requirements.of(found)
        return both, both
    if affinity.required is not None and affinity.required.node_selector_terms:
        found += _read(affinity.required.node_selector_terms[0])
    strict = Requirements.of(found)
    if not respect or not affinity.preferred:
        return strict, strict
    heaviest = max(affinity.preferred, key=lambda item: item.weight)
    return strict, Requirements.of([*found, *_read(heaviest.preference)])


def _read(term: NodeSelectorTerm) -> list[Requirement]:
    return [Requirement.read(item) for item in term.match_expressions]


def relaxed(pod: Pod, *, soft_taints: bool) -> Pod | None:
    """The pod with the next thing given up, in the documented order; None where nothing is left to give.

    `soft_taints`: some pool has a taint that only asks pods to stay away.
    """
    affinity = pod.spec.affinity
    if affinity is not None and (fewer := _relaxed_affinity(affinity)) is not None:
        return replace(pod, spec=replace(pod.spec, affinity=fewer))
    spreads = pod.spec.topology_spread_constraints
    for index, item in enumerate(spreads):
        if item.when_unsatisfiable == _ANYWAY:
            kept = [*spreads]
            kept[index] = kept[-1]
            left = tuple(kept[:-1])
            return replace(pod, spec=replace(pod.spec, topology_spread_constraints=left))
    if soft_taints and _TOLERATES_SOFT not in pod.spec.tolerations:
        tolerations = (*pod.spec.tolerations, _TOLERATES_SOFT)
        return replace(pod, spec=replace(pod.spec, tolerations=tolerations))
    return None


def without_first_term(pod: Pod) -> Pod | None:
    """The pod without the first of several alternatives of its node affinity; None with one or none."""
    affinity = pod.spec.affinity
    fewer = _without_first_term(affinity) if affinity is not None else None
    return None if fewer is None else replace(pod, spec=replace(pod.spec, affinity=fewer))


def _without_first_term(affinity: Affinity) -> Affinity | None:
    node = affinity.node_affinity
    if node is None or node.required is None or len(node.required.node_selector_terms) < 2:
        return None
    required = replace(node.required, node_selector_terms=node.required.node_selector_terms[1:])
    return replace(affinity, node_affinity=replace(node, required=required))


def _relaxed_affinity(affinity: Affinity) -> Affinity | None:
    if (fewer := _without_first_term(affinity)) is not None:
        return fewer
    node = affinity.node_affinity
    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    if near and near.preferred:
        return replace(affinity, pod_affinity=replace(near, preferred=_lighter(near.preferred)))
    if far and far.preferred:
        return replace(affinity, pod_anti_affinity=replace(far, preferred=_lighter(far.preferred)))
    if node and node.preferred:
        return replace(affinity, node_affinity=replace(node, preferred=_lighter(node.preferred)))
    return None


def _lighter(items: tuple[_Weighed, ...]) -> tuple[_Weighed, ...]:
    """All but the heaviest, heaviest first."""
    return tuple(sorted(items, key=lambda item: -item.weight)[1:])
