"""All pools' offerings side by side, and which items each can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dovetail.model import labels
from dovetail.model.arrays import Amounts, Mask, alike, holding
from dovetail.model.requirement import Requirements
from dovetail.model.resources import LARGEST
from dovetail.solve.instance.pool_table import PoolTable
from dovetail.solve.instance.topology import Pins

# Offerings that are filled again and again: with 64, the first plan of 2,000 mixed pods costs 0.5 % more.
_KEPT = 72

# (pool, reservation or '', demands on labels with pins of the pods): all that decides on a Ground.
_GroundKey = tuple[int, str, tuple[tuple[Requirements, Pins], ...]]


@dataclass(frozen=True, slots=True)
class Ground:
    """What nodes of one pool may be for pods of certain demands on labels."""

    requirements: Requirements  # with the pool's, without instance types
    columns: Amounts  # of the pool's table, cheapest first
    types: Amounts  # of these columns, once each, (T,)
    first: Amounts  # the cheapest column of each type, (T,)
    minimums: bool  # True iff there must be so many different values of some label
    # By which of `types` hold a node's pods: those that it may be, and its cheapest column.
    sets: dict[bytes, tuple[tuple[int, ...], int]] = field(default_factory=dict)


class OfferingsTable:
    """C offerings of all pools. `capacity` is (C, R), `price` (C,) in nano-dollars, `reservation` '' if
    none.
    """

    def __init__(self, tables: Sequence[PoolTable], width: int) -> None:
        """`tables`: of all pools in their order; `width`: how many resources there are."""
        self._tables = tables
        sizes = [len(table.offerings) for table in tables]
        self.pool = np.repeat(np.arange(len(tables)), sizes)
        none, no = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)
        self.type: Amounts = np.concatenate([none, *(table.column_type for table in tables)])
        self.column = np.concatenate([none, *map(np.arange, sizes)])
        capacities = [table.capacity[table.column_type] for table in tables]
        self.capacity: Amounts = np.concatenate([np.zeros((0, width), dtype=np.int64), *capacities])
        self.price: Amounts = np.concatenate([none, *(table.price for table in tables)])
        self.reservation: list[str] = [name for table in tables for name in table.reservation.tolist()]
        self.reserved: Mask = np.concatenate([no, *(table.sold_as(labels.RESERVED) for table in tables)])
        self.spot: Mask = np.concatenate([no, *(table.sold_as(labels.SPOT) for table in tables)])
        scarce = [
            table.offerings[at] for table in tables for at in np.flatnonzero(~table.unreserved).tolist()
        ]
        self.left = {item.reservation_id: item.reservation_capacity for item in scarce}
        self.grounds: dict[_GroundKey, Ground] = {}  # known so far
        # Types that nodes of a pool may be: equal ones are one object.
        self.types: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}

    def suits(self, wanted: Requirements, pools: Sequence[int]) -> Mask:
        """Columns of these pools whose labels meet the demands, shape (C,)."""
        masks = [
            table.own & table.mask(table.base.add(*wanted))
            if table.index in pools
            else np.zeros(len(table.offerings), dtype=np.bool_)
            for table in self._tables
        ]
        return np.concatenate(masks) if masks else np.zeros(0, dtype=np.bool_)

    def holds(self, vectors: Amounts, some: Amounts | slice = slice(None)) -> Mask:
        """Which of some columns (all if not given) have the capacity for each of the requests (N, R)."""
        # Columns of a type stand together.
        pair = self.pool[some] * (1 + int(self.type.max(initial=0))) + self.type[some]
        first = np.flatnonzero(np.diff(pair, prepend=-1))
        capacity, columns = self.capacity[some][first], np.diff(first, append=len(pair))
        asked = np.where(vectors == 0, -LARGEST - 1, vectors)  # what is not asked for always fits
        return np.repeat(holding(asked, capacity), columns, axis=1)


def thinned(columns: npt.NDArray[np.int64], feasible: Mask, price: Amounts) -> npt.NDArray[np.int64]:
    """At most about _KEPT columns: of those that hold the same items, sizes at growing distances of price."""
    if len(columns) <= _KEPT:
        return columns
    groups = alike(feasible.T, columns[np.argsort(price[columns], kind="stable")].tolist())
    prices: list[int] = price.tolist()
    step = 1.02
    while True:
        kept = [column for group in groups for column in _spaced(group, prices, step)]
        if len(kept) <= _KEPT or step > 2:
            return np.array(sorted(kept), dtype=np.int64)
        step *= 1.05


def _spaced(group: list[int], price: list[int], step: float) -> list[int]:
    kept, least = [], 0.0
    for column in group:
        if price[column] >= least:
            kept.append(column)
            least = price[column] * step
    return kept
