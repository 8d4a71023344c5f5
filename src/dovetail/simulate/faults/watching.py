"""The events of one watch, with faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

from dovetail.api.meta import Object
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import Expired, Unavailable
from dovetail.kube.client import WatchEvent
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.epoch import Epoch

T = TypeVar("T", bound=Object)
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
