"""Time as the controllers know it: passed in, never read from the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Clock(Protocol):
    """A source of time. Instants are integer nanoseconds since the Unix epoch, UTC.

    `now` is for what others wrote down or will read: timestamps of objects, schedules, log lines. The machine
    may set it at any time, by hours, in both directions. What only this process measures (how long
    something took, how old an answer is, until when to wait) is measured by `monotonic`.
    """

    def now(self) -> int:
        """The present instant."""

    def monotonic(self) -> int:
        """Nanoseconds since some moment of the past, which no one sets; they pass while the machine sleeps.

        Only differences mean anything: it may be near 0 on a machine that has just started.
        """

    async def sleep(self, nanoseconds: int) -> None:
        """Return once `nanoseconds` have passed; a value of 0 or less only yields to other tasks."""


async def within(clock: Clock, event: asyncio.Event, nanoseconds: int) -> None:
    """Return once the event is set, or once `nanoseconds` have passed."""
    import asyncio  # it takes a tenth of what a command imports, and few commands wait

    waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(clock.sleep(nanoseconds))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
