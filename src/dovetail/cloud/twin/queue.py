"""A queue of messages in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dovetail.base.clock import Clock
from dovetail.cloud.interruption import BATCH, LONG_POLL, VISIBILITY, Letter


class MemoryQueue:
    """Implements `cloud.interruption.InterruptionQueue` in the time of the clock it is given."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._letters: dict[str, tuple[Letter, int]] = {}  # receipt -> letter, hidden until
        self._sent = 0
        self._news = asyncio.Event()

    def send(self, body: str) -> None:
        """Put a message into the queue."""
        self._sent += 1
        receipt, now = f"letter-{self._sent}", self._clock.now()
        self._letters[receipt] = (Letter(receipt, body, now), now)
        self._news.set()

    async def receive(self) -> Sequence[Letter]:
        """See the port."""
        end = self._clock.now() + LONG_POLL
        while not (found := self._visible()) and self._clock.now() < end:
            await self._wait(end)
        hidden = self._clock.now() + VISIBILITY
        for letter in found:
            self._letters[letter.receipt] = (letter, hidden)
        return found

    async def delete(self, letter: Letter) -> None:
        """See the port."""
        self._letters.pop(letter.receipt, None)

    def _visible(self) -> tuple[Letter, ...]:
        now = self._clock.now()
        return tuple(letter for letter, hidden in self._letters.values() if hidden <= now)[:BATCH]

    async def _wait(self, end: int) -> None:
        """Until a letter comes, or one comes back, or the time is over."""
        self._news.clear()
        until = min((hidden for _, hidden in self._letters.values()), default=end)
        loop = asyncio.get_running_loop()
        waits = {
            loop.create_task(self._news.wait(), name="queue: news"),
            loop.create_task(self._clock.sleep(min(until, end) - self._clock.now()), name="queue: time"),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
