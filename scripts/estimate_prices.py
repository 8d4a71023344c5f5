"""Prices that no list has, from those of the nearest relatives that one has; and how far such prices are off.

Four ways, the nearest first:

- size: another size of the family has a price in the region; the two keep their proportion of the reference
  region, or that of their vCPUs (of their memory, if burstable).
- region: the type has a price elsewhere; times what the region costs of the nearest family that is priced in
  both.
- generation: the same size of an older family has a price in the region; times what the same step costs of
  others.
- resources: so much per vCPU, per GiB and per GB of local disk, as the nearest families of the processor are
  priced.

Nearest is the family of the same category, processor and extras (m7gd: m, g, d) and the least distance in
generations; then the same category and processor, then the category, then any.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from statistics import median

from dovetail.cloud.catalog.live import TypeRecord

KINDS = ("size", "region", "generation", "resources")
REFERENCE = "us-east-1"
STEP = 10_000  # EC2's prices have five decimals
_FAMILY = re.compile(r"(?P<category>[a-z]+)(?:-?\d+tb)?(?P<generation>\d+)(?P<rest>[a-z0-9]*)(?P<flex>-.*)?")
_PROCESSORS = "agi"
_LAST_OWN = 4  # t2, t3 and t4g came with the generations 4, 5 and 6 of the others


@dataclass(frozen=True, slots=True)
class Family:
    """The parts of a family's name: m7gd is category m, generation 7, processor g, extras "d"."""

    name: str
    category: str
    generation: int
    processor: str
    extras: str

    @classmethod
    def of(cls, name: str) -> Family:
        """Names without a letter of a processor, such as m5, are Intel's."""
        match = _FAMILY.fullmatch(name)
        if match is None:
            return cls(name, name, 0, "i", "")
        rest = match["rest"]
        processor = rest[0] if rest[:1] and rest[0] in _PROCESSORS else "i"
        extras = rest[1:] if rest[:1] == processor else rest
        generation = int(match["generation"])
        if match["category"] == "t" and generation <= _LAST_OWN:
            generation += 2
        return cls(name, match["category"], generation, processor, extras + (match["flex"] or ""))

    def distance(self, other: Family) -> tuple[int, int, int]:
        """The least is the nearest."""
        alike = self.category == other.category
        same = alike and self.processor == other.processor
        rank = 0 if same and self.extras == other.extras else 1 if same else 2 if alike else 3
        older = other.generation <= self.generation
        return rank, abs(self.generation - other.generation), 0 if older else 1


