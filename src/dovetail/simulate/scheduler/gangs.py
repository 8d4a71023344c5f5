"""Which pods a scheduler of gangs looks at together, as coscheduling and kube-scheduler with PodGroups do."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.api.core import Pod
from dovetail.api.meta import Object
from dovetail.kube.client import EventType
from dovetail.model.gangs import Group, Groups, marked


@dataclass(frozen=True, slots=True)
class Lacking:
    """A gang of which not enough pods have a node yet."""

    name: str
    minimum: int
    bound: int  # that have one
    waiting: tuple[Pod, ...]  # that have none, in the order in which they came


class Gangs:
    """Follows groups, and the pods that say that they are of one."""

    def __init__(self) -> None:
        self._objects: dict[tuple[type[Object], str], Object] = {}
        self._groups = Groups()
        self._pods: dict[str, Pod] = {}  # by key

    def group_changed(self, change: EventType, group: Object) -> None:
        """An object says how many pods of a group must run together, or no more."""
        if change == "DELETED":
            self._objects.pop((type(group), group.key), None)
        else:
            self._objects[type(group), group.key] = group
        self._groups = Groups(self._objects.values())

    def pod_changed(self, change: EventType, pod: Pod) -> None:
        """A pod came, changed or went."""
        if change == "DELETED":
            self._pods.pop(pod.key, None)
        elif marked(pod):
            self._pods[pod.key] = pod

    def lacking(self, pod: Pod) -> Lacking | None:
        """The gang of a pod that waits; None where it may go on its own."""
        group = self._of(pod)
        if group is None:
            return None
        own = [one for one in self._pods.values() if self._of(one) == group]
        bound = sum(1 for one in own if _counts(one))
        if bound >= group.minimum:
            return None
        waiting = [one for one in own if not one.spec.node_name and not one.terminal and not one.deleting]
        free = tuple(one for one in waiting if not one.spec.scheduling_gates)
        return Lacking(group.name, group.minimum, bound, free)

    def _of(self, pod: Pod) -> Group | None:
        return self._groups.of(pod) if pod.key in self._pods else None


def _counts(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and pod.status.phase != "Failed"
