"""What a cloud is short of, and when."""

from __future__ import annotations

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
