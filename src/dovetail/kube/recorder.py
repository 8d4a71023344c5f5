"""Kubernetes Events: what a user reads in `kubectl describe`."""

from __future__ import annotations

from typing import Literal

from dovetail.api.core import Event, EventSource, ObjectReference
from dovetail.api.meta import Meta, Object
from dovetail.base.clock import HOUR, MINUTE, SECOND, Clock
from dovetail.base.errors import AlreadyExists, ApiError, NotFound
from dovetail.kube.client import Client
from dovetail.units.timestamp import to_rfc3339

DEDUPE_TIME = 2 * MINUTE
COMPONENT = "karpenter"
# What comes in crowds, by kind and reason: events per second and how many may come at once.
_LIMITS = {("Pod", "Nominated"): (5, 10), ("Pod", "InsufficientCapacityError"): (5, 10)}
_KEPT = HOUR  # how long the API server keeps an event that is not counted up
_MANY = 10_000  # entries from which on what ran out is thrown away

_Same = tuple[str, str, str, str]  # uid of the object, type, reason, message


class Recorder:
    """Writes each event once per dedupe time; the very same event later counts up the one already there."""

    def __init__(
        self, client: Client, clock: Clock, *, component: str = COMPONENT, verbatim: bool = False
    ) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._verbatim = verbatim  # messages are written as they are, not with a capital first
        self._silent: dict[
            tuple[str, ...], int
        ] = {}  # dedupe key -> until when not again, like all instants here by the monotonic clock
        self._written: dict[_Same, tuple[str, int, int]] = {}  # -> (name, count, instant)
        self._full = _MANY  # entries at which they are looked through again
        self._buckets: dict[tuple[str, str], tuple[int, int]] = {}  # as limits -> (nano-tokens left, instant)

    async def publish(
        self,
        obj: Object,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the field's own name
        reason: str,
        message: str,
        *,
        dedupe: tuple[str, ...] = (),
        ttl: int = DEDUPE_TIME,
    ) -> int:
        """Write the event, unless one of that reason and dedupe values (default: the object's uid) was
        written less than `ttl` nanoseconds ago, or the rate of that reason and kind is used up.

        Raises nothing: what an event is about goes on, whether it is written or not. Answers until when, by
        the monotonic clock, another report of it writes nothing.
        """
        now = self._clock.monotonic()
        key = (reason.lower(), *(dedupe or (obj.metadata.uid,)))
        until = self._silent.get(key, now)
        if until > now or not self._has_token((obj.KIND, reason), now):
            return until
        self._silent[key] = now + ttl
        self._forget(now)
        if not self._verbatim:
            message = message[:1].upper() + message[1:]
        same = (obj.metadata.uid, type, reason, message)
        try:
            if same not in self._written or not await self._count_up(obj, same, now):
                await self._create(obj, same, now)
        except NotFound:  # the namespace is gone, and its readers with it
            pass
        except ApiError:
            self._silent.pop(key, None)  # its next report is written again
            return now
        return now + ttl

    async def _count_up(self, obj: Object, same: _Same, now: int) -> bool:
        name, count, _ = self._written[same]
        merge = {"count": count + 1, "lastTimestamp": to_rfc3339(self._clock.now())}
        try:
            await self._client.patch(Event, name, _namespace(obj), merge=merge)
        except NotFound:  # it reached the end of its life
            return False
        self._written[same] = (name, count + 1, now)
        return True

    async def _create(self, obj: Object, same: _Same, now: int) -> None:
        meta, stamp, written = obj.metadata, self._clock.now(), to_rfc3339(self._clock.now())
        _, kind_of_event, reason, message = same
        while True:
            name = f"{meta.name}.{stamp:x}"
            event = Event(
                metadata=Meta(name=name, namespace=_namespace(obj)),
                involved_object=ObjectReference(
                    api_version=obj.API_VERSION,
                    kind=obj.KIND,
                    name=meta.name,
                    namespace=meta.namespace,
                    uid=meta.uid,
                ),
                type=kind_of_event,
                reason=reason,
                message=message,
                count=1,
                first_timestamp=written,
                last_timestamp=written,
                source=EventSource(component=self._component),
            )
            try:
                await self._client.create(event)
            except AlreadyExists:  # another event of this object at the same instant
                stamp += 1
                continue
            self._written[same] = (name, 1, now)
            return

    def _has_token(self, crowd: tuple[str, str], now: int) -> bool:
        if crowd not in _LIMITS:
            return True
        rate, burst = _LIMITS[crowd]
        left, since = self._buckets.get(crowd, (burst * SECOND, now))
        left = min(burst * SECOND, left + (now - since) * rate)
        allowed = left >= SECOND
        self._buckets[crowd] = (left - SECOND if allowed else left, now)
        return allowed

    def _forget(self, now: int) -> None:
        if len(self._silent) + len(self._written) < self._full:
            return
        self._silent = {key: until for key, until in self._silent.items() if until > now}
        self._written = {same: one for same, one in self._written.items() if now - one[2] < _KEPT}
        # Thousands of nodes have as many events, all in use: they are not looked through each time.
        self._full = max(_MANY, 2 * (len(self._silent) + len(self._written)))


def _namespace(obj: Object) -> str:
    """Events of cluster-scoped objects live in `default`."""
    return obj.metadata.namespace or "default"
