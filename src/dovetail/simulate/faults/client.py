"""The API server's port, with faults."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from dovetail.api.meta import Object
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import ApiError, Conflict, TimedOut, TooManyRequests, Unavailable
from dovetail.kube.client import Client, Listing
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.epoch import Epoch
from dovetail.simulate.faults.past import Past
from dovetail.simulate.faults.watching import FaultyWatch

T = TypeVar("T", bound=Object)
R = TypeVar("R")
_MILLISECOND = SECOND // 1000


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

    async def evict(self, name: str, namespace: str, *, uid: str = "") -> None:
        """See Client."""
        await self._call(
            "evict pods", name, lambda: self._client.evict(name, namespace, uid=uid), may_conflict=True
        )

    async def bind(self, name: str, namespace: str, node: str) -> None:
        """See Client."""
        await self._call("bind pods", name, lambda: self._client.bind(name, namespace, node))

    async def _call(
        self, call: str, subject: str, act: Callable[[], Awaitable[R]], *, may_conflict: bool = False
    ) -> R:
        """The call with what goes wrong before it, in it and after it."""
        self._epoch.step()
        await self._wait(call, subject)
        self._refuse(call, subject, may_conflict)
        answer = await act()
        self._epoch.step()
        if self._dice.hit(kinds.API_TIMEOUT, call, f"{call} {subject}"):
            raise TimedOut("the server did not answer within the time allowed")
        return answer

    async def _wait(self, call: str, subject: str) -> None:
        slow = self._dice.hit(kinds.API_SLOW, call, f"{call} {subject}")
        if slow is not None:
            longest = max(1, slow.lasts // _MILLISECOND)
            drawn = self._dice.stream(kinds.API_SLOW, f"{call}: how long").randint(1, longest)
            await self._clock.sleep(drawn * _MILLISECOND)
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
