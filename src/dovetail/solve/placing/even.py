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
    bound: dict[int, list[Seat]] = {}
    for seat in seats:
        for index in binding(groups, shapes[seat.unit.shape], seat.unit.level):
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


def binding(groups: Sequence[Group], shape: Shape, level: int) -> tuple[int, ...]:
    """The rules that may take pods of a shape back: those that they own; of spreads, those that count them.

    There is a host without pods while one more node may be bought, so that spreads over hosts hold.
    """
    return tuple(
        index
        for index in shape.levels[level].owned
        if groups[index].id.kind == AFFINITY
        or (
            groups[index].id.kind == SPREAD
            and index in shape.matching
            and (groups[index].id.key != HOSTNAME or groups[index].closed)
        )
    )
