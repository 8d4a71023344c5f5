"""A local copy of one kind, kept up to date by a watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from dovetail.api.meta import Object
from dovetail.base.errors import Expired
from dovetail.kube.client import Client, EventType

T = TypeVar("T", bound=Object)


class Informer(Generic[T]):
    """Lists, then watches, and lists again when the watch fell too far behind.

    `on_event(type, object)` learns of every difference to what it was told before: ADDED, MODIFIED, or
    DELETED with the last state known. It is called with the copy already up to date.
    """

    def __init__(
        self,
        client: Client,
        kind: type[T],
        on_event: Callable[[EventType, T], None],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> None:
        self.objects: dict[str, T] = {}  # by key ("namespace/name", or the name)
        self._client = client
        self._kind = kind
        self._on_event = on_event
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._listed = asyncio.Event()

    @property
    def synced(self) -> bool:
        """True iff the first list has been taken in."""
        return self._listed.is_set()

    async def wait_synced(self) -> None:
        """Return once the first list has been taken in."""
        await self._listed.wait()

    async def run(self) -> None:
        """Keep the copy up to date, for ever."""
        while True:
            version = await self._list()
            self._listed.set()
            try:
                await self._follow(version)
            except Expired:
                continue

    async def _list(self) -> str:
        listing = await self._client.list(
            self._kind, self._namespace, labels=self._labels, fields=self._fields
        )
        self._replace(listing.items)
        return listing.resource_version

    def _replace(self, items: Iterable[T]) -> None:
        present = {item.key: item for item in items}
        for key, old in list(self.objects.items()):
            new = present.get(key)
            # An object that was deleted and made again meanwhile is another one.
            if new is None or new.metadata.uid != old.metadata.uid:
                del self.objects[key]
                self._on_event("DELETED", old)
        for item in present.values():
            self._take(item)

    def _take(self, item: T) -> None:
        old = self.objects.get(item.key)
        if old is not None and old.metadata.resource_version == item.metadata.resource_version:
            return
        self.objects[item.key] = item
        self._on_event("MODIFIED" if old is not None else "ADDED", item)

    async def _follow(self, version: str) -> None:
        watch = self._client.watch(
            self._kind,
            self._namespace,
            resource_version=version,
            labels=self._labels,
            fields=self._fields,
        )
        async for event in watch:
            if event.object is None:
                continue
            if event.type == "DELETED":
                self.objects.pop(event.object.key, None)
                self._on_event("DELETED", event.object)
            else:
                self._take(event.object)
