"""The machine's own time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from dovetail.base.clock import SECOND

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


class SteadyLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers and timeouts count the time during which the machine is suspended.

    What fell due meanwhile is done at once, instead of as much later as the machine was suspended.
    """

    def time(self) -> float:
        """Seconds since the machine started."""
        return steady() / SECOND
