"""Many askers, one call: what is asked for at nearly the same time goes out together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from dovetail.base.clock import SECOND, Clock

T = TypeVar("T")
MILLISECOND = SECOND // 1000


@dataclass(frozen=True, slots=True)
class Window:
    """A batch closes after `idle` ns without another asker, after `longest` ns, or when `most` have come."""

    idle: int
    longest: int
    most: int

    async def close(self, clock: Clock, count: Callable[[], int]) -> None:
        """Return when it is time; `count` says how many have come so far."""
        end, known = clock.monotonic() + self.longest, 0
        while known < count() < self.most and clock.monotonic() < end:
            known = count()
            await clock.sleep(min(self.idle, end - clock.monotonic()))


class Joint(Generic[T]):
    """Calls `call` with the keys of all calls within the window; each gets the answer to its own.

    `closed` is called with each batch: how many keys it has, and after how many nanoseconds it was closed.
    """

    def __init__(
        self,
        clock: Clock,
        call: Callable[[Sequence[str]], Awaitable[Mapping[str, T]]],
        window: Window,
        closed: Callable[[int, int], None] = lambda _, __: None,
    ) -> None:
        self._clock = clock
        self._call = call
        self._window = window
        self._closed = closed
        self._keys: dict[str, None] = {}
        self._open: asyncio.Task[Mapping[str, T]] | None = None

    async def ask(self, key: str) -> T | None:
        """The answer for the key; None where the call has none. Raises what the call raises."""
        if self._open is None or len(self._keys) >= self._window.most:
            self._keys = {}
            gathering = self._gather(self._keys)
            self._open = asyncio.get_running_loop().create_task(gathering, name="aws: batch")
        self._keys[key] = None
        # Others wait for the same call: whoever is cancelled leaves it to them.
        return (await asyncio.shield(self._open)).get(key)

    async def _gather(self, keys: dict[str, None]) -> Mapping[str, T]:
        began = self._clock.monotonic()
        await self._window.close(self._clock, lambda: len(keys))
        self._closed(len(keys), self._clock.monotonic() - began)
        if self._keys is keys:
            self._open, self._keys = None, {}
        return await self._call(tuple(keys))
