"""A clock for what is asked at one moment: it stands still, and nothing may wait for it."""

from __future__ import annotations

from dovetail.base.clock import SECOND


class StillClock:
    """See Clock."""

    def now(self) -> int:
        return SECOND

    def monotonic(self) -> int:
        return SECOND

    async def sleep(self, nanoseconds: int) -> None:
        raise AssertionError(f"something waits for {nanoseconds} ns")
