"""How many pods each domain gets under a spread: integer quotas in one step instead of pod by pod."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MOST_LEVELS = 33  # least counts that are priced, at even distances


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain that pods may go to. `steps` are (cost of a pod, how many at that cost), cheapest first."""

    count: int  # pods counted there already
    steps: tuple[tuple[int, int], ...]

    @property
    def room(self) -> int:
        return sum(number for _, number in self.steps)


@dataclass(frozen=True, slots=True)
class Skew:
    """What a spread allows: no domain with a new pod more than `most` above the least count."""

    most: int
    floor: int | None = None  # the least count among domains that can take none of the pods
    from_zero: bool = False  # True iff there are too few domains, so that the least count is taken as 0


def quotas(domains: Sequence[Domain], skew: Skew, pods: int, *, cheapest: bool) -> list[int]:
    """Pods per domain: as many of `pods` as the skew and the room allow.

    `cheapest`: at the least cost; else as even as can be. Placed lowest domain first, no pod ever breaks the
    skew: when a domain is raised from v to v + 1, all others stand at v or at their final counts.
    """
    if skew.from_zero:
        return _filled(domains, [0] * len(domains), _highest(domains, skew.most), pods)[0]
    low, high = _range(domains, skew, pods)
    if not cheapest:
        low = high
    step = max(1, (high - low) // (_MOST_LEVELS - 1))
    found = [_at_least(domains, skew, level, pods) for level in (*range(low, high, step), high)]
    return min(found, key=lambda result: result[1])[0]


def _at_least(domains: Sequence[Domain], skew: Skew, level: int, pods: int) -> tuple[list[int], int]:
    """The cheapest shares with every domain at `level` or above, and their cost."""
    lowest = [max(0, level - domain.count) for domain in domains]
    return _filled(domains, lowest, _highest(domains, level + skew.most), pods)


def _highest(domains: Sequence[Domain], top: int) -> list[int]:
    return [max(0, min(top - domain.count, domain.room)) for domain in domains]


def _range(domains: Sequence[Domain], skew: Skew, pods: int) -> tuple[int, int]:
    """The least and the greatest level that allow all pods; twice the greatest if none allows all."""
    start = min(domain.count for domain in domains)
    top = min(domain.count + domain.room for domain in domains)
    if skew.floor is not None:
        start, top = min(start, skew.floor), min(top, skew.floor)

    def reachable(level: int) -> bool:
        return sum(max(0, level - domain.count) for domain in domains) <= pods

    def roomy(level: int) -> bool:
        return sum(_highest(domains, level + skew.most)) >= pods

    high = _last(reachable, start, min(top, start + pods))
    if not roomy(high):
        return high, high
    return _first(roomy, start, high), high


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last number for which it holds; it does for `low`, and from some number on it does not."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first number for which it holds; it does for `high`, and from some number on."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


def _filled(
    domains: Sequence[Domain], lowest: list[int], highest: list[int], pods: int
) -> tuple[list[int], int]:
    """Shares between the bounds, the cheapest room first, and what they cost."""
    shares, cost = [0] * len(domains), 0
    offers = []
    for index, domain in enumerate(domains):
        ends = [0]
        for each, number in domain.steps:
            ends.append(ends[-1] + number)
            must = max(0, min(lowest[index], ends[-1]) - ends[-2])
            may = max(0, min(highest[index], ends[-1]) - ends[-2]) - must
            shares[index] += must
            cost += each * must
            if may > 0:
                offers.append((each, index, may))
    rest = pods - sum(shares)
    for each, index, number in sorted(offers):
        taken = min(rest, number)
        shares[index] += taken
        cost += each * taken
        rest -= taken
    return shares, cost
