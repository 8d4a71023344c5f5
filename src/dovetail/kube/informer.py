"""A local copy of one kind, kept up to date by a watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from dovetail.api.meta import Object
from dovetail.base.errors import ApiError, Expired, Forbidden, NotFound, Unauthorized
from dovetail.kube.client import Client, EventType
from dovetail.kube.unreadable import Unreadable, stand_in

T = TypeVar("T", bound=Object)
_FIRST_PAUSE = 0.1  # seconds before the server is asked again after it refused, doubled each time
_LONGEST_PAUSE = 10.0
_REMEMBERED = 10_000  # deleted objects that are known to be gone, 0.2 KiB each
# Lists in a row that are older than what was seen before, and seconds from the first to the last of them:
# then the server was set back. Behind a load balancer the next list may come from another replica, and one
# that is up follows the others within a second or so: none lags for half a minute.
_OLDER_LISTS = 3
_OLDER_SECONDS = 30.0
_ABSENT_SECONDS = 60.0  # until it is asked again whether there is a kind that a cluster may lack
_GONE_SECONDS = 600.0  # for so long they are known to be gone: no server lags that far behind


class Informer(Generic[T]):
    """Lists, then watches, and lists again when the watch broke off or fell too far behind.

    A server that refuses is asked again, ever more slowly. Events may come twice or late: what is older than
    what is known of an object is passed over, so that nothing that was deleted comes back. Unless the server
    itself was set back, restored from a backup: then what it lists takes the place of all that was known, and
    `on_restored(seen, listed)` gets the two versions.

    `on_refused(text)` learns why credentials or rights do not do, once for each reason until a list succeeds.
    `on_event(type, object)` gets every difference to what it got before: ADDED, MODIFIED, or
    DELETED with the last state known. It is called with the copy already up to date.

    An object that cannot be read costs itself only: `unreadable` has it, and `objects` its stand-in, if any.
    With `optional` there are no objects while the server lacks the kind, or does not let it be listed: all is
    well then.
    `on_unreadable(kind, object)` learns of each of its versions; of None once it is read again, or gone.
    """

    def __init__(
        self,
        client: Client,
        kind: type[T],
        on_event: Callable[[EventType, T], None],
        *,
        namespace: str = "",
        on_refused: Callable[[str], None] = lambda _: None,
        on_unreadable: Callable[[type[Object], Unreadable[T] | None], None] = lambda _, __: None,
        on_restored: Callable[[int, int], None] = lambda *_: None,
        optional: bool = False,
    ) -> None:
        self.objects: dict[str, T] = {}  # by key ("namespace/name", or the name)
        self.unreadable: dict[str, Unreadable[T]] = {}  # by key
        self._client = client
        self._kind = kind
        self._on_event = on_event
        self._namespace = namespace
        self._on_refused = on_refused
        self._on_unreadable = on_unreadable
        self._on_restored = on_restored
        self._optional = optional
        self._refusal = ""  # the last one that was reported
        self._newest = 0  # the highest version that the server has shown
        self._older = 0  # lists in a row that were older than that
        self._older_since = 0.0  # when the first of them came; all instants are the event loop's
        self._trouble: tuple[float, str] | None = None  # since when neither lists nor watches work, and why
        self._watching: float | None = None  # since when the present watch is open
        self._listed = asyncio.Event()
        # Key of a deleted object -> the version of its deletion, and the instant, in the order of these.
        self._gone: dict[str, tuple[int, float]] = {}

    @property
    def synced(self) -> bool:
        """True iff the first list has been taken in."""
        return self._listed.is_set()

    async def wait_synced(self) -> None:
        """Return once the first list has been taken in."""
        await self._listed.wait()

    @property
    def trouble(self) -> tuple[float, str]:
        """For how many seconds neither lists nor watches worked, and why; (0, "") when all is well."""
        now = asyncio.get_running_loop().time()
        if self._trouble is None or self._lasting(now):
            return 0.0, ""
        since, why = self._trouble
        return now - since, why

    def _lasting(self, now: float) -> bool:
        """True iff the watch has been open for longer than one that the server refuses."""
        return self._watching is not None and now - self._watching > _LONGEST_PAUSE

    async def run(self) -> None:
        """Keep the copy up to date, for ever."""
        loop = asyncio.get_running_loop()
        self._trouble = loop.time(), "its first list has not come"
        pause = _FIRST_PAUSE
        while True:
            try:
                version = await self._list()
                self._listed.set()
                self._refusal = ""
                self._watching = loop.time()
                # A watch shows what comes after an old list, and never whether the server was set back.
                async with asyncio.timeout(_OLDER_SECONDS / (_OLDER_LISTS - 1) if self._older else None):
                    await self._follow(version)
            except (Expired, TimeoutError):
                self._well_if_lasting()
            except ApiError as error:
                if isinstance(error, Forbidden | Unauthorized) and str(error) != self._refusal:
                    self._refusal = str(error)
                    self._on_refused(self._refusal)
                if self._optional and isinstance(error, Forbidden | NotFound):
                    self._absent()
                    await asyncio.sleep(_ABSENT_SECONDS)
                    continue
                if self._well_if_lasting():
                    pause = _FIRST_PAUSE
                since = self._trouble[0] if self._trouble is not None else loop.time()
                self._trouble = since, str(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _absent(self) -> None:
        """There is no such kind (any more), and so no object of it."""
        self._trouble = self._watching = None
        for key in list(self.unreadable):
            self._readable(key)
        for key, old in list(self.objects.items()):
            del self.objects[key]
            self._on_event("DELETED", old)
        self._listed.set()

    def _well_if_lasting(self) -> bool:
        """A watch has ended. True iff it had shown that all is well."""
        if self._lasting(asyncio.get_running_loop().time()):
            self._trouble = None
        self._watching = None
        return self._trouble is None

    async def _list(self) -> str:
        listing = await self._client.list(self._kind, self._namespace)
        version = int(listing.resource_version)
        present = {item.key: item for item in listing.items}
        lost = {item.key: item for item in listing.unreadable}
        if self._restored(version, present):
            self._on_restored(self._newest, version)
            self._replace(present, lost)
            self._newest = version
            return listing.resource_version
        self._newest = max(self._newest, version)
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
        self._gone.pop(key, None)
        self._stand_in(bad)

    def _stand_in(self, bad: Unreadable[T]) -> None:
        """Let what is safe to believe take the place of an object that cannot be read."""
        key, old = bad.key, self.objects.get(bad.key)
        instead = stand_in(bad, old)
        self.unreadable[key] = bad
        if instead is not None and instead is not old:
            self.objects[key] = instead
            self._on_event("MODIFIED" if old is not None else "ADDED", instead)
        elif instead is None and old is not None:
            del self.objects[key]
            self._on_event("DELETED", old)
        self._on_unreadable(self._kind, bad)

    def _readable(self, key: str) -> None:
        """The object is read again, or gone."""
        if self.unreadable.pop(key, None) is not None:
            self._on_unreadable(self._kind, None)

    def _restored(self, version: int, present: dict[str, T]) -> bool:
        """True iff the list shows that the server's history is another one than what was seen of it.

        Versions that only lag are no proof, until they do so for long. An object in a state that is older
        than one which the list must know is proof: the server was set back, and has come past that since.
        """
        if version >= self._newest:
            self._older = 0
            known = ((self.objects.get(key), item) for key, item in present.items())
            return any(old is not None and _version(item) < _version(old) <= version for old, item in known)
        now = asyncio.get_running_loop().time()
        self._older += 1
        if self._older == 1:
            self._older_since = now
        if self._older < _OLDER_LISTS or now - self._older_since < _OLDER_SECONDS:
            return False
        self._older = 0
        return True

    def _replace(self, present: dict[str, T], lost: dict[str, Unreadable[T]]) -> None:
        """Take the list for all there is, whatever is known."""
        self._gone.clear()
        for key in list(self.unreadable):
            self._readable(key)
        for key, old in list(self.objects.items()):
            new = present.get(key) or (lost[key].salvaged if key in lost else None)
            if new is None or new.metadata.uid != old.metadata.uid:
                del self.objects[key]
                self._on_event("DELETED", old)
        for key, item in present.items():
            known = self.objects.get(key)
            if item != known:  # two histories may have the same version of it with other contents
                self.objects[key] = item
                self._on_event("MODIFIED" if known is not None else "ADDED", item)
        for bad in lost.values():
            self._stand_in(bad)

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
        now = asyncio.get_running_loop().time()
        self._gone.pop(last.key, None)
        self._gone[last.key] = version, now
        oldest = next(iter(self._gone))
        while len(self._gone) > _REMEMBERED or now - self._gone[oldest][1] > _GONE_SECONDS:
            del self._gone[oldest]
            oldest = next(iter(self._gone))
        if known is not None:
            self._on_event("DELETED", last)

    def _outdated(self, key: str, version: int) -> bool:
        """True iff the object is known as of that version, or was deleted at it or later."""
        bad = self.unreadable.get(key)
        if bad is not None:
            return version <= int(bad.version)
        known = self.objects.get(key)
        return version <= (_version(known) if known is not None else self._gone.get(key, (-1, 0.0))[0])

    async def _follow(self, version: str) -> None:
        watch = self._client.watch(
            self._kind,
            self._namespace,
            resource_version=version,
        )
        async for event in watch:
            self._newest = max(self._newest, int(event.resource_version))
            self._trouble = None
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
