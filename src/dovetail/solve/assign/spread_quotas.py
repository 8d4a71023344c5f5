"""Integer quotas: how many pods of a class each domain gets under a spread, all at once.

Domains are decided before nodes are bought. When limits then refuse the nodes of one domain, the pods in the
others stand too far ahead of it, and would stand there against their own spread; pods that have to be near
others may be left without them. `surplus` finds those to take back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from dovetail.model.labels import HOSTNAME
from dovetail.model.requirement import Requirements
from dovetail.solve.assign.items import Unit
from dovetail.solve.instance.pod_classes import PodClass
from dovetail.solve.instance.topology import AFFINITY, SPREAD, DomainOf, Group, Pins
from dovetail.solve.tolerances import SEVERAL


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain that pods may go to. `steps` are (cost of a pod, how many at that cost), cheapest first."""

    count: int  # pods counted there already
    steps: tuple[tuple[int, int], ...]

    @property
    def capacity(self) -> int:
        return sum(number for _, number in self.steps)


@dataclass(frozen=True, slots=True)
class Skew:
    """What a spread allows: no domain with a new pod more than `most` above the least count."""

    most: int
    floor: int | None = None  # the least count among domains that can take none of the pods
    from_zero: bool = False  # True iff there are too few domains, so that the least count is taken as 0


