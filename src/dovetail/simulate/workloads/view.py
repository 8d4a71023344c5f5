"""What the workload controllers know of the cluster: the last seen state of the kinds they work on.

Watch events arrive after the writes that caused them. So that a controller never acts twice, its own writes
enter the view at once: `learn` for created and patched objects, `mark_deleting` for deleted ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar

from dovetail.api.core import Node, Pod
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
        # What `owned` answered, by UID of the owner and kind name, until a child of that owner changes.
        self._owned: dict[str, dict[str, tuple[Any, ...]]] = {}
        # Name of a node -> pods bound to it; those of these names that no known node has.
        self._bound: dict[str, int] = {}
        self._nodeless: set[str] = set()
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
        if isinstance(obj, Node):
            self._nodeless.discard(key)
        owner = meta.controller()
        if owner is not None:
            self._owned.pop(owner.uid, None)
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
        self._owned.pop(uid, None)
        self._deleting.discard(uid)
        known = self._objects.get(obj.KIND, {}).get(obj.key)
        if known is None or known.metadata.uid != uid:
            return
        del self._objects[obj.KIND][obj.key]
        self._count_bound(known, None)
        if isinstance(known, Node) and known.key in self._bound:
            self._nodeless.add(known.key)
        owner = known.metadata.controller()
        if owner is not None:
            self._owned.pop(owner.uid, None)
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
                    self._nodeless.discard(name)
                elif self.get(Node, name) is None:
                    self._nodeless.add(name)

    def nodeless(self) -> bool:
        """True iff pods are bound to nodes that are not there."""
        return bool(self._nodeless)

    def mark_deleting(self, obj: Object) -> None:
        """This side has asked for the object's deletion."""
        self._deleting.add(obj.metadata.uid)
        owner = obj.metadata.controller()
        if owner is not None:
            self._owned.pop(owner.uid, None)
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
        counts = self._counts.get(owner.metadata.uid)
        return sum([counts[item] for item in standings]) if counts is not None else 0

    def owned(self, owner: Object, kind: type[T]) -> tuple[T, ...]:
        """The objects of `kind` whose controller is `owner` and that are not on their way out."""
        known = self._owned.setdefault(owner.metadata.uid, {})
        if kind.KIND not in known:
            children = self._children.get(owner.metadata.uid, {})
            found = (self.get(kind, key) for name, key in children if name == kind.KIND)
            known[kind.KIND] = tuple(obj for obj in found if obj is not None and not self.is_deleting(obj))
        return known[kind.KIND]

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
        assert self._nodeless == self._bound.keys() - {node.key for node in self.all(Node)}
        for uid, known in self._owned.items():
            for kind, found in known.items():
                keys = [key for name, key in self._children.get(uid, {}) if name == kind]
                children = [self._objects[kind][key] for key in keys]
                assert found == tuple(one for one in children if not self.is_deleting(one))
        nothing = dict.fromkeys(Standing, 0)
        assert {uid: counts for uid, counts in self._counts.items() if counts != nothing} == counted


def _version(obj: Object) -> int:
    return int(obj.metadata.resource_version or 0)
