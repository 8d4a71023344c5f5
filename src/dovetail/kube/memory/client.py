"""The typed port over the embedded server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from dovetail.api.codec import encode
from dovetail.api.meta import Object
from dovetail.kube.client import Listing, WatchEvent
from dovetail.kube.memory.store import Record
from dovetail.kube.memory.watch import Watch
from dovetail.kube.unreadable import UNREADABLE, Unreadable, unreadable

if TYPE_CHECKING:
    from dovetail.kube.memory.server import MemoryServer

T = TypeVar("T", bound=Object)


class MemoryClient:
    """kube.client.Client over a MemoryServer; `user` says who asks. Nothing suspends but reading a watch."""

    def __init__(self, server: MemoryServer, user: str = "") -> None:
        self._server = server
        self.user = user

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        return self._server.record(kind, name, namespace).view

    async def list(
        self, kind: type[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        found = self._server.list(kind, namespace, labels=labels, fields=fields)
        return listing(found, self._server.store.version)

    def watch(
        self,
        kind: type[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent[T]]:
        watch = self._server.watch(
            kind, namespace, resource_version=resource_version, labels=labels, fields=fields
        )
        return _Views(watch)

    async def create(self, obj: T) -> T:
        view: T = self._server.create_own(encode(obj)).view
        return view

    async def patch(
        self,
        kind: type[T],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        json: Sequence[Mapping[str, Any]] | None = None,
        status: bool = False,
    ) -> T:
        record = self._server.patch(kind, name, namespace, merge_patch=merge, json_patch=json, status=status)
        return record.view

    async def delete(
        self,
        kind: type[Object],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> None:
        self._server.delete(
            kind,
            name,
            namespace,
            uid=uid,
            grace_period_seconds=grace_period_seconds,
            propagation=propagation,
        )

    async def evict(self, name: str, namespace: str, *, uid: str = "", resource_version: str = "") -> None:
        self._server.evict(name, namespace, uid=uid, resource_version=resource_version)

    async def bind(self, name: str, namespace: str, node: str) -> None:
        self._server.bind(name, namespace, node)


class _Views(AsyncIterator[WatchEvent[T]]):
    """A watch whose changes are decoded."""

    def __init__(self, watch: Watch[T]) -> None:
        self._watch = watch

    async def __anext__(self) -> WatchEvent[T]:
        found = self._watch.read()
        kind, change = found if found is not None else await self._watch.__anext__()
        if isinstance(change, int):
            return WatchEvent(kind, None, str(change))
        item = _read(change.after)
        if isinstance(item, Unreadable):
            return WatchEvent(kind, None, str(change.version), item)
        return WatchEvent(kind, item, str(change.version))


def listing(records: Iterable[Record[T]], version: int) -> Listing[T]:
    """Those records as of that version."""
    items: list[T] = []
    unreadable: list[Unreadable[T]] = []
    for record in records:
        found = _read(record)
        if isinstance(found, Unreadable):
            unreadable.append(found)
        else:
            items.append(found)
    return Listing(tuple(items), str(version), tuple(unreadable))


def _read(record: Record[T]) -> T | Unreadable[T]:
    try:
        return record.view
    except UNREADABLE as error:
        found = unreadable(record.kind, record.document, error)
        if found is None:
            raise
        return found
