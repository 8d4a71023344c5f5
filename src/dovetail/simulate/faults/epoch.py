"""One process of the controllers, and the moment of its end."""

from __future__ import annotations

import asyncio

from dovetail.base.clock import Clock
from dovetail.base.eventlog import EventLog


class Epoch:
    """Every call of the process over a port passes `step` before and after it has its effect.

    A crash is no cancellation: what the process would still do, in handlers and `finally` clauses too, comes
    to nothing, as each of its calls ends at `step`.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.dead = False
        self.over = asyncio.Event()  # set iff it is dead, for who waits for that
        self.crashed = False  # True iff the crash that was due has come
        self.down: int | None = None  # ns for which no other process follows, where a fault says so
        self._left: int | None = None  # steps until the crash; None while none is planned
        self._due: int | None = None  # `down` of that crash

    def crash_after(self, steps: int, down: int | None = None) -> None:
        """Let the process die at that step from now on; 0 is the next one. For `down`, see `kill`."""
        self._left, self._due = steps, down

    def kill(self, down: int | None = None) -> None:
        """It is dead from now on. For `down` nanoseconds none follows it; as usual if they are not given."""
        if not self.dead:
            self.dead, self.down = True, down
            self.over.set()

    def step(self) -> None:
        """Raises CancelledError in a dead process, and when it dies just here."""
        if self._left is not None and not self.dead:
            self._left -= 1
            if self._left < 0:
                self.crashed = True
                self.kill(self._due)
        if self.dead:
            raise asyncio.CancelledError


class EpochLog:
    """The event log of one process: the dead write nothing."""

    def __init__(self, log: EventLog, epoch: Epoch) -> None:
        self._log = log
        self._epoch = epoch

    def record(self, kind: str, /, **fields: object) -> None:
        """See EventLog."""
        if not self._epoch.dead:
            self._log.record(kind, **fields)


class EpochClock:
    """A clock that is `offset` nanoseconds off; how long a sleep lasts is always right.

    The offset is shared by all processes: it is the machine's.
    """

    def __init__(self, clock: Clock, epoch: Epoch, skew: Skew) -> None:
        self._clock = clock
        self._epoch = epoch
        self._skew = skew

    def now(self) -> int:
        """See Clock."""
        return self._clock.now() + self._skew.offset

    def monotonic(self) -> int:
        """See Clock."""
        return self._clock.monotonic()

    async def sleep(self, nanoseconds: int) -> None:
        """See Clock."""
        self._epoch.step()
        await self._clock.sleep(nanoseconds)
        self._epoch.step()


class Skew:
    """How far the clock of the controllers' machine is off now, in nanoseconds."""

    def __init__(self) -> None:
        self.offset = 0
