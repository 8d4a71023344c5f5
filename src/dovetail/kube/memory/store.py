"""Tables of documents with versions, history and an index of owners.

A stored document is never changed: every change stores a new one, which shares the untouched parts.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dovetail.api.apiextensions import CustomResourceDefinition
from dovetail.api.codec import decode, decode_next
from dovetail.api.meta import Object
from dovetail.api.scheme import KINDS
from dovetail.kube.client import ChangeType

T = TypeVar("T", bound=Object)
Document = dict[str, Any]
Key = tuple[str, str]  # (namespace, name); the namespace of a cluster-scoped object is empty
Place = tuple[type[Object], Key]


class Record(Generic[T]):
    """One version of one object. Its typed view is decoded once, when first asked for."""

    __slots__ = ("_before", "_view", "document", "kind", "version")

    def __init__(
        self, kind: type[T], document: Document, version: int, before: Record[T] | None = None
    ) -> None:
        self.kind = kind
        self.document = document
        self.version = version
        self._view: T | None = None
        # The version before this one as far as it helps to decode this one: never a chain of them.
        known = before._view if before is not None else None
        self._before = (before.document, known) if before is not None and known is not None else None

    @property
    def uid(self) -> str:
        return str(self.document["metadata"]["uid"])

    @property
    def view(self) -> T:
        if self._view is None:
            if self._before is not None:
                self._view, self._before = decode_next(self.document, *self._before), None
            else:
                self._view = decode(self.document, self.kind)
        return self._view


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One entry of a table's history. `before` is None for ADDED; `after` of DELETED is its last state."""

    type: ChangeType
    version: int
    after: Record[T]
    before: Record[T] | None


class Table(Generic[T]):
    """All objects of one kind, and what happened to them lately."""

    def __init__(self, kind: type[T], capacity: int) -> None:
        self.kind = kind
        self.records: dict[Key, Record[T]] = {}
        self.keys: list[Key] = []  # Invariant: the keys of `records`, sorted.
        self.history: list[Change[T]] = []  # Invariant: versions strictly ascend.
        self.forgotten = 0  # How many changes have left `history` since the start.
        self.compacted = 0  # The version up to which nothing is kept.
        self.bookmark = 0  # The version of the latest bookmark offered to readers.
        self._capacity = capacity
        self._waiting: list[asyncio.Future[None]] = []

    def select(self, namespace: str) -> Iterator[Record[T]]:
        """In order of namespace and name; an empty namespace means all."""
        keys = self.keys
        if namespace:
            keys = keys[bisect_left(keys, (namespace, "")) : bisect_left(keys, (namespace + "\0", ""))]
        return (self.records[key] for key in keys)

    def apply(self, change: Change[T], key: Key) -> None:
        """Take the change into records and history."""
        if change.type == "DELETED":
            del self.records[key]
            del self.keys[bisect_left(self.keys, key)]
        else:
            if change.type == "ADDED":
                insort(self.keys, key)
            self.records[key] = change.after
        self.history.append(change)
        # Trimmed by halves, so that a change costs the same however long the history is.
        if len(self.history) > 2 * self._capacity:
            self.forget(len(self.history) - self._capacity)

    def forget(self, count: int) -> None:
        """Drop the oldest changes; readers that have not read them yet get Expired."""
        if count:
            self.compacted = max(self.compacted, self.history[count - 1].version)
            del self.history[:count]
            self.forgotten += count

    def position(self, version: int) -> int:
        """The number, counted from the start, of the first change after that version."""
        return self.forgotten + bisect_right(self.history, version, key=lambda change: change.version)

    def wake(self) -> None:
        """Wake all that wait, in the order in which they came."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def news(self) -> None:
        """Return at the next `wake`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def check(self) -> None:
        """Assert the invariants of this table."""
        assert self.keys == sorted(self.records)
        versions = [change.version for change in self.history]
        assert versions == sorted(set(versions))
        assert not versions or versions[0] > self.compacted
        last = {_key(change.after.document): change for change in self.history}
        for key, change in last.items():
            kept = self.records.get(key)
            assert kept is None if change.type == "DELETED" else kept is change.after, key
        for key, record in self.records.items():
            self._check_record(key, record)

    def _check_record(self, key: Key, record: Record[T]) -> None:
        document, meta = record.document, record.document["metadata"]
        assert key == _key(document) and bool(key[0]) == self.kind.NAMESPACED
        assert meta["resourceVersion"] == str(record.version) and meta["creationTimestamp"]
        assert (document["apiVersion"], document["kind"]) == (self.kind.API_VERSION, self.kind.KIND)
        assert meta.get("generation", 1) >= 1
        if "deletionTimestamp" in meta:
            grace = meta.get("deletionGracePeriodSeconds")
            assert meta.get("finalizers") or grace, f"{key} should be gone"
        else:
            assert "deletionGracePeriodSeconds" not in meta


