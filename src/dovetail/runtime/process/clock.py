"""The machine's own time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from dovetail.base.clock import SECOND, Clock

# Goes on while the machine is suspended (a laptop, a virtual machine that is moved or snapshotted). Linux'
# CLOCK_MONOTONIC does not: a leader would find most of its lease left after a night. Elsewhere it does.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> int:
    """Nanoseconds since the machine started, suspended or not."""
    return time.clock_gettime_ns(_STEADY)


class WallClock:
    """See Clock. `wall` may be set, `ticks` may not."""

    def __init__(self, wall: Callable[[], int] = time.time_ns, ticks: Callable[[], int] = steady) -> None:
        self._wall = wall
        self._ticks = ticks

    def now(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return self._wall()

    def monotonic(self) -> int:
        """Nanoseconds since the machine started."""
        return self._ticks()

    async def sleep(self, nanoseconds: int) -> None:
        """Return once they have passed."""
        await asyncio.sleep(max(0, nanoseconds) / SECOND)


class ServerClock:
    """The API server's time of day, as far as its answers have shown it; until then the machine's.

    Timestamps of objects are the server's. By the clock of a machine that is an hour ahead, every claim would
    be given up before its node can join; by one that is behind, nothing would ever be old enough.
    """

    # Answers hold their instant to the second, and come up to a second later (transport.PROMPT). What differs
    # by no more from what was known before is no news: it would be reported at every answer.
    _TOLERANCE = 2 * SECOND

    def __init__(self, machine: Clock, on_difference: Callable[[int], None] = lambda _: None) -> None:
        self._machine = machine
        self._difference = 0  # nanoseconds that the server is ahead of the machine
        self._on_difference = on_difference

    def set_from(self, instant: int) -> None:
        """The server's clock showed this just now."""
        found = instant - self._machine.now()
        if abs(found - self._difference) > self._TOLERANCE:
            self._difference = found
            self._on_difference(found)

    def now(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return self._machine.now() + self._difference

    def monotonic(self) -> int:
        """The machine's."""
        return self._machine.monotonic()

    async def sleep(self, nanoseconds: int) -> None:
        """Return once they have passed."""
        await self._machine.sleep(nanoseconds)


class SteadyLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers and timeouts count the time during which the machine is suspended.

    What fell due meanwhile is done at once, instead of as much later as the machine was suspended.
    """

    def time(self) -> float:
        """Seconds since the machine started."""
        return steady() / SECOND
