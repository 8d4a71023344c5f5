"""DaemonSet: one pod on every node that may run it.

As in a real cluster the controller does not bind its pods: each gets a node affinity to the name of its node
(`matchFields: metadata.name`), and the default scheduler places it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from dovetail.api.core import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PodTemplateSpec,
    SelectorRequirement,
    Toleration,
)
from dovetail.api.workloads import DaemonSet
from dovetail.cluster.daemons import GENERATION_LABEL, NEWEST_GENERATION
from dovetail.model.daemons import node_of
from dovetail.model.podtemplate import REVISION_LABEL, from_template, template_hash
from dovetail.model.requirement import Requirements, pod_requirements
from dovetail.model.taints import HARD_EFFECTS, NO_EXECUTE, NO_SCHEDULE, untolerated
from dovetail.simulate.workloads.base import Controller, Means
from dovetail.simulate.workloads.pods import ready

# What the real controller lets every daemon pod tolerate: a node in trouble still needs its daemons.
_ADDED = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
)
_ADDED_ON_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


def daemon_spec(template: PodTemplateSpec, node: str) -> PodSpec:
    """The template's spec for one node: pinned to its name, with the tolerations that are added."""
    spec = template.spec
    tolerations = spec.tolerations
    for key, effect in (*_ADDED, _ADDED_ON_HOST_NETWORK) if spec.host_network else _ADDED:
        tolerations = _with(tolerations, Toleration(key=key, operator="Exists", effect=effect))
    field = SelectorRequirement(key="metadata.name", operator="In", values=(node,))
    pinned = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    affinity = spec.affinity or Affinity()
    preferred = affinity.node_affinity.preferred if affinity.node_affinity is not None else ()
    return msgspec.structs.replace(
        spec,
        tolerations=tolerations,
        affinity=msgspec.structs.replace(
            affinity, node_affinity=NodeAffinity(required=pinned, preferred=preferred)
        ),
    )


def _with(tolerations: tuple[Toleration, ...], added: Toleration) -> tuple[Toleration, ...]:
    """It takes the place of one that tolerates the same for a while only."""
    own = [msgspec.structs.replace(one, toleration_seconds=None) for one in tolerations]
    if added not in own:
        return (*tolerations, added)
    return tuple(added if one == added else given for one, given in zip(own, tolerations, strict=True))


@dataclass(frozen=True, slots=True)
class Fit:
    """`run`: a pod should be made there; `stay`: a pod that is there may stay."""

    run: bool
    stay: bool


def fit(template: PodTemplateSpec, node: Node) -> Fit:
    """Whether the node is one that the daemon set covers, by labels and taints."""
    labels = Requirements.from_labels(node.metadata.labels)
    alternatives = pod_requirements(Pod(spec=template.spec))
    if all(labels.compatible(wanted) for wanted in alternatives):
        return Fit(run=False, stay=False)
    tolerations = daemon_spec(template, node.metadata.name).tolerations
    effects = {taint.effect for taint in untolerated(node.spec.taints, tolerations)}
    return Fit(run=effects.isdisjoint(HARD_EFFECTS), stay=NO_EXECUTE not in effects)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Nodes that need a pod, and pods that must go."""

    create: tuple[str, ...]
    delete: tuple[Pod, ...]


def decide(fits: Mapping[str, Fit], pods: Iterable[Pod], revision: str) -> Coverage:
    """One pod per node of `fits` (by node name); of several the oldest known stays.

    Once every covered node has its pod, outdated ones go: those that are not ready at once, the others one
    at a time while all are ready (maxUnavailable is 1).
    """
    kept: dict[str, Pod] = {}
    delete: list[Pod] = []
    for pod in pods:
        node = node_of(pod)
        if pod.terminal or node in kept or node not in fits or not fits[node].stay:
            delete.append(pod)
        else:
            kept[node] = pod
    create = tuple(name for name, verdict in fits.items() if verdict.run and name not in kept)
    if not create and not delete:
        outdated = [pod for pod in kept.values() if pod.metadata.labels.get(REVISION_LABEL) != revision]
        broken = [pod for pod in outdated if not ready(pod)]
        delete = broken or (outdated[:1] if all(ready(pod) for pod in kept.values()) else [])
    return Coverage(create=create, delete=tuple(delete))


def node_matters(before: Node, after: Node) -> bool:
    """True iff the change may alter which daemons the node runs."""
    return before.spec.taints != after.spec.taints or before.metadata.labels != after.metadata.labels


class DaemonSets(Controller):
    """Acts on `decide`."""

    kind = DaemonSet

    def __init__(self, means: Means) -> None:
        super().__init__(means)
        # (revision, node) -> (the node's labels and taints, the verdict on them).
        self._fits: dict[tuple[str, str], tuple[object, object, Fit]] = {}

    def _fit(self, template: PodTemplateSpec, revision: str, node: Node) -> Fit:
        """`fit`, remembered while nothing of the node changes that it depends on."""
        labels, taints = node.metadata.labels, node.spec.taints
        known = self._fits.get((revision, node.metadata.name))
        if known is not None and (known[0], known[1]) == (labels, taints):
            return known[2]
        verdict = fit(template, node)
        self._fits[(revision, node.metadata.name)] = (labels, taints, verdict)
        return verdict

    async def sync(self, key: str) -> None:
        daemon_set = self.view.get(DaemonSet, key)
        if daemon_set is None or self.view.is_deleting(daemon_set):
            return
        template = daemon_set.spec.template
        revision = template_hash(template)
        generation = daemon_set.metadata.annotations.get(NEWEST_GENERATION, "1")
        leaving = {node_of(pod) for pod in self.view.leaving(daemon_set, Pod)}
        fits = {node.metadata.name: self._fit(template, revision, node) for node in self.view.all(Node)}
        # A node whose pod is still stopping gets its next one when that has gone.
        fits = {name: Fit(False, item.stay) if name in leaving else item for name, item in fits.items()}
        coverage = decide(fits, self.view.owned(daemon_set, Pod), revision)
        for pod in coverage.delete:
            await self.remove(pod)
        for node in coverage.create:
            name = self.names.child(f"DaemonSet {key}", daemon_set.metadata.name)
            spec = daemon_spec(template, node)
            labels = {REVISION_LABEL: revision, GENERATION_LABEL: generation}
            await self.create(from_template(daemon_set, template, name, labels=labels, spec=spec))
