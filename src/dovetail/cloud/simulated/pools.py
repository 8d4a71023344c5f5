"""How much capacity a cloud has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.cloud.choice import Pool


@dataclass(frozen=True, slots=True)
class Limit:
    """While it lasts, each pool it names holds at most `capacity` instances of the cluster.

    Instances that run already stay. `since` and `until` are nanoseconds since the epoch, `until` exclusive;
    empty lists mean all.
    """

    capacity: int = 0
    since: int = 0
    until: int | None = None
    instance_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()

    def concerns(self, pool: Pool, now: int) -> bool:
        """True iff the limit is in force for the pool."""
        capacity_type, instance_type, zone = pool
        return (
            self.since <= now
            and (self.until is None or now < self.until)
            and (not self.instance_types or instance_type in self.instance_types)
            and (not self.zones or zone in self.zones)
            and (not self.capacity_types or capacity_type in self.capacity_types)
        )


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
