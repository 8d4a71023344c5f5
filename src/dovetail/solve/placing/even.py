"""Pods that no spread allows any more, once others of their group turned out to have no place.

Domains are decided before nodes are bought. When limits then refuse the nodes of one domain, the pods in the
others stand too far ahead of it, and would stand there against their own rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dovetail.model.labels import HOSTNAME
from dovetail.solve.demand.shapes import Shape
from dovetail.solve.demand.topology import SPREAD, DomainOf, Group
from dovetail.solve.placing.items import Unit


@dataclass(frozen=True, slots=True)
class Seat:
    """A pod with a place; `forget` takes it out of all counters."""

    unit: Unit
    domain_of: DomainOf
    forget: Callable[[], None]


def surplus(groups: Sequence[Group], shapes: Sequence[Shape], seats: Sequence[Seat]) -> frozenset[str]:
    """Pods to take back, the latest placed first, until every spread that they own holds.

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
                ahead = group.matched.get(seat.domain_of(group.id.key), 0) - group.least()
                if ahead > group.id.max_skew and seat.unit.pod not in taken:
                    seat.forget()
                    taken.add(seat.unit.pod)
    return frozenset(taken)


def _bound(groups: Sequence[Group], shapes: Sequence[Shape], seats: Sequence[Seat]) -> dict[int, list[Seat]]:
    """Per spread over anything but hostnames, the seats of pods that own it and that it counts."""
    result: dict[int, list[Seat]] = {
        index: []
        for index, group in enumerate(groups)
        if group.id.kind == SPREAD and group.id.key != HOSTNAME
    }
    for seat in seats:
        shape = shapes[seat.unit.shape]
        for index in shape.levels[seat.unit.level].owned:
            if index in result and index in shape.matching:
                result[index].append(seat)
    return result
