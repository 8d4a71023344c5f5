"""A local copy of one kind, kept up to date by a watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from dovetail.api.meta import Object
from dovetail.base.errors import ApiError, Expired, Forbidden, Unauthorized
from dovetail.kube.client import Client, EventType
from dovetail.kube.unreadable import Unreadable, stand_in

T = TypeVar("T", bound=Object)
_FIRST_PAUSE = 0.1  # seconds before the server is asked again after it refused, doubled each time
_LONGEST_PAUSE = 10.0
_REMEMBERED = 10_000  # deleted objects that are known to be gone


class Informer(Generic[T]):
    """Lists, then watches, and lists again when the watch broke off or fell too far behind.

    A server that refuses is asked again, ever more slowly. Events may come twice or late: what is older than
    what is known of an object is passed over, so that nothing that was deleted comes back.

    `on_refused(text)` learns why credentials or rights do not do, once for each reason until a list succeeds.
    `on_event(type, object)` learns of every difference to what it was told before: ADDED, MODIFIED, or
    DELETED with the last state known. It is called with the copy already up to date.

    An object that cannot be read costs itself only: `unreadable` has it, and `objects` its stand-in, if any.
    `on_unreadable(kind, object)` learns of each of its versions; of None once it is read again, or gone.
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
        on_refused: Callable[[str], None] = lambda _: None,
        on_unreadable: Callable[[type[Object], Unreadable[T] | None], None] = lambda _, __: None,
    ) -> None:
        self.objects: dict[str, T] = {}  # by key ("namespace/name", or the name)
        self.unreadable: dict[str, Unreadable[T]] = {}  # by key
        self._client = client
        self._kind = kind
        self._on_event = on_event
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._on_refused = on_refused
        self._on_unreadable = on_unreadable
        self._refusal = ""  # the last one that was told
        self._listed = asyncio.Event()
        self._gone: dict[str, int] = {}  # key of a deleted object -> the version of its deletion

    @property
    def synced(self) -> bool:
        """True iff the first list has been taken in."""
        return self._listed.is_set()

    async def wait_synced(self) -> None:
        """Return once the first list has been taken in."""
        await self._listed.wait()

    async def run(self) -> None:
        """Keep the copy up to date, for ever."""
        pause = _FIRST_PAUSE
        while True:
            try:
                version = await self._list()
                self._listed.set()
                self._refusal = ""
                pause = _FIRST_PAUSE
                await self._follow(version)
            except Expired:
                continue
            except ApiError as error:
                if isinstance(error, Forbidden | Unauthorized) and str(error) != self._refusal:
                    self._refusal = str(error)
                    self._on_refused(self._refusal)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _list(self) -> str:
        listing = await self._client.list(
            self._kind, self._namespace, labels=self._labels, fields=self._fields
        )
        version = int(listing.resource_version)
        present = {item.key: item for item in listing.items}
        lost = {item.key: item for item in listing.unreadable}
        for key, old in list(self.objects.items()):
            new = present.get(key)
            if new is None and key in lost:
                new = lost[key].salvaged
            # An object that was deleted and made again meanwhile is another one. One that is newer than the
            # list is not missing from it: the list is old.
            if new is None and _version(old) <= version:
                self._forget(old, version)
            elif new is not None and new.metadata.uid != old.metadata.uid and _version(old) < _version(new):
                self._forget(old, _version(old))
        for key, known in list(self.unreadable.items()):
            if key not in lost and int(known.version) <= version:
                self._readable(key)
        for item in present.values():
            self._take(item)
        for bad in lost.values():
            self._lose(bad)
        return listing.resource_version

    def _lose(self, bad: Unreadable[T]) -> None:
        """The object is as it cannot be read from that version on."""
        key, version = bad.key, int(bad.version)
        if self._outdated(key, version):
            return
        old = self.objects.get(key)
        if old is not None and old.metadata.uid != bad.salvaged.metadata.uid:
            self._forget(old, _version(old))
            old = None
        instead = stand_in(bad, old)
        self._gone.pop(key, None)
        self.unreadable[key] = bad
        if instead is None and old is not None:
            self._forget(old, _version(old))
            self.unreadable[key] = bad  # it is not gone
        elif instead is not None and instead is not old:
            self.objects[key] = instead
            self._on_event("MODIFIED" if old is not None else "ADDED", instead)
        self._on_unreadable(self._kind, bad)

    def _readable(self, key: str) -> None:
        """The object is read again, or gone."""
        if self.unreadable.pop(key, None) is not None:
            self._on_unreadable(self._kind, None)

    def _take(self, item: T) -> None:
        key = item.key
        if self._outdated(key, _version(item)):
            return
        self._readable(key)
        old = self.objects.get(key)
        self._gone.pop(key, None)
        self.objects[key] = item
        self._on_event("MODIFIED" if old is not None else "ADDED", item)

    def _forget(self, last: T, version: int) -> None:
        """The object is gone since that version; an informer may learn of it without having known it."""
        self._readable(last.key)
        known = self.objects.pop(last.key, None)
        self._gone[last.key] = version
        if len(self._gone) > _REMEMBERED:
            newest = sorted(self._gone.items(), key=lambda item: item[1])[_REMEMBERED // 2 :]
            self._gone = dict(newest)
        if known is not None:
            self._on_event("DELETED", last)

    def _outdated(self, key: str, version: int) -> bool:
        """True iff the object is known as of that version, or was deleted at it or later."""
        bad = self.unreadable.get(key)
        if bad is not None:
            return version <= int(bad.version)
        known = self.objects.get(key)
        return version <= (_version(known) if known is not None else self._gone.get(key, -1))

    async def _follow(self, version: str) -> None:
        watch = self._client.watch(
            self._kind,
            self._namespace,
            resource_version=version,
            labels=self._labels,
            fields=self._fields,
        )
        async for event in watch:
            bad = event.unreadable
            item = bad.salvaged if bad is not None else event.object
            if item is None:
                continue
            if event.type == "DELETED":
                if not self._outdated(item.key, int(event.resource_version)):
                    self._forget(self.objects.get(item.key, item), int(event.resource_version))
            elif bad is not None:
                self._lose(bad)
            else:
                self._take(item)


def _version(item: Object) -> int:
    """Versions of one kind are numbers that grow; Kubernetes lets clients compare them."""
    return int(item.metadata.resource_version)
