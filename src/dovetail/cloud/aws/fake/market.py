"""What the fake sells, at what price, and how much of it there is at a moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dovetail.cloud.aws.quota.quotas import family
from dovetail.cloud.catalog import offerings, store
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.cloud.choice import Pool
from dovetail.cloud.inmemory import Limit
from dovetail.cloud.spot_market import spot_depth, spot_swing
from dovetail.model import labels


@dataclass(frozen=True, slots=True)
class MarketOptions:
    """`quotas`: vCPUs per (capacity type, quota family), without a row as many as wanted.

    `only` names the types that are sold; empty for all of the catalogue.
    """

    limits: tuple[Limit, ...] = ()
    quotas: Mapping[tuple[str, str], int] = field(default_factory=dict)
    only: frozenset[str] = frozenset()


class Market:
    """Prices, room and quotas; counts what runs in each pool."""

    def __init__(self, region: str, seed: int, options: MarketOptions) -> None:
        self._seed = seed
        self._options = options
        self.records: dict[str, TypeRecord] = {}
        self.zones: dict[str, tuple[str, ...]] = {}
        self.on_demand: dict[str, int] = {}  # list prices, nano-dollars per hour; 0 is unknown
        for record, zones, price in store.sold(region):
            if not options.only or record.name in options.only:
                self.records[record.name] = record
                self.zones[record.name] = zones
                self.on_demand[record.name] = price
        self._running: Counter[Pool] = Counter()
        self._vcpus: Counter[tuple[str, str]] = Counter()

    def sells(self, pool: Pool) -> bool:
        """True iff the type is sold in the zone that way."""
        capacity_type, name, zone = pool
        if zone not in self.zones.get(name, ()):
            return False
        return self.records[name].spot if capacity_type == labels.SPOT else self.on_demand[name] > 0

    def price(self, pool: Pool, now: int) -> int:
        """Nano-dollars per hour; spot prices move slowly about the catalogue's estimate."""
        capacity_type, name, zone = pool
        full = self.on_demand[name]
        if capacity_type != labels.SPOT:
            return full
        middle = offerings.spot_price(self.records[name].family, zone, full)
        return min(full, max(1, round(middle * spot_swing(self._seed, pool, now) / 100_000) * 100_000))

    def spot_offers(self) -> Iterator[Pool]:
        """Every spot pool, by type and zone."""
        for name, zones in self.zones.items():
            for zone in zones:
                if self.records[name].spot and self.on_demand[name]:
                    yield labels.SPOT, name, zone

    def depth(self, pool: Pool, now: int) -> int:
        """How many instances a spot pool holds at the moment, those of the cluster included."""
        return spot_depth(self._seed, pool, self.records[pool[1]].vcpus, now)

    def room(self, pool: Pool, now: int) -> int | None:
        """How many more instances the pool gives; None for any number."""
        caps = [limit.capacity for limit in self._options.limits if limit.concerns(pool, now)]
        if pool[0] == labels.SPOT:
            caps.append(self.depth(pool, now))
        return max(0, min(caps) - self._running[pool]) if caps else None

    def over_quota(self, pool: Pool) -> bool:
        """True iff one more instance takes more vCPUs than the account may have."""
        group = _group(pool)
        quota = self._options.quotas.get(group)
        vcpus = self.records[pool[1]].vcpus
        return quota is not None and self._vcpus[group] + vcpus > quota

    def take(self, pool: Pool, count: int = 1) -> None:
        """So many instances more run in the pool; fewer, if negative."""
        self._running[pool] += count
        self._vcpus[_group(pool)] += count * self.records[pool[1]].vcpus

    def excess(self, pools: Iterable[Pool], now: int) -> dict[Pool, int]:
        """Of those spot pools the ones that hold fewer than run in them, and by how many.

        Limits count for launches only: what runs already stays.
        """
        found = {pool: self._running[pool] - self.depth(pool, now) for pool in pools}
        return {pool: count for pool, count in found.items() if count > 0}


def _group(pool: Pool) -> tuple[str, str]:
    capacity_type = labels.SPOT if pool[0] == labels.SPOT else labels.ON_DEMAND
    return capacity_type, family(pool[1])
