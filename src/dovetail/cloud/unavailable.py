"""What the cluster has learnt about capacity: offerings that refused a launch are avoided for a while."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dovetail.base.clock import MINUTE
from dovetail.cloud.choice import Pool
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirements

UNAVAILABLE_FOR = 3 * MINUTE
# In place of a capacity type: not the pool is avoided, but nothing is left of the reservation that it names.
FULL = "full"
FULL_FOR = MINUTE  # then its instances have been counted again


class UnavailableOfferings:
    """Pools that lately refused a launch; each is avoided for a while after its last refusal."""

    def __init__(self) -> None:
        self._until: dict[Pool, int] = {}

    def mark(self, pools: Iterable[Pool], now: int, time: int = UNAVAILABLE_FOR) -> None:
        """These refused just now, and are avoided for so long (nanoseconds)."""
        for pool in pools:
            self._until[pool] = max(now + time, self._until.get(pool, 0))

    def active(self, now: int) -> frozenset[Pool]:
        """The pools to avoid now."""
        self._until = {pool: until for pool, until in self._until.items() if until > now}
        return frozenset(self._until)


def without(types: tuple[InstanceType, ...], avoided: frozenset[Pool]) -> tuple[InstanceType, ...]:
    """The types with these offerings unavailable, or full; those that are untouched stay the same objects."""
    names = {name for _, name, _ in avoided}
    return tuple(_mark(item, avoided) if item.name in names else item for item in types)


def single_values(requirements: Requirements) -> dict[str, str]:
    """Labels that have exactly one possible value, the empty one included."""
    return {
        item.key: next(iter(item.values))
        for item in requirements
        if not item.complement and len(item.values) == 1
    }


def _mark(item: InstanceType, avoided: frozenset[Pool]) -> InstanceType:
    return replace(item, offerings=tuple(_judged(one, item.name, avoided) for one in item.offerings))


def _judged(offering: Offering, name: str, avoided: frozenset[Pool]) -> Offering:
    kind, reservation = offering.capacity_type, offering.reservation_id
    if reservation and (FULL, name, reservation) in avoided:
        offering = replace(offering, reservation_capacity=0)
    places = (offering.zone, reservation) if reservation else (offering.zone,)
    sold = offering.available or offering.unpriced
    if sold and any((kind, name, place) in avoided for place in places):
        offering = replace(offering, available=False, unpriced=False)
    return offering
