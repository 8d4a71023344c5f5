"""Time as the controllers know it: passed in, never read from the machine."""

from __future__ import annotations

from typing import Protocol

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


class Clock(Protocol):
    """A source of time. All instants are integer nanoseconds since the Unix epoch, UTC."""

    def now(self) -> int:
        """The present instant."""

    async def sleep(self, nanoseconds: int) -> None:
        """Return once `nanoseconds` have passed; a value of 0 or less only yields to other tasks."""
