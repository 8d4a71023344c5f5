"""What the workload controllers know of the cluster: the last seen state of the kinds they work on.

Watch events arrive after the writes that caused them. So that a controller never acts twice, its own writes
enter the view at once: `learn` for created and patched objects, `mark_deleting` for deleted ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from dovetail.api.meta import Object

T = TypeVar("T", bound=Object)


class View:
    """Objects by kind and key, and the children of each controller, in order of arrival."""

    def __init__(self) -> None:
        # Kind name -> "namespace/name" -> object.
        self._objects: dict[str, dict[str, Object]] = {}
        # UID of a controlling owner -> (kind name, key) -> None. Invariant: exactly the objects above that
        # name this owner as their controller.
        self._children: dict[str, dict[tuple[str, str], None]] = {}
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
        if known is not None and known.metadata.uid == meta.uid and _version(known) >= _version(obj):
            return False
        self._objects[kind][key] = obj
        owner = meta.controller()
        if owner is not None:
            self._children.setdefault(owner.uid, {})[(kind, key)] = None
        return True

    def forget(self, obj: Object) -> None:
        """The object is gone."""
        uid = obj.metadata.uid
        self._gone.add(uid)
        self._deleting.discard(uid)
        known = self._objects.get(obj.KIND, {}).get(obj.key)
        if known is None or known.metadata.uid != uid:
            return
        del self._objects[obj.KIND][obj.key]
        owner = known.metadata.controller()
        if owner is not None:
            self._children.get(owner.uid, {}).pop((obj.KIND, obj.key), None)

    def mark_deleting(self, obj: Object) -> None:
        """This side has asked for the object's deletion."""
        self._deleting.add(obj.metadata.uid)

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


def _version(obj: Object) -> int:
    return int(obj.metadata.resource_version or 0)
