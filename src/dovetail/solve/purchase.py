"""Nodes to buy, with the pods that they are for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from dovetail.solve.demand.shapes import Shape
from dovetail.solve.packing.bins import Bin
from dovetail.solve.placing.items import Item, Unit

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
