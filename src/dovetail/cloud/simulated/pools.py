"""How much capacity a cloud has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dovetail.cloud.choice import Pool
from dovetail.cloud.twin import Limit


class Pools:
    """Instances per pool against the limits. Without a limit a pool never runs dry."""

    def __init__(self, limits: Iterable[Limit] = ()) -> None:
        self._limits = tuple(limits)
        self._running: Counter[Pool] = Counter()

    def room(self, pool: Pool, now: int) -> int | None:
        """How many more instances the pool gives; None for any number."""
        tightest = min((one.capacity for one in self._limits if one.concerns(pool, now)), default=None)
        return None if tightest is None else max(0, tightest - self._running[pool])

    def take(self, pool: Pool) -> None:
        """One more instance runs in the pool."""
        self._running[pool] += 1

    def give_back(self, pool: Pool) -> None:
        """One instance fewer runs in the pool."""
        self._running[pool] -= 1
