"""The API server's port, with faults: in calls, in the events of watches, in reads of what is past."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from dovetail.api.meta import Object
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import ApiError, Conflict, Expired, TimedOut, TooManyRequests, Unavailable
from dovetail.kube.client import Client, Listing, WatchEvent
from dovetail.kube.memory import MemoryServer, texts
from dovetail.kube.memory.client import listing
from dovetail.kube.memory.selectors import selection
from dovetail.kube.memory.store import Key, Record
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.epoch import Epoch

T = TypeVar("T", bound=Object)


class Past:
    """Answers reads as of an instant, as a cache of the API server that lags behind would."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        # Parallel: at each instant the version that the store had reached.
        self._instants: list[int] = [server.clock.now()]
        self._versions: list[int] = [server.store.version]
        server.observe(self._changed)

    def version(self, instant: int) -> int:
        """The store's version at an instant."""
        return self._versions[max(0, bisect_right(self._instants, instant) - 1)]

    def get(self, kind: type[T], name: str, namespace: str, instant: int) -> T:
        """Raises NotFound."""
        found = self._records(kind, self.version(instant)).get((namespace, name))
        if found is None:
            raise texts.not_found(kind, name)
        return found.view

    def list(self, kind: type[T], namespace: str, labels: str, fields: str, instant: int) -> Listing[T]:
        """All that matched then, with the version to start a watch from."""
        version, selects = self.version(instant), selection(kind, labels, fields)
        found = (
            record
            for key, record in sorted(self._records(kind, version).items())
            if namespace in ("", key[0]) and selects(record.document)
        )
        return listing(found, version)

    def _records(self, kind: type[T], version: int) -> dict[Key, Record[T]]:
        """The table as it was, by undoing what came later."""
        table = self._server.store.table(kind)
        records = dict(table.records)
        for change in reversed(table.history):
            if change.version <= version:
                break
            meta = change.after.document["metadata"]
            key = (meta.get("namespace", ""), meta["name"])
            if change.before is None:
                records.pop(key, None)
            else:
                records[key] = change.before
        return records

    def _changed(self, _: object) -> None:
        now, version = self._server.clock.now(), self._server.store.version
        if self._instants[-1] == now:
            self._versions[-1] = version
        else:
            self._instants.append(now)
            self._versions.append(version)


_MILLISECOND = SECOND // 1000
_HELD_FOR = 3  # events that overtake one that is held back, at most
_LONGEST_HOLD = 1.0  # seconds after which it comes even if nothing overtook it


