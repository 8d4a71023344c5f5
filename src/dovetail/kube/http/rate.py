"""How many requests may leave: a bucket that fills at a steady rate."""

from __future__ import annotations

import asyncio

QPS, BURST = 200.0, 300


class RateLimit:
    """At most `burst` requests at once and `qps` a second for long; those that wait leave in order."""

    def __init__(self, qps: float = QPS, burst: int = BURST) -> None:
        self._qps = qps
        self._burst = burst
        self._tokens = float(burst)  # below zero: requests that wait already
        self._since: float | None = None  # when the tokens were counted, in the loop's time

    async def take(self) -> None:
        """Return once one more request may leave."""
        now = asyncio.get_running_loop().time()
        passed = 0.0 if self._since is None else now - self._since
        self._tokens = min(float(self._burst), self._tokens + passed * self._qps) - 1
        self._since = now
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / self._qps)
