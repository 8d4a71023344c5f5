"""Nodes to buy, with the pods that they are for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from dovetail.solve.bounds.scope import Placement
from dovetail.solve.demand.shapes import Shape
from dovetail.solve.packing.bins import Bin
from dovetail.solve.placing.assign import Assigner
from dovetail.solve.placing.even import Seat, binding
from dovetail.solve.placing.items import Item, Unit
from dovetail.solve.supply.world import lookup

# Some bundles of an item.
Part = tuple[Item, list[tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Purchase:
    """A node to buy, and what it was bought for. The bundles count as `parts`, whatever `made` says."""

    made: Bin
    parts: tuple[Part, ...]

    def pods(self) -> tuple[str, ...]:
        """All pods on it, sorted."""
        return tuple(sorted([pod for _, bundles in self.parts for bundle in bundles for pod in bundle]))

    def units(self) -> Iterator[tuple[Item, Unit]]:
        """Every pod on it, with what it was bought for as."""
        for item, bundles in self.parts:
            for bundle in bundles:
                for unit in item.units(bundle):
                    yield item, unit

    def placements(self) -> Iterator[Placement]:
        """The same with pods of one shape and level that were bought for together."""
        lonely = all(self.made.pool not in item.pools for item, _ in self.parts)
        for item, bundles in self.parts:
            # Where nobody is left for whom the pool was right, it has to be for all.
            pools = (self.made.pool,) if lonely else item.pools
            for (shape, level), pods in zip(item.kinds, zip(*bundles, strict=True), strict=True):
                yield Placement(shape, level, pools, pods)

    def without(self, gone: Collection[str], shapes: Sequence[Shape]) -> Purchase | None:
        """The same node without some pods; None if it is empty then."""
        units = list(self.units())
        leaving = [shapes[unit.shape].vector for _, unit in units if unit.pod in gone]
        if len(leaving) == len(units):
            return None
        if not leaving:
            return self
        parts: list[Part] = [
            (replace(item, kinds=((unit.shape, unit.level),)), [(unit.pod,)])
            for item, unit in units
            if unit.pod not in gone
        ]
        vector = self.made.vector - sum(leaving[1:], leaving[0])
        return Purchase(replace(self.made, vector=vector), tuple(parts))


def seats_of(
    assigner: Assigner, existing: Mapping[int, Sequence[Unit]], bought: Sequence[Purchase]
) -> list[Seat]:
    """The places of all pods that a rule might take back, on nodes that exist first."""
    groups, shapes = assigner.world.topology.groups, assigner.world.shapes
    tied = {
        (shape.index, level)
        for shape in shapes
        for level in range(len(shape.levels))
        if binding(groups, shape, level)
    }
    seats = [
        assigner.seat(row, unit)
        for row, units in existing.items()
        for unit in units
        if (unit.shape, unit.level) in tied
    ]
    for item, bundles in chain.from_iterable(purchase.parts for purchase in bought):
        if tied.isdisjoint(item.kinds):
            continue
        domain_of = lookup(item.place)
        for unit in chain.from_iterable(map(item.units, bundles)):
            forget = partial(assigner.forget, item, (unit.shape, unit.level), 1)
            seats.append(Seat(unit, domain_of, forget))
    return seats