class FaultyWatch(Generic[T]):
    """Delivers each event at least once: some twice, some after events that came later.

    Invariant: `_held` and `_ready` hold events that were read and not delivered yet.
    """

    def __init__(
        self, watch: AsyncIterator[WatchEvent[T]], call: str, dice: Dice, epoch: Epoch, clock: Clock
    ) -> None:
        self._watch = watch
        self._call = call
        self._dice = dice
        self._epoch = epoch
        self._clock = clock
        self._ready: list[WatchEvent[T]] = []
        self._held: tuple[WatchEvent[T], int] | None = None  # an event, and how many may still overtake it

    def __aiter__(self) -> FaultyWatch[T]:
        return self

    async def __anext__(self) -> WatchEvent[T]:
        """Raises Unavailable when the connection drops, Expired when the server forgot too much."""
        self._epoch.step()
        while not self._ready:
            await self._read()
        self._epoch.step()
        return self._ready.pop(0)

    async def _read(self) -> None:
        event = await self._next()
        self._epoch.step()
        if event is None:
            return
        if event.object is None:
            self._ready.append(event)
            return
        dice, call, subject = self._dice, self._call, f"{self._call} {event.object.key}"
        if dice.hit(kinds.WATCH_DROP, call, subject):
            raise Unavailable("the connection was closed by the peer")
        if dice.hit(kinds.WATCH_GONE, call, subject):
            raise Expired("too old resource version")
        lag = dice.hit(kinds.WATCH_LAG, call, subject)
        if lag is not None:
            longest = max(1, lag.lasts // _MILLISECOND)
            drawn = dice.stream(kinds.WATCH_LAG, f"{call}: how long").randint(1, longest)
            await self._clock.sleep(drawn * _MILLISECOND)
        self._take(event, subject)

    async def _next(self) -> WatchEvent[T] | None:
        """The next event; None once one that is held back has waited long enough."""
        if self._held is None:
            return await anext(self._watch)
        try:
            async with asyncio.timeout(_LONGEST_HOLD):
                return await anext(self._watch)
        except TimeoutError:
            self._ready.append(self._held[0])
            self._held = None
            return None

    def _take(self, event: WatchEvent[T], subject: str) -> None:
        call, held = self._call, self._held
        self._held = None
        if held is None and self._dice.hit(kinds.WATCH_REORDER, call, subject):
            self._held = (event, self._behind(call))
            return
        self._ready.append(event)
        if held is None and self._dice.hit(kinds.WATCH_DUPLICATE, call, subject):
            self._held = (event, self._behind(call))  # once more, later
        if held is not None:
            late, left = held
            if left == 1:
                self._ready.append(late)
            else:
                self._held = (late, left - 1)

    def _behind(self, call: str) -> int:
        return self._dice.stream(kinds.WATCH_REORDER, f"{call}: how far").randint(1, _HELD_FOR)


R = TypeVar("R")


class FaultyClient:
    """A Client of one process over a good one."""

    def __init__(self, client: Client, dice: Dice, epoch: Epoch, clock: Clock, past: Past) -> None:
        self._client = client
        self._dice = dice
        self._epoch = epoch
        self._clock = clock
        self._past = past

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        """See Client."""
        call = f"get {kind.PLURAL}"

        async def read() -> T:
            instant = self._instant(call, name)
            if instant is not None:
                return self._past.get(kind, name, namespace, instant)
            return await self._client.get(kind, name, namespace)

        return await self._call(call, name, read)

    async def list(
        self, kind: type[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """See Client."""
        call = f"list {kind.PLURAL}"

        async def read() -> Listing[T]:
            instant = self._instant(call, "")
            if instant is not None:
                return self._past.list(kind, namespace, labels, fields, instant)
            return await self._client.list(kind, namespace, labels=labels, fields=fields)

        return await self._call(call, "", read)

    def watch(
        self,
        kind: type[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> FaultyWatch[T]:
        """See Client."""
        self._epoch.step()
        watch = self._client.watch(
            kind, namespace, resource_version=resource_version, labels=labels, fields=fields
        )
        return FaultyWatch(watch, f"watch {kind.PLURAL}", self._dice, self._epoch, self._clock)

    async def create(self, obj: T) -> T:
        """See Client."""
        subject = obj.metadata.name or obj.metadata.generate_name
        return await self._call(f"create {obj.PLURAL}", subject, lambda: self._client.create(obj))

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
        """See Client."""
        return await self._call(
            f"patch {kind.PLURAL}",
            name,
            lambda: self._client.patch(kind, name, namespace, merge=merge, json=json, status=status),
            may_conflict=True,
        )

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
        """See Client."""
        await self._call(
            f"delete {kind.PLURAL}",
            name,
            lambda: self._client.delete(
                kind,
                name,
                namespace,
                uid=uid,
                grace_period_seconds=grace_period_seconds,
                propagation=propagation,
            ),
            may_conflict=True,
        )

    async def evict(self, name: str, namespace: str, *, uid: str = "", resource_version: str = "") -> None:
        """See Client."""
        await self._call(
            "evict pods",
            name,
            lambda: self._client.evict(name, namespace, uid=uid, resource_version=resource_version),
            may_conflict=True,
        )

    async def bind(self, name: str, namespace: str, node: str) -> None:
        """See Client."""
        await self._call("bind pods", name, lambda: self._client.bind(name, namespace, node))

    async def _call(
        self, call: str, subject: str, act: Callable[[], Awaitable[R]], *, may_conflict: bool = False
    ) -> R:
        """The call with what goes wrong before it, in it and after it."""
        self._epoch.step()
        before, after = self._slowness(call, subject)
        await self._wait(before)
        self._refuse(call, subject, may_conflict)
        answer = await act()
        self._epoch.step()
        await self._wait(after)
        if self._dice.hit(kinds.API_TIMEOUT, call, f"{call} {subject}"):
            raise TimedOut("the server did not answer within the time allowed")
        return answer

    def _slowness(self, call: str, subject: str) -> tuple[int, int]:
        """Nanoseconds before the call has its effect, and from then until its answer comes."""
        slow = self._dice.hit(kinds.API_SLOW, call, f"{call} {subject}")
        if slow is None:
            return 0, 0
        longest = max(1, slow.lasts // _MILLISECOND)
        drawn = self._dice.stream(kinds.API_SLOW, f"{call}: how long").randint(1, longest) * _MILLISECOND
        answers_late = self._dice.stream(kinds.API_SLOW, f"{call}: where").random() < 0.5
        return (0, drawn) if answers_late else (drawn, 0)

    async def _wait(self, nanoseconds: int) -> None:
        if nanoseconds:
            await self._clock.sleep(nanoseconds)
            self._epoch.step()

    def _refuse(self, call: str, subject: str, may_conflict: bool) -> None:
        dice, what = self._dice, f"{call} {subject}"
        if may_conflict and dice.hit(kinds.API_CONFLICT, call, what):
            raise Conflict("the object has been modified meanwhile")
        throttle = dice.hit(kinds.API_THROTTLE, call, what)
        if throttle is not None:
            raise TooManyRequests("too many requests, try again later", retry_after=throttle.lasts)
        if dice.hit(kinds.API_ERROR, call, what):
            if dice.stream(kinds.API_ERROR, f"{call}: which").random() < 0.5:
                raise Unavailable("the server cannot handle the request now")
            raise ApiError("an internal error occurred")

    def _instant(self, call: str, subject: str) -> int | None:
        """As of when a read is answered; None for now."""
        stale = self._dice.hit(kinds.STALE_READ, call, f"{call} {subject}")
        if stale is None:
            return None
        age = self._dice.stream(kinds.STALE_READ, f"{call}: how old").randrange(stale.lasts + 1)
        return self._clock.now() - age
