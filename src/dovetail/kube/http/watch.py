"""Changes of one kind, for ever, over connections that end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

import aiohttp
import msgspec

from dovetail.api.meta import Object
from dovetail.base.errors import Expired, TooManyRequests, Unavailable
from dovetail.kube.client import EventType, WatchEvent
from dovetail.kube.http import wire
from dovetail.kube.http.transport import CONNECT_SECONDS, Request, Transport
from dovetail.kube.unreadable import Unreadable

T = TypeVar("T", bound=Object)

# The server ends a watch after so many seconds; drawn, so that not all of them begin anew at once.
_LIFE = (300, 600)
# A server sends a bookmark about once a minute: one that is silent for longer is not there any more.
_SILENCE_SECONDS = 180
# Seconds before the next connection, doubled each time: 13 s altogether, more than a server's restart takes.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0


class _Marked(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Bookmark(msgspec.Struct, frozen=True):
    metadata: _Marked = _Marked()


class Watch(AsyncIterator[WatchEvent[T]], Generic[T]):
    """Reads one connection after another, each from the version that the one before had reached.

    Whoever reads lists again after an error. Expired: the version is no longer kept. TimedOut: the server has
    yet to reach it, because it was restored from a backup; it says so, or nothing at all. A server that is
    away for a moment is waited for here; one that stays away raises Unavailable or TooManyRequests.
    """

    def __init__(
        self,
        transport: Transport,
        kind: type[T],
        path: str,
        *,
        query: dict[str, str],
        draw: random.Random,
    ) -> None:
        self._transport = transport
        self._kind = kind
        self._path = path
        self._query = query  # Invariant: its resourceVersion is the last one that was handed out
        self._draw = draw
        self._source: AsyncIterator[WatchEvent[T]] | None = None

    async def __anext__(self) -> WatchEvent[T]:
        if self._source is None:
            self._source = self._follow()
        return await anext(self._source)

    async def aclose(self) -> None:
        """Let the connection go."""
        source, self._source = self._source, None
        if source is not None and hasattr(source, "aclose"):
            await source.aclose()

    async def _follow(self) -> AsyncIterator[WatchEvent[T]]:
        pause = _FIRST_PAUSE
        while True:
            try:
                async for event in self._connection():
                    pause = _FIRST_PAUSE
                    yield event
            except (Unavailable, TooManyRequests):
                if pause > _LONGEST_PAUSE:
                    raise
            await asyncio.sleep(min(pause, _LONGEST_PAUSE) * self._draw.uniform(0.5, 1.5))
            pause = min(2 * pause, 2 * _LONGEST_PAUSE)

    async def _connection(self) -> AsyncIterator[WatchEvent[T]]:
        life = self._draw.randint(*_LIFE)
        query = {**self._query, "timeoutSeconds": str(life)}
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=_SILENCE_SECONDS)
        async with self._transport.open(Request("GET", self._path, query), timeout) as answer:
            rest = b""
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line:
                        yield self._event(wire.change(line))

    def _event(self, change: wire.Change) -> WatchEvent[T]:
        """Raises Expired, or whatever else the server says instead of a change."""
        if change.type == "ERROR":
            raise wire.refusal(500, change.object)
        if change.type == "BOOKMARK":
            version = msgspec.json.decode(change.object, type=_Bookmark).metadata.resource_version
            self._query["resourceVersion"] = version
            return WatchEvent("BOOKMARK", None, version)
        found = wire.reader(self._kind).any(change.object)
        lost = found if isinstance(found, Unreadable) else None
        view = found.salvaged if isinstance(found, Unreadable) else found
        version = view.metadata.resource_version
        self._query["resourceVersion"] = version
        kind: EventType
        if change.type == "ADDED":
            kind = "ADDED"
        elif change.type == "MODIFIED":
            kind = "MODIFIED"
        elif change.type == "DELETED":
            kind = "DELETED"
        else:
            raise Expired(f"a watch sent a change of unknown type {change.type!r}")
        return WatchEvent(kind, view if lost is None else None, version, lost)
