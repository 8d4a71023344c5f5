"""The machine's own time."""

from __future__ import annotations

import asyncio
import time

from dovetail.base.clock import SECOND


class WallClock:
    """See Clock."""

    def now(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return time.time_ns()

    async def sleep(self, nanoseconds: int) -> None:
        """Return once they have passed."""
        await asyncio.sleep(max(0, nanoseconds) / SECOND)