def quotas(domains: Sequence[Domain], skew: Skew, pods: int, *, cheapest: bool) -> list[int]:
    """Pods per domain: as many of `pods` as the skew and the capacity allow.

    `cheapest`: at the least cost; else as even as can be. Placed lowest domain first, no pod ever breaks the
    skew: when a domain is raised from v to v + 1, all others stand at v or at their final counts.
    """
    if skew.from_zero:
        return _filled(domains, [0] * len(domains), _highest(domains, skew.most), pods)[0]
    low, high = _range(domains, skew, pods)
    if not cheapest:
        low = high
    step = max(1, (high - low) // SEVERAL)
    found = [_at_least(domains, skew, level, pods) for level in (*range(low, high, step), high)]
    return min(found, key=lambda result: result[1])[0]


def _at_least(domains: Sequence[Domain], skew: Skew, level: int, pods: int) -> tuple[list[int], int]:
    """The cheapest shares with every domain at `level` or above, and their cost."""
    lowest = [max(0, level - domain.count) for domain in domains]
    return _filled(domains, lowest, _highest(domains, level + skew.most), pods)


def _highest(domains: Sequence[Domain], top: int) -> list[int]:
    return [max(0, min(top - domain.count, domain.capacity)) for domain in domains]


def _range(domains: Sequence[Domain], skew: Skew, pods: int) -> tuple[int, int]:
    """The least and the greatest level that allow all pods; twice the greatest if none allows all."""
    start = min(domain.count for domain in domains)
    top = min(domain.count + domain.capacity for domain in domains)
    if skew.floor is not None:
        start, top = min(start, skew.floor), min(top, skew.floor)

    def too_high(level: int) -> bool:
        return sum(max(0, level - domain.count) for domain in domains) > pods

    def roomy(level: int) -> bool:
        return sum(_highest(domains, level + skew.most)) >= pods

    # What is too high, or roomy, for one level is so for all above it.
    high = start + bisect_left(range(start + 1, min(top, start + pods) + 1), True, key=too_high)
    if not roomy(high):
        return high, high
    return start + bisect_left(range(start, high), True, key=roomy), high


def _filled(
    domains: Sequence[Domain], lowest: list[int], highest: list[int], pods: int
) -> tuple[list[int], int]:
    """Shares between the bounds, the cheapest capacity first, and what they cost."""
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


@dataclass(frozen=True, slots=True)
class Slot:
    """Room of one kind: an existing node (`row`), or new nodes of some pools (`row` is negative)."""

    cost: int  # what comes first is cheaper, whatever it costs; then nano-dollars per hour and pod
    capacity: int  # pods
    level: int
    wanted: Requirements
    pins: Pins  # the values of the labels that rules look at
    pools: tuple[int, ...] = ()
    row: int = -1
    beyond: bool = False  # True iff more pods than are best there


def share_out(
    spreads: Sequence[Group], slots: Sequence[Slot], pods: int, used: Collection[Pins], *, cheapest: bool
) -> list[tuple[Slot, int]]:
    """How many pods each slot takes. Every slot is legal for one pod but for the spreads.

    `used` are values of labels that there will be nodes with anyway.
    """
    if not spreads:
        return _in_turn(sorted(slots, key=_order), pods)
    values = [dict(slot.pins) for slot in slots]
    group = spreads[0]
    unlike = group.running is not None or any(value[group.id.key] not in group.universe for value in values)
    if len(spreads) > 1 or unlike:
        return _one_by_one(spreads, slots, pods, used)
    return _by_quota(spreads[0], slots, pods, cheapest=cheapest)


def _order(slot: Slot) -> tuple[int, Pins]:
    return slot.cost, slot.pins


def _in_turn(slots: Sequence[Slot], pods: int) -> list[tuple[Slot, int]]:
    found = []
    for slot in slots:
        taken = min(pods, slot.capacity)
        pods -= taken
        if taken:
            found.append((slot, taken))
    return found


def _by_quota(group: Group, slots: Sequence[Slot], pods: int, *, cheapest: bool) -> list[tuple[Slot, int]]:
    by_domain: dict[str, list[Slot]] = {}
    for slot in sorted(slots, key=_order):
        by_domain.setdefault(dict(slot.pins)[group.id.key], []).append(slot)
    names = sorted(by_domain, key=lambda name: _order(by_domain[name][0]))
    domains = [
        Domain(group.matched.get(name, 0), tuple((slot.cost, slot.capacity) for slot in by_domain[name]))
        for name in names
    ]
    others = [group.matched.get(name, 0) for name in group.universe if name not in by_domain]
    skew = Skew(
        group.id.max_skew,
        min(others) if others else None,
        from_zero=len(group.universe) < max(1, group.id.min_domains),
    )
    shares = quotas(domains, skew, pods, cheapest=cheapest)
    return [part for at, share in zip(names, shares, strict=True) for part in _in_turn(by_domain[at], share)]


def _one_by_one(
    spreads: Sequence[Group], slots: Sequence[Slot], pods: int, used: Collection[Pins]
) -> list[tuple[Slot, int]]:
    """Pod by pod, each to the emptiest domains that all spreads allow, unknown ones last if that matters."""
    trial = [replace(group, matched=dict(group.matched), universe=dict(group.universe)) for group in spreads]
    ordered = sorted(slots, key=_order)
    pairs = [[(group, dict(slot.pins)[group.id.key]) for group in trial] for slot in ordered]
    last = [
        slot.beyond or any(group.running is not None and name not in group.universe for group, name in each)
        for slot, each in zip(ordered, pairs, strict=True)
    ]
    taken = [0] * len(ordered)
    fresh = [slot.row < 0 and slot.pins not in used for slot in ordered]
    for _ in range(pods):
        legal = []
        for index, each in enumerate(pairs):
            free = taken[index] < ordered[index].capacity
            if free and all(group.allows_owner(name, itself=True) for group, name in each):
                there = sum(group.matched.get(name, 0) for group, name in each)
                legal.append((last[index], there, fresh[index] and not taken[index], index))
        if not legal:
            break
        index = min(legal)[-1]
        taken[index] += 1
        for group, name in pairs[index]:
            group.count(name, 1, matched=True, owner=False)
    return [(slot, number) for slot, number in zip(ordered, taken, strict=True) if number]


@dataclass(frozen=True, slots=True)
class Seat:
    """A pod with a place; `forget` takes it out of all counters."""

    unit: Unit
    domain_of: DomainOf
    forget: Callable[[], None]


def surplus(
    groups: Sequence[Group], pod_classes: Sequence[PodClass], seats: Sequence[Seat]
) -> frozenset[str]:
    """Pods to take back, the latest placed first, until every spread and affinity that they own holds.

    Counters change as pods are taken back. Taking one back may lower another group's least count, so the
    groups are gone through until nothing changes; it ends, because pods only leave.
    """
    taken: set[str] = set()
    bound: dict[int, list[Seat]] = {}
    rules = {
        kind: binding(groups, pod_classes[kind[0]], kind[1]) for kind in {seat.unit[:2] for seat in seats}
    }
    for seat in seats:
        for index in rules[seat.unit[:2]]:
            bound.setdefault(index, []).append(seat)
    before = -1
    while before < len(taken):
        before = len(taken)
        for index, mine in sorted(bound.items()):
            group = groups[index]
            for seat in reversed(mine):
                if seat.unit.pod not in taken and _broken(group, seat.domain_of(group.id.key)):
                    seat.forget()
                    taken.add(seat.unit.pod)
    return frozenset(taken)


def _broken(group: Group, domain: str) -> bool:
    """True iff a pod that owns the rule may not stay in the domain."""
    count = group.matched.get(domain, 0)
    return not count if group.id.kind == AFFINITY else count - group.least() > group.id.max_skew


def binding(groups: Sequence[Group], pod_class: PodClass, level: int) -> tuple[int, ...]:
    """The rules that may take pods of a pod class back: those that they own; of spreads, those that count
    them.

    There is a host without pods while one more node may be bought, so that spreads over hosts hold.
    """
    found = []
    for index in pod_class.levels[level].owned:
        group = groups[index]
        spread = group.id.kind == SPREAD and (group.id.key != HOSTNAME or group.closed)
        if group.id.kind == AFFINITY or (spread and index in pod_class.matching):
            found.append(index)
    return tuple(found)