class Estimator:
    """Estimates from `known`: prices by region, as lists have them."""

    def __init__(self, types: Sequence[TypeRecord], known: Mapping[str, Mapping[TypeRecord, int]]) -> None:
        self._known = known
        self._families = {record: Family.of(record.family) for record in types}
        self._named = {record.name: record for record in types}
        self._sizes: dict[str, list[TypeRecord]] = defaultdict(list)
        for record in types:
            self._sizes[record.family].append(record)

    def price(self, record: TypeRecord, region: str) -> tuple[int, str] | None:
        """An estimate and its kind; None where no price is known to start from."""
        for kind in KINDS:
            found = self.by(kind, record, region)
            if found:
                return max(STEP, round(found / STEP) * STEP), kind
        return None

    def by(self, kind: str, record: TypeRecord, region: str) -> float:
        """An estimate of one kind that does not use the price itself; 0 where that kind has none.

        Only `size` looks at other sizes of the family in the region.
        """
        ways = {
            "size": self._by_size,
            "region": self._by_region,
            "generation": self._by_generation,
            "resources": self._by_resources,
        }
        return ways[kind](record, region)

    def family(self, record: TypeRecord) -> Family:
        """The parts of its family's name."""
        return self._families[record]

    def _by_size(self, record: TypeRecord, region: str) -> float:
        here = self._known.get(region, {})
        sizes = [one for one in self._sizes[record.family] if one is not record and one in here]
        equal = [here[one] for one in sizes if (one.vcpus, one.memory) == (record.vcpus, record.memory)]
        if equal:
            return median(equal)
        sizes = [one for one in sizes if one.bare_metal == record.bare_metal]
        reference = self._known[REFERENCE] if region != REFERENCE else {}
        if record in reference:
            return _median(
                here[one] * reference[record] / reference[one] for one in sizes if one in reference
            )
        if _accelerated(record):
            return 0.0  # they have one accelerator or eight, and cost accordingly
        # Burstable sizes share their vCPUs.
        measure = attrgetter("memory" if record.burstable else "vcpus")
        return _median(here[one] * measure(record) / measure(one) for one in sizes)

    def _by_region(self, record: TypeRecord, region: str) -> float:
        places = (name for name in (REFERENCE, *sorted(self._known)) if name != region)
        origin = next((name for name in places if record in self._known[name]), None)
        if origin is None:
            return 0.0
        return self._known[origin][record] * self._ratio(self._families[record], region, origin)

    def _ratio(self, family: Family, region: str, origin: str) -> float:
        """What the region costs of the origin's price, by the nearest families that have prices in both."""
        ratios = {other: ratio for other, ratio in self._ratios(region, origin).items() if other != family}
        if not ratios:
            return 0.0
        nearest = min(map(family.distance, ratios))
        return median(ratio for other, ratio in ratios.items() if family.distance(other) == nearest)

    @lru_cache(maxsize=4096)  # noqa: B019 - one estimator lives as long as the process
    def _ratios(self, region: str, origin: str) -> Mapping[Family, float]:
        here, there = self._known.get(region, {}), self._known[origin]
        found: dict[Family, list[float]] = defaultdict(list)
        for record, price in here.items():
            if record in there and not record.bare_metal:
                found[self._families[record]].append(price / there[record])
        return {family: median(ratios) for family, ratios in found.items()}

    def _by_generation(self, record: TypeRecord, region: str) -> float:
        family, here = self._families[record], self._known.get(region, {})
        for other in self._relatives(family, accelerated=_accelerated(record)):
            size = self._named.get(f"{other.name}.{record.size}")
            if size is not None and size in here:
                return here[size] * self._step(family, other.generation)
        return 0.0

    @lru_cache(maxsize=4096)  # noqa: B019
    def _relatives(self, family: Family, *, accelerated: bool) -> Sequence[Family]:
        """Older families of the same category, processor and extras, the newest first.

        Accelerators matter more than processors: of those, all families of the category, the nearest first.
        """
        others = {one for one in self._families.values() if one.category == family.category and one != family}
        if accelerated:
            return sorted(others, key=lambda one: (family.distance(one), one.name))
        alike = {one for one in others if (one.processor, one.extras) == (family.processor, family.extras)}
        return sorted(
            (one for one in alike if one.generation < family.generation), key=lambda one: -one.generation
        )

    @lru_cache(maxsize=4096)  # noqa: B019
    def _step(self, family: Family, older: int) -> float:
        """What a generation costs of an older one, by others of the processor in the reference."""
        prices = self._known[REFERENCE]
        alike: list[float] = []
        others: list[float] = []
        for record, price in prices.items():
            one = self._families[record]
            if one == family or (one.processor, one.generation) != (family.processor, family.generation):
                continue
            before = [other for other in self._relatives(one, accelerated=False) if other.generation == older]
            twin = self._named.get(f"{before[0].name}.{record.size}") if before else None
            if twin is not None and twin in prices and not record.bare_metal:
                (alike if one.extras == family.extras else others).append(price / prices[twin])
        return _median(alike) or _median(others) or 1.0

    def _by_resources(self, record: TypeRecord, region: str) -> float:
        family = self._families[record]
        for name in (region, REFERENCE):
            rates = self._rates(family, name)
            if rates is not None:
                price = rates[0] * record.vcpus + rates[1] * record.memory / 1024 + rates[2] * record.storage
                return price if name == region else price * self._ratio(family, region, name)
        return 0.0

    @lru_cache(maxsize=4096)  # noqa: B019
    def _rates(self, family: Family, region: str) -> tuple[float, float, float] | None:
        """Nano-dollars per vCPU, GiB and GB of disk: m has 4 GiB per vCPU, r has 8, those with "d" disks."""
        here = self._known.get(region, {})
        each: dict[tuple[int, str], list[float]] = defaultdict(list)
        disks: list[tuple[TypeRecord, int]] = []
        for record, price in here.items():
            one = self._families[record]
            alike = one.processor == family.processor and one.category in "cmr" and one != family
            if alike and not record.bare_metal and not one.extras:
                each[one.generation, one.category].append(price / record.vcpus)
            if alike and one.extras == "d" and record.storage:
                disks.append((record, price))
        whole = [number for number, letter in each if letter == "m" and (number, "r") in each]
        if not whole:
            return None
        chosen = min(whole, key=lambda number: (abs(number - family.generation), number))
        general, large = median(each[chosen, "m"]), median(each[chosen, "r"])
        gib = (large - general) / 4
        cpu = general - 4 * gib
        rest = ((price - cpu * one.vcpus - gib * one.memory / 1024) / one.storage for one, price in disks)
        return cpu, gib, max(0.0, _median(rest))


def _median(values: Iterable[float]) -> float:
    """0 of none."""
    found = list(values)
    return median(found) if found else 0.0


def _accelerated(record: TypeRecord) -> bool:
    return bool(record.gpus or record.accelerators or record.neurons) or record.category in ("dl", "trn")


@dataclass(frozen=True, slots=True)
class Errors:
    """Of one kind: how many prices it estimates, and by how much they are off (shares of the price)."""

    kind: str
    prices: int
    middle: float
    ninth: float  # nine in ten are at most that far off
    within: float  # share that is at most 5 % off


def errors(
    estimator: Estimator, known: Mapping[str, Mapping[TypeRecord, int]], since: int = 0
) -> Iterator[Errors]:
    """Each known price taken away and estimated from the others; only of generations from `since` on."""
    for kind in KINDS:
        off = sorted(
            abs(found / price - 1)
            for region, prices in known.items()
            for record, price in prices.items()
            if estimator.family(record).generation >= since and (found := estimator.by(kind, record, region))
        )
        if off:
            within = sum(one <= 0.05 for one in off) / len(off)
            yield Errors(kind, len(off), median(off), off[len(off) * 9 // 10], within)
