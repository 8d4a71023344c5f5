"""DaemonSets as their pods run: what admission makes of a template is not in it.

The API server fills in requests from limits, a LimitRange and webhooks (sidecars, a VerticalPodAutoscaler)
change more. A plan that goes by templates leaves too little room for daemons on new nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from dovetail.api.core import Pod, PodSpec
from dovetail.api.pod_resources import with_requests
from dovetail.api.workloads import DaemonSet

# On pods and on their DaemonSet: which version of the template they are of.
GENERATION_LABEL = "pod-template-generation"
NEWEST_GENERATION = "deprecated.daemonset.template.generation"

# What a plan looks at of the fields of a spec that differ between pods and their template.
_ASKED = ("containers", "init_containers", "resources", "overhead", "node_selector", "host_network")

Name = tuple[str, str, str]  # namespace, name and UID of a DaemonSet


@dataclass(frozen=True, slots=True)
class _Seen:
    """A pod of a DaemonSet: when it was created, which template it is of, and what it asks for.

    Nothing else of it is kept, such as the name of its node.
    """

    created: str
    uid: str
    generation: str
    spec: PodSpec


class DaemonPods:
    """The newest pod of each DaemonSet. It is kept once it is gone: the next one will be the same."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._newest: dict[Name, _Seen] = {}
        self._made: dict[Name, tuple[DaemonSet, _Seen | None, DaemonSet]] = {}
        for pod in pods:
            self.follow(pod)

    def follow(self, pod: Pod) -> None:
        """Take in a pod that is there. Only one in the namespace of its DaemonSet is of it."""
        name = _owner(pod)
        if name is None:
            return
        known, meta = self._newest.get(name), pod.metadata
        if known is not None:
            if meta.uid == known.uid and _asks(pod.spec) == _asks(known.spec):
                return
            if (meta.creation_timestamp, meta.uid) < (known.created, known.uid):
                return
        asked = {field: getattr(pod.spec, field) for field in _ASKED}
        generation = meta.labels.get(GENERATION_LABEL, "")
        self._newest[name] = _Seen(meta.creation_timestamp, meta.uid, generation, PodSpec(**asked))

    def gone(self, pod: Pod) -> None:
        """Forget a pod that was deleted, if there is no such DaemonSet: anybody may name an owner."""
        name = _owner(pod)
        if name is not None and name not in self._made:
            seen = self._newest.get(name)
            if seen is not None and seen.uid == pod.metadata.uid:
                del self._newest[name]

    def forget(self, daemonset: DaemonSet) -> None:
        """The DaemonSet is gone."""
        self._newest.pop(_name(daemonset), None)
        self._made.pop(_name(daemonset), None)

    def as_they_run(self, daemonsets: Iterable[DaemonSet]) -> tuple[DaemonSet, ...]:
        """With templates as the newest pod of each is; a DaemonSet that needs no change is the very same.

        What nodes they run on is the template's: each pod is bound to its own node by its affinity.
        """
        found = []
        for daemonset in daemonsets:
            name = _name(daemonset)
            seen = self._newest.get(name)
            newest = daemonset.metadata.annotations.get(NEWEST_GENERATION, "")
            if seen is not None and seen.generation and newest and seen.generation != newest:
                seen = None  # of a template that is no more
            known = self._made.get(name)
            if known is None or known[0] is not daemonset or known[1] is not seen:
                made = _as_it_runs(daemonset, seen.spec if seen else None)
                if known is not None and known[0] is daemonset and _alike(known[2], made):
                    made = known[2]  # much is remembered by it: each new node has a newest pod
                self._made[name] = known = daemonset, seen, made
            found.append(known[2])
        return tuple(found)


def _owner(pod: Pod) -> Name | None:
    owner = pod.metadata.controller()
    if owner is None or owner.kind != DaemonSet.KIND:
        return None
    return pod.metadata.namespace, owner.name, owner.uid


def _name(daemonset: DaemonSet) -> Name:
    return daemonset.metadata.namespace, daemonset.metadata.name, daemonset.metadata.uid


def _as_it_runs(daemonset: DaemonSet, pod: PodSpec | None) -> DaemonSet:
    template = daemonset.spec.template.spec
    if pod is None:
        spec = msgspec.structs.replace(
            template,
            containers=tuple(map(with_requests, template.containers)),
            init_containers=tuple(map(with_requests, template.init_containers)),
        )
    else:
        spec = msgspec.structs.replace(template, **{field: getattr(pod, field) for field in _ASKED})
    filled = msgspec.structs.replace(daemonset.spec.template, spec=spec)
    made = msgspec.structs.replace(daemonset, spec=msgspec.structs.replace(daemonset.spec, template=filled))
    return daemonset if _alike(daemonset, made) else made


def _alike(one: DaemonSet, other: DaemonSet) -> bool:
    return _asks(one.spec.template.spec) == _asks(other.spec.template.spec)


def _asks(spec: PodSpec) -> object:
    """Those fields, without what no plan looks at: images and names of containers."""
    parts = [
        [(one.resources.requests, one.ports, one.restart_policy) for one in containers]
        for containers in (spec.containers, spec.init_containers)
    ]
    return parts, spec.resources, spec.overhead, spec.node_selector, spec.host_network
