"""Garbage collection by owner references, as the control plane does it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from dovetail.api.core import Namespace
from dovetail.kube.memory.store import Change, Place, Record

if TYPE_CHECKING:
    from dovetail.kube.memory.server import MemoryServer

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
FINALIZERS = {"Foreground": FOREGROUND, "Orphan": ORPHAN}


class Collector:
    """Looks again at every object whose owners or dependants changed, first come, first served.

    An owner is *solid* while it lives, *waiting* while its foreground deletion waits for this dependant, and
    *absent* otherwise. An object with a solid owner only loses its other references; one without goes.
    """

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._queue: deque[Place] = deque()
        self._queued: dict[Place, None] = {}  # Invariant: the same places as in `_queue`.
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Collect, for ever."""
        while True:
            self._news.clear()
            self.collect()
            await self._news.wait()

    def collect(self) -> None:
        """Work until nothing is left to look at."""
        while self._queue:
            place = self._queue.popleft()
            del self._queued[place]
            record = self._server.store.tables[place[0]].records.get(place[1])
            if record is not None:
                self._look(record)

    def notice(self, change: Change[Any]) -> None:
        """Remember which objects the change concerns."""
        store, document = self._server.store, change.after.document
        meta = document["metadata"]
        place: Place = (change.after.kind, (meta.get("namespace", ""), meta["name"]))
        if change.type == "DELETED":
            for dependant in store.dependants.get(change.after.uid, ()):
                self._add(dependant)
            self._add_owners(meta)
            if change.after.kind is Namespace:
                self._add_contents(meta["name"])
            return
        before = change.before.document["metadata"] if change.before is not None else {}
        if meta.get("ownerReferences") != before.get("ownerReferences"):
            self._add(place)
            self._add_owners(before)
        if "deletionTimestamp" in meta and self._is_held(meta):
            self._add(place)

    def _add(self, place: Place) -> None:
        if place not in self._queued:
            self._queued[place] = None
            self._queue.append(place)
            self._news.set()

    def _add_owners(self, meta: dict[str, Any]) -> None:
        """Owners may be waiting for this dependant to go."""
        for reference in meta.get("ownerReferences") or ():
            place = self._server.store.places.get(reference["uid"])
            if place is not None:
                self._add(place)

    def _add_contents(self, namespace: str) -> None:
        for kind, table in self._server.store.tables.items():
            if kind.NAMESPACED:
                for record in table.select(namespace):
                    self._add((kind, (namespace, record.document["metadata"]["name"])))

    @staticmethod
    def _is_held(meta: dict[str, Any]) -> bool:
        finalizers = meta.get("finalizers") or ()
        return FOREGROUND in finalizers or ORPHAN in finalizers

    def _look(self, record: Record[Any]) -> None:
        meta = record.document["metadata"]
        if "deletionTimestamp" in meta:
            finalizers = meta.get("finalizers") or ()
            if ORPHAN in finalizers:
                self._release(record)
            elif FOREGROUND in finalizers:
                self._finish_foreground(record)
        elif self._is_homeless(meta):
            self._delete(record, "Background")
        elif meta.get("ownerReferences"):
            self._look_at_owners(record)

    def _is_homeless(self, meta: dict[str, Any]) -> bool:
        namespace = meta.get("namespace", "")
        return bool(namespace) and ("", namespace) not in self._server.store.table(Namespace).records

    def _look_at_owners(self, record: Record[Any]) -> None:
        references = record.document["metadata"]["ownerReferences"]
        states = [self._state(reference) for reference in references]
        if "solid" in states:
            kept = [item for item, state in zip(references, states, strict=True) if state == "solid"]
            if len(kept) < len(references):
                self._patch(record, {"ownerReferences": kept})
        elif "waiting" in states and self._server.store.dependants.get(record.uid):
            self._delete(record, "Foreground")
        else:
            self._delete(record, "Background")

    def _state(self, reference: dict[str, Any]) -> str:
        owner = self._server.store.find(reference["uid"])
        if owner is None:
            return "absent"
        meta = owner.document["metadata"]
        waits = "deletionTimestamp" in meta and FOREGROUND in (meta.get("finalizers") or ())
        return "waiting" if waits else "solid"

    def _finish_foreground(self, record: Record[Any]) -> None:
        """Let the owner go once no dependant is left that blocks its deletion."""
        blocked = False
        for kind, key in tuple(self._server.store.dependants.get(record.uid, ())):
            dependant = self._server.store.tables[kind].records[key]
            if "deletionTimestamp" not in dependant.document["metadata"]:
                self._add((kind, key))
            references = dependant.document["metadata"]["ownerReferences"]
            blocked |= any(
                item["uid"] == record.uid and item.get("blockOwnerDeletion") for item in references
            )
        if not blocked:
            self._drop_finalizer(record, FOREGROUND)

    def _release(self, record: Record[Any]) -> None:
        """Cut the dependants loose, then let the owner go."""
        for kind, key in tuple(self._server.store.dependants.get(record.uid, ())):
            dependant = self._server.store.tables[kind].records[key]
            references = dependant.document["metadata"]["ownerReferences"]
            kept = [item for item in references if item["uid"] != record.uid]
            self._patch(dependant, {"ownerReferences": kept})
        self._drop_finalizer(record, ORPHAN)

    def _drop_finalizer(self, record: Record[Any], finalizer: str) -> None:
        finalizers = record.document["metadata"]["finalizers"]
        self._patch(record, {"finalizers": [item for item in finalizers if item != finalizer]})

    def _patch(self, record: Record[Any], meta: dict[str, Any]) -> None:
        own = record.document["metadata"]
        self._server.patch(record.kind, own["name"], own.get("namespace", ""), merge_patch={"metadata": meta})

    def _delete(self, record: Record[Any], propagation: Any) -> None:
        own = record.document["metadata"]
        self._server.delete(
            record.kind, own["name"], own.get("namespace", ""), uid=record.uid, propagation=propagation
        )
