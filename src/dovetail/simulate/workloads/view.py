"""What the workload controllers know of the cluster: the last seen state of the kinds they work on.

Watch events arrive after the writes that caused them. So that a controller never acts twice, its own writes
enter the view at once: `learn` for created and patched objects, `mark_deleting` for deleted ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, KeysView
from typing import TypeVar

from dovetail.api.core import Pod
from dovetail.api.meta import Object
from dovetail.simulate.workloads.pods import Standing, standing

T = TypeVar("T", bound=Object)


class View:
    """Objects by kind and key, and the children of each controller, in order of arrival."""

    def __init__(self) -> None:
        # Kind name -> "namespace/name" -> object.
        self._objects: dict[str, dict[str, Object]] = {}
        # UID of a controlling owner -> (kind name, key) -> None. Invariant: exactly the objects above that
        # name this owner as their controller.
        self._children: dict[str, dict[tuple[str, str], None]] = {}
        # UID of a pod -> (UID of its controller, where it stands); of a controller -> pods by standing.
        # Invariant: the second counts the first, which has every known pod that has a controller.
        self._standings: dict[str, tuple[str, Standing]] = {}
        self._counts: dict[str, dict[Standing, int]] = {}
        # Name of a node -> pods bound to it.
        self._bound: dict[str, int] = {}
        # UIDs this side has asked to delete and not yet seen go: older events must not revive them.
        self._deleting: set[str] = set()
        # UIDs seen go: a late answer to a write must not bring them back.
        self._gone: set[str] = set()

    def learn(self, obj: Object) -> bool:
        """Take in an object unless something newer is known; True iff the view changed."""
        kind, key, meta = obj.KIND, obj.key, obj.metadata
        if meta.uid in self._gone:
            return False
        known = self._objects.setdefault(kind, {}).get(key)
        if known is not None and _version(known) >= _version(obj):
            return False
        if known is not None and known.metadata.uid != meta.uid:
            self.forget(known)  # its name is taken by another object, so it must have gone
        self._count_bound(self._objects[kind].get(key), obj)
        self._objects[kind][key] = obj
        owner = meta.controller()
        if owner is not None:
            self._children.setdefault(owner.uid, {})[(kind, key)] = None
            if isinstance(obj, Pod):
                self._stand(obj, owner.uid, Standing.LEAVING if self.is_deleting(obj) else standing(obj))
        return True

    def _stand(self, pod: Pod, owner: str, now: Standing | None) -> None:
        """Count the pod where it stands; None when it is gone."""
        if now is not None and self._standings.get(pod.metadata.uid) == (owner, now):
            return
        before = self._standings.pop(pod.metadata.uid, None)
        counts = self._counts.setdefault(owner, dict.fromkeys(Standing, 0))
        if before is not None:
            counts[before[1]] -= 1
        if now is not None:
            self._standings[pod.metadata.uid] = (owner, now)
            counts[now] += 1

    def forget(self, obj: Object) -> None:
        """The object is gone."""
        uid = obj.metadata.uid
        self._gone.add(uid)
        self._deleting.discard(uid)
        known = self._objects.get(obj.KIND, {}).get(obj.key)
        if known is None or known.metadata.uid != uid:
            return
        del self._objects[obj.KIND][obj.key]
        self._count_bound(known, None)
        owner = known.metadata.controller()
        if owner is not None:
            self._children.get(owner.uid, {}).pop((obj.KIND, obj.key), None)
            if isinstance(known, Pod):
                self._stand(known, owner.uid, None)

    def _count_bound(self, old: Object | None, new: Object | None) -> None:
        for obj, change in ((old, -1), (new, 1)):
            name = obj.spec.node_name if isinstance(obj, Pod) else ""
            if name:
                self._bound[name] = self._bound.get(name, 0) + change
                if not self._bound[name]:
                    del self._bound[name]

    def nodes_with_pods(self) -> KeysView[str]:
        """The names that pods are bound to, of nodes that may not exist."""
        return self._bound.keys()

    def mark_deleting(self, obj: Object) -> None:
        """This side has asked for the object's deletion."""
        self._deleting.add(obj.metadata.uid)
        owner = obj.metadata.controller()
        if isinstance(obj, Pod) and owner is not None and obj.metadata.uid in self._standings:
            self._stand(obj, owner.uid, Standing.LEAVING)

    def is_deleting(self, obj: Object) -> bool:
        """True iff the object is on its way out, whoever asked for it."""
        return obj.deleting or obj.metadata.uid in self._deleting

    def get(self, kind: type[T], key: str) -> T | None:
        """The object of that key, if known."""
        found = self._objects.get(kind.KIND, {}).get(key)
        return found if isinstance(found, kind) else None

    def all(self, kind: type[T]) -> Iterator[T]:
        """Every object of a kind, in order of arrival."""
        return (obj for obj in self._objects.get(kind.KIND, {}).values() if isinstance(obj, kind))

    def count(self, owner: Object, *standings: Standing) -> int:
        """How many pods, whose controller is `owner`, stand at one of these; no pod is looked at."""
        counts = self._counts.get(owner.metadata.uid, {})
        return sum(counts.get(item, 0) for item in standings)

    def owned(self, owner: Object, kind: type[T]) -> tuple[T, ...]:
        """The objects of `kind` whose controller is `owner` and that are not on their way out."""
        children = self._children.get(owner.metadata.uid, {})
        found = (self.get(kind, key) for name, key in children if name == kind.KIND)
        return tuple(obj for obj in found if obj is not None and not self.is_deleting(obj))

    def leaving(self, owner: Object, kind: type[T]) -> tuple[T, ...]:
        """The objects of `kind` whose controller is `owner` and that are on their way out."""
        children = self._children.get(owner.metadata.uid, {})
        found = (self.get(kind, key) for name, key in children if name == kind.KIND)
        return tuple(obj for obj in found if obj is not None and self.is_deleting(obj))

    def check(self) -> None:
        """Assert the invariants; for tests."""
        counted: dict[str, dict[Standing, int]] = {}
        for pod in self.all(Pod):
            owner = pod.metadata.controller()
            if owner is not None:
                assert (pod.KIND, pod.key) in self._children[owner.uid]
                now = Standing.LEAVING if self.is_deleting(pod) else standing(pod)
                assert self._standings[pod.metadata.uid] == (owner.uid, now)
                counts = counted.setdefault(owner.uid, dict.fromkeys(Standing, 0))
                counts[now] += 1
        assert self._bound == Counter(pod.spec.node_name for pod in self.all(Pod) if pod.spec.node_name)
        nothing = dict.fromkeys(Standing, 0)
        assert {uid: counts for uid, counts in self._counts.items() if counts != nothing} == counted


def _version(obj: Object) -> int:
    return int(obj.metadata.resource_version or 0)
