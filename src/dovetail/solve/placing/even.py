"""Pods that no rule allows any more, once others that it is about turned out to have no place.

Domains are decided before nodes are bought. When limits then refuse the nodes of one domain, the pods in the
others stand too far ahead of it, and would stand there against their own spread; pods that have to be near
others may be left without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dovetail.model.labels import HOSTNAME
from dovetail.solve.demand.shapes import Shape
from dovetail.solve.demand.topology import AFFINITY, SPREAD, DomainOf, Group
from dovetail.solve.placing.items import Unit


@dataclass(frozen=True, slots=True)
class Seat:
    """A pod with a place; `forget` takes it out of all counters."""

    unit: Unit
    domain_of: DomainOf
    forget: Callable[[], None]


def surplus(groups: Sequence[Group], shapes: Sequence[Shape], seats: Sequence[Seat]) -> frozenset[str]:
    """Pods to take back, the latest placed first, until every spread and affinity that they own holds.

    Counters change as pods are taken back. Taking one back may lower another group's least count, so the
    groups are gone through until nothing changes; it ends, because pods only leave.
    """
    taken: set[str] = set()
    bound = _bound(groups, shapes, seats)
    before = -1
    while before < len(taken):
        before = len(taken)
        for index, mine in bound.items():
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


def _bound(groups: Sequence[Group], shapes: Sequence[Shape], seats: Sequence[Seat]) -> dict[int, list[Seat]]:
    """Per rule the seats of pods that own it; of a spread, those that it counts.

    On one host, pods that are to be near each other are bought for together, or not at all. There is a host
    without pods while one more node may be bought.
    """
    result: dict[int, list[Seat]] = {
        index: []
        for index, group in enumerate(groups)
        if group.id.kind in (SPREAD, AFFINITY) and (group.id.key != HOSTNAME or group.closed)
    }
    for seat in seats:
        shape = shapes[seat.unit.shape]
        for index in shape.levels[seat.unit.level].owned:
            if index in result and (index in shape.matching or groups[index].id.kind == AFFINITY):
                result[index].append(seat)
    return result
