"""Gangs: pods of which so many must run together that fewer are of no use. Pure.

Which gang a pod is of is written on it, in the way of the scheduler that places it; how many it needs says an
object of that scheduler, or the pod itself. Without such a number each pod is on its own, as in Karpenter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dovetail.api.core import Pod
from dovetail.api.gangs import CoschedulingGroup, PodGroup, VolcanoGroup, Workload
from dovetail.api.meta import Object
from dovetail.model import labels

COSCHEDULING = "scheduling.x-k8s.io/pod-group"  # label
VOLCANO = "scheduling.k8s.io/group-name"  # annotation
KUEUE, KUEUE_COUNT = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
# Of pods that Kueue admits before all of their group are there: these do not need each other.
KUEUE_FAST, KUEUE_SERVING = "kueue.x-k8s.io/pod-group-fast-admission", "kueue.x-k8s.io/pod-group-serving"
KOORDINATOR = "gang.scheduling.koordinator.sh/name"  # annotations
KOORDINATOR_COUNT = "gang.scheduling.koordinator.sh/min-available"
LIGHTWEIGHT = "pod-group.scheduling.sigs.k8s.io/name"  # labels of coscheduling before it had a PodGroup
LIGHTWEIGHT_COUNT = "pod-group.scheduling.sigs.k8s.io/min-available"
_LABELS = frozenset((COSCHEDULING, KUEUE, LIGHTWEIGHT))
_ANNOTATIONS = frozenset((VOLCANO, KOORDINATOR))
_DIGITS = 9  # longer counts are no pods of any cluster


@dataclass(frozen=True, slots=True)
class Group:
    """What pods say that they are of."""

    kind: str  # as its users call it
    name: str  # "namespace/name"
    minimum: int  # pods that must have a place


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods of a problem that need each other.

    Fewer than `minimum` of these `pods` are of no use: that is what is still lacking, `placed` ones aside.
    """

    kind: str
    name: str
    pods: tuple[str, ...]  # keys, sorted
    minimum: int  # at least 1
    placed: int = 0  # pods of it that have a place, on nodes of the problem or for good
    wanted: int = 0  # what the group asks for

    @property
    def key(self) -> tuple[str, str]:
        """Unlike the name, unique."""
        return self.kind, self.name

    @property
    def short(self) -> bool:
        """True iff not so many of its pods are there as it needs."""
        return len(self.pods) < self.minimum


class Groups:
    """Which group a pod is of, by the objects that the cluster has."""

    def __init__(self, objects: Iterable[Object] = ()) -> None:
        self._coscheduling: dict[str, int] = {}
        self._volcano: dict[str, int] = {}
        self._own: dict[str, int] = {}
        self._workloads: dict[tuple[str, str], int] = {}
        for one in objects:
            if isinstance(one, CoschedulingGroup):
                self._coscheduling[one.key] = one.spec.min_member
            elif isinstance(one, VolcanoGroup):
                self._volcano[one.key] = one.spec.min_member
            elif isinstance(one, PodGroup):
                policy = one.spec.scheduling_policy
                self._own[one.key] = policy.gang.min_count if policy.gang else 0
            elif isinstance(one, Workload):
                for group in one.spec.pod_groups:
                    policy = group.policy
                    self._workloads[one.key, group.name] = policy.gang.min_count if policy.gang else 0

    def of(self, pod: Pod) -> Group | None:
        """The gang of the pod; None for one that is on its own, or of a group that one pod is enough for."""
        found = self._of(pod)
        return found if found is not None and found.minimum > 1 else None

    def _of(self, pod: Pod) -> Group | None:
        meta, spec = pod.metadata, pod.spec
        if not marked(pod):
            return None  # as nearly always

        def named(kind: str, name: str, known: Mapping[str, int]) -> Group | None:
            key = f"{meta.namespace}/{name}"
            return Group(kind, key, known[key]) if name and key in known else None

        own, reference = spec.scheduling_group, spec.workload_ref
        if own is not None and (found := named("PodGroup", own.pod_group_name, self._own)):
            return found
        if reference is not None:
            key = f"{meta.namespace}/{reference.name}"
            minimum = self._workloads.get((key, reference.pod_group), 0)
            parts = (key, reference.pod_group, reference.pod_group_replica_key)
            return Group("Workload", "/".join(filter(None, parts)), minimum)
        return (
            named("PodGroup", meta.labels.get(COSCHEDULING, ""), self._coscheduling)
            or named("PodGroup", meta.annotations.get(VOLCANO, ""), self._volcano)
            or _counted("Kueue", pod, meta.labels, KUEUE, meta.annotations, KUEUE_COUNT)
            or _counted(
                "Koordinator", pod, meta.annotations, KOORDINATOR, meta.annotations, KOORDINATOR_COUNT
            )
            or _counted("pod-group", pod, meta.labels, LIGHTWEIGHT, meta.labels, LIGHTWEIGHT_COUNT)
        )


