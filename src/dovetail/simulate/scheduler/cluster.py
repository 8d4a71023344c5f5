"""What the scheduler knows: the view that its filters read, and what its scores read beside it."""

from __future__ import annotations

from collections import Counter

from dovetail.api.core import Node, Pod
from dovetail.api.meta import Object
from dovetail.api.workloads import PodDisruptionBudget, StorageClass
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.resources import pod_requests
from dovetail.model.scores import Occupancy, score_requests, shift
from dovetail.model.volumes import VolumeIndex
from dovetail.simulate.scheduler.sampling import NodeList


class Cluster:
    """Kept up to date by watch events, and by the scheduler's own bindings before their events come.

    Invariant: `order` has the nodes of `view`. `occupancy` counts the pods that are bound, and `priorities`
    are theirs, with how many have each.
    """

    def __init__(self) -> None:
        self.namespaces: dict[str, dict[str, str]] = {}
        self._volumes: dict[str, dict[str, Object]] = {}
        self.view = ClusterView()
        self.view.namespaces = self.namespaces
        self.order = NodeList()
        self.occupancy = Occupancy(self.view)
        self.priorities: dict[int, int] = {}
        self.budgets: dict[str, PodDisruptionBudget] = {}  # by key
        self._nodes: dict[str, Node] = {}
        self._bound: dict[str, tuple[Pod, str]] = {}  # pod key -> its latest state, its node

    def set_node(self, node: Node) -> bool:
        """Add or update a node; True iff something changed that filters look at."""
        known = self._nodes.get(node.metadata.name)
        self._nodes[node.metadata.name] = node
        if known is not None and _scheduling_view(known) == _scheduling_view(node):
            return False
        self.set_view(NodeView.of(node))
        return True

    def set_view(self, node: NodeView) -> None:
        """Add or update a node of which nothing else is known."""
        self.view.set_node(node)
        self.order.set(node.name, node.labels)

    def drop_node(self, name: str) -> None:
        """The node is gone; its pods may outlive it for a while."""
        self._nodes.pop(name, None)
        self.view.remove_node(name)
        self.order.drop(name)

    def bind(self, pod: Pod, node: str) -> bool:
        """The pod counts on that node from now on; True iff that is news."""
        known = self._bound.get(pod.key)
        self._bound[pod.key] = (pod, node)
        if known is not None and _matters(known[0]) == _matters(pod):
            return False
        self.view.add_pod(pod, node)
        if known is not None:
            self._count(known[0], node, -1)
        self._count(pod, node, 1)
        return known is None

    def bound(self, key: str) -> Pod | None:
        """The latest state of a pod that has a node."""
        found = self._bound.get(key)
        return None if found is None else found[0]

    def unbind(self, key: str) -> bool:
        """The pod is gone or has come to its end; True iff it had a node."""
        known = self._bound.pop(key, None)
        if known is None:
            return False
        self.view.remove_pod(key)
        self._count(*known, -1)
        return True

    def set_namespace(self, name: str, labels: dict[str, str]) -> None:
        """Selectors of namespaces read these labels."""
        self.namespaces[name] = labels
        self.view.version += 1

    def set_volume_object(self, obj: Object, *, gone: bool) -> None:
        """A PersistentVolumeClaim, PersistentVolume or StorageClass changed."""
        table = self._volumes.setdefault(obj.KIND, {})
        table.pop(obj.key, None)
        if not gone:
            table[obj.key] = obj
        index: dict[str, dict[str, Object]] = {
            field: dict(self._volumes.get(kind, {})) for field, kind in _VOLUME_FIELDS.items()
        }
        self.view.volumes = VolumeIndex(**index)  # type: ignore[arg-type]  # each table holds its own kind
        self.view.version += 1

    def check(self) -> None:
        """Assert the invariants; for tests."""
        self.view.check()
        assert sorted(self.order.names) == sorted(self.view.nodes)
        sums: dict[str, dict[str, int]] = {}
        for pod, node in self._bound.values():
            shift(sums.setdefault(node, {}), score_requests(pod), 1)
        requested = self.occupancy.requested
        assert {node: total for node, total in requested.items() if any(total.values())} == sums
        assert Counter(pod.spec.priority for pod, _ in self._bound.values()) == self.priorities

    def _count(self, pod: Pod, node: str, sign: int) -> None:
        priority = pod.spec.priority
        self.priorities[priority] = self.priorities.get(priority, 0) + sign
        if not self.priorities[priority]:
            del self.priorities[priority]
        self.occupancy.count(pod, node, sign)


_VOLUME_FIELDS = {
    "claims": "PersistentVolumeClaim",
    "volumes": "PersistentVolume",
    "classes": StorageClass.KIND,
}


def _scheduling_view(node: Node) -> tuple[object, ...]:
    spec = node.spec
    return (node.metadata.labels, spec.taints, spec.unschedulable, node.status.allocatable)


def _matters(pod: Pod) -> tuple[object, ...]:
    """What of a bound pod other pods' rules look at and may change: its requests are resized in place."""
    return (pod.metadata.uid, pod.metadata.labels, pod.deleting, pod_requests(pod))