class Store:
    """Every table, the version counter, and which object owns which."""

    def __init__(self, history: int) -> None:
        self.version = 0
        kinds: tuple[type[Object], ...] = (*KINDS, CustomResourceDefinition)
        self.tables: dict[type[Object], Table[Any]] = {kind: Table(kind, history) for kind in kinds}
        self.places: dict[str, Place] = {}  # uid -> where it is
        # Owner's uid -> its dependants in order of adoption. Owners may be gone already.
        self.dependants: dict[str, dict[Place, None]] = {}

    def table(self, kind: type[T]) -> Table[T]:
        """The table of a kind that the scheme knows."""
        return self.tables[kind]

    def find(self, uid: str) -> Record[Any] | None:
        """The living object with that uid."""
        place = self.places.get(uid)
        return self.tables[place[0]].records[place[1]] if place else None

    def commit(self, kind: type[T], key: Key, document: Document, *, gone: bool = False) -> Change[T]:
        """Store a document as the next version of its object, or as its last one when it is gone."""
        table = self.table(kind)
        before = table.records.get(key)
        self.version += 1
        meta = {**document["metadata"], "resourceVersion": str(self.version)}
        after = Record(kind, {**document, "metadata": meta}, self.version, before)
        kind_of_change: ChangeType = "DELETED" if gone else "MODIFIED" if before else "ADDED"
        change = Change(kind_of_change, self.version, after, before)
        table.apply(change, key)
        self._index((kind, key), before, None if gone else after)
        return change

    def _index(self, place: Place, before: Record[Any] | None, after: Record[Any] | None) -> None:
        if before is not None and after is not None and _owned_as(before) is _owned_as(after):
            return  # as most changes leave it: an object keeps its uid for as long as it is there
        old, new = _owners(before), _owners(after)
        if before is not None and after is None:
            del self.places[before.uid]
        if after is not None:
            self.places[after.uid] = place
        for uid in old:
            if uid not in new:
                del self.dependants[uid][place]
                if not self.dependants[uid]:
                    del self.dependants[uid]
        for uid in new:
            self.dependants.setdefault(uid, {}).setdefault(place)

    def check(self) -> None:
        """Assert every invariant; for tests."""
        places: dict[str, Place] = {}
        owned: dict[str, set[Place]] = {}
        versions: list[int] = []
        for kind, table in self.tables.items():
            table.check()
            for key, record in table.records.items():
                assert record.uid not in places, "two objects share a uid"
                places[record.uid] = (kind, key)
                versions.append(record.version)
                for uid in _owners(record):
                    owned.setdefault(uid, set()).add((kind, key))
        assert places == self.places
        assert owned == {uid: set(found) for uid, found in self.dependants.items()}
        assert len(set(versions)) == len(versions) and max(versions, default=0) <= self.version


def _owned_as(record: Record[Any]) -> object:
    return record.document["metadata"].get("ownerReferences")


def _owners(record: Record[Any] | None) -> list[str]:
    if record is None:
        return []
    references = record.document["metadata"].get("ownerReferences") or ()
    return list(dict.fromkeys(reference["uid"] for reference in references))


def _key(document: Document) -> Key:
    meta = document["metadata"]
    return meta.get("namespace", ""), meta["name"]
