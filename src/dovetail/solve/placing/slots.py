"""Room for pods of one shape, and how they are shared out over it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from dovetail.model.requirement import Requirements
from dovetail.solve.demand.topology import Group
from dovetail.solve.placing.shares import Domain, Skew, quotas
from dovetail.solve.supply.world import Pins


@dataclass(frozen=True, slots=True)
class Slot:
    """Room of one kind: an existing node (`row`), or new nodes of some pools (`row` is negative)."""

    cost: int  # what comes first is cheaper, whatever it costs; then nano-dollars per hour and pod
    room: int  # pods
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
        taken = min(pods, slot.room)
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
        Domain(group.matched.get(name, 0), tuple((slot.cost, slot.room) for slot in by_domain[name]))
        for name in names
    ]
    others = [group.matched.get(name, 0) for name in group.universe if name not in by_domain]
    skew = Skew(
        group.id.max_skew,
        min(others) if others else None,
        from_zero=len(group.universe) < max(1, group.id.min_domains),
    )
    shares = quotas(domains, skew, pods, cheapest=cheapest)
    return [
        part for name, share in zip(names, shares, strict=True) for part in _in_turn(by_domain[name], share)
    ]


def _one_by_one(
    spreads: Sequence[Group], slots: Sequence[Slot], pods: int, used: Collection[Pins]
) -> list[tuple[Slot, int]]:
    """Pod by pod, each to the emptiest domains that all spreads allow, unknown ones last if that matters."""
    trial = [replace(group, matched=dict(group.matched), universe=dict(group.universe)) for group in spreads]
    ordered = sorted(slots, key=_order)
    domains = [[dict(slot.pins)[group.id.key] for group in trial] for slot in ordered]
    last = [
        slot.beyond
        or any(
            group.running is not None and name not in group.universe
            for group, name in zip(trial, names, strict=True)
        )
        for slot, names in zip(ordered, domains, strict=True)
    ]
    taken = [0] * len(ordered)
    fresh = [slot.row < 0 and slot.pins not in used for slot in ordered]
    for _ in range(pods):
        legal = [
            (
                last[index],
                sum(group.matched.get(name, 0) for group, name in zip(trial, names, strict=True)),
                fresh[index] and not taken[index],
                index,
            )
            for index, names in enumerate(domains)
            if taken[index] < ordered[index].room
            and all(group.allows_owner(name, itself=True) for group, name in zip(trial, names, strict=True))
        ]
        if not legal:
            break
        index = min(legal)[-1]
        taken[index] += 1
        for group, name in zip(trial, domains[index], strict=True):
            group.count(name, 1, matched=True, owner=False)
    return [(slot, number) for slot, number in zip(ordered, taken, strict=True) if number]