class Running:
    """Which gangs run: enough of their pods are on nodes, or ended well. Time: O(pods)."""

    def __init__(self, pods: Iterable[Pod], groups: Groups) -> None:
        self._groups = groups
        self._there: dict[tuple[str, str], int] = defaultdict(int)
        for pod in pods:
            runs = pod.status.phase == "Succeeded" or (pod.spec.node_name and not pod.terminal)
            if runs and not pod.deleting and (group := groups.of(pod)) is not None:
                self._there[group.kind, group.name] += 1

    def stopped_without(self, pod: Pod) -> str:
        """What is said where the pod's gang runs, and others would have to go with it; "" where none does."""
        if pod.metadata.annotations.get(labels.GANG_MAY_STOP) == "true":
            return ""
        group = self._groups.of(pod)
        there = self._there.get((group.kind, group.name), 0) if group is not None else 0
        if group is None or there < group.minimum:
            return ""
        return f"Gang {group.name} needs {group.minimum} of its pods, of which {there} run (Pod={pod.key})"


def marked(pod: Pod) -> bool:
    """True iff the pod says that it is of a group, whether that is a gang or not."""
    meta, spec = pod.metadata, pod.spec
    if not (_LABELS.isdisjoint(meta.labels) and _ANNOTATIONS.isdisjoint(meta.annotations)):
        return True
    return spec.scheduling_group is not None or spec.workload_ref is not None


def _counted(
    kind: str, pod: Pod, named: Mapping[str, str], key: str, counted: Mapping[str, str], count: str
) -> Group | None:
    """A group whose pods say themselves how many they are."""
    name, text = named.get(key, ""), counted.get(count, "")
    if not name or not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        return None
    if kind == "Kueue" and any(counted.get(one) == "true" for one in (KUEUE_FAST, KUEUE_SERVING)):
        return None
    return Group(kind, f"{pod.metadata.namespace}/{name}", int(text))


def gangs_of(
    pods: Iterable[Pod],
    groups: Groups,
    standing: Iterable[tuple[Pod, ...]],
    settled: Callable[[], Iterable[Pod]] = tuple,
) -> tuple[Gang, ...]:
    """The gangs of these pods that still lack some, in order of name.

    `standing` are the pods of each node that is there; `settled` answers others that need no place: asked
    only where those of nodes are not enough. A group whose pods differ on the number needs the largest: what
    one pod says costs its own gang only. Time: O(pods), and O(standing) where there is a gang.
    """
    members: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    wanted: dict[tuple[str, str], int] = {}
    for pod in pods:
        if (found := groups.of(pod)) is not None:
            key = found.kind, found.name
            members[key].append(pod)
            wanted[key] = max(wanted.get(key, 0), found.minimum)
    if not members:
        return ()
    placed = _count((pod for there in standing for pod in there), groups, members)
    if any(placed[key] < minimum for key, minimum in wanted.items()):
        for key, number in _count(settled(), groups, members).items():
            placed[key] += number
    return tuple(
        Gang(
            kind, name, tuple(sorted(pod.key for pod in of)), lacking, placed[kind, name], wanted[kind, name]
        )
        for (kind, name), of in sorted(members.items())
        if (lacking := wanted[kind, name] - placed[kind, name]) > 0
    )


def _count(
    pods: Iterable[Pod], groups: Groups, known: Mapping[tuple[str, str], object]
) -> defaultdict[tuple[str, str], int]:
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    namespaces = {name.partition("/")[0] for _, name in known}
    for pod in pods:
        if pod.metadata.namespace in namespaces and (one := groups.of(pod)) is not None:
            found[one.kind, one.name] += (one.kind, one.name) in known
    return found
