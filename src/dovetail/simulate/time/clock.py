"""The Clock of a simulation: exact nanoseconds of the virtual loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from dovetail.simulate.time.loop import VirtualLoop

T = TypeVar("T")


class VirtualClock:
    """Time as the loop has it; sleeping costs no real time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return self._loop.nanoseconds()

    def monotonic(self) -> int:
        """Nanoseconds since the loop's start: a machine that has just been switched on."""
        return self._loop.nanoseconds() - self._loop.start

    async def sleep(self, nanoseconds: int) -> None:
        """Return once the loop has reached the instant; 0 or less lets what is ready now go first."""
        woken = self._loop.create_future()
        timer = self._loop.call_at_nanosecond(self.now() + nanoseconds, _wake, woken)
        try:
            await woken
        except BaseException:  # what has rung needs no cancelling
            timer.cancel()
            raise


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def run_virtual(main: Callable[[VirtualClock], Coroutine[Any, Any, T]], *, start: int = 0) -> T:
    """Run `main(clock)` to its end on a virtual loop that starts at `start` (nanoseconds since the epoch).

    Tasks that are left over are cancelled. Raises what the main coroutine or an unattended task raises.
    """
    with VirtualLoop(start) as loop:
        return loop.run_until_complete(main(VirtualClock(loop)))
