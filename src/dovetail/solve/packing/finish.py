"""The quick end of a packing, for when the time is over: every pod onto the first node that has the room."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from dovetail.solve.packing.bins import Bin
from dovetail.solve.packing.stock import Counts, Stock
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.limits import Limits

_PASSES = 2  # limits may refuse some nodes; what was for them is tried once more
_BLOCK = 1_000  # nodes whose offering is looked for at once


def finished(stock: Stock, charge: Floats, left: Amounts, limits: Limits) -> list[Bin]:
    """Nodes for as much of `left` (I,) as can be; it and `limits` are used up. `charge` (C,): as for a pack.

    Takes time by lots times nodes, whatever the number of pods.
    """
    bins: list[Bin] = []
    for _ in range(_PASSES):
        usable = stock.sold[limits.allowed()[stock.sold]]
        if not left.any() or not len(usable):
            break
        nodes = _Nodes(stock, (usable, charge[usable]), left)
        before = len(bins)
        for column, counts, number in nodes.loads():
            bins += stock.bought((column, counts), number, left, limits)
        if len(bins) == before:
            break
    allowed = limits.allowed()
    for lot in np.flatnonzero(left).tolist():
        for column in stock.ways(lot, allowed):
            alone = stock.bought((column, ((lot, 1),)), int(left[lot]), left, limits)
            if alone:
                bins += alone
                allowed = limits.allowed()
            if not left[lot]:
                break
    return bins


class _Nodes:
    """Nodes in the order in which they are opened. Limits are left to those who buy them."""

    def __init__(self, stock: Stock, sold: tuple[Amounts, Floats], left: Amounts) -> None:
        """`sold`: columns (W,), the cheapest first, and what a node of each is charged (W,)."""
        self._stock = stock
        usable, self._charge = sold
        self._usable = usable
        self._room = stock.room[usable]
        self._feasible = stock.feasible[:, usable]
        self._conflict = stock.lots.conflict
        self._to_come = left @ stock.vectors  # (R,) what lots ask for that have no place yet
        self._size = 0
        self._column: Amounts = np.zeros(64, dtype=np.int64)  # position in usable
        self._free: Amounts = np.zeros((64, stock.vectors.shape[1]), dtype=np.int64)
        self._closed: Mask = np.zeros((64, len(self._conflict)), dtype=np.bool_)  # to kinds
        self._taken: list[tuple[Amounts, Amounts, Amounts]] = []  # nodes, lots, numbers
        share = np.max(stock.vectors / np.maximum(self._to_come, 1), axis=1, initial=0.0)
        for lot in np.lexsort((np.arange(len(share)), -share)).tolist():
            if left[lot]:
                self._place(lot, int(left[lot]))

    def loads(self) -> Iterator[tuple[int, Counts, int]]:
        """(column, load, nodes in a row that have it), each on the cheapest column that holds it."""
        if not self._taken:
            return
        node, lot, number = (np.concatenate(parts) for parts in zip(*self._taken, strict=True))
        order = np.lexsort((lot, node))
        node, lot, number = node[order], lot[order], number[order]
        starts = np.searchsorted(node, np.arange(self._size + 1)).tolist()
        pairs = list(zip(lot.tolist(), number.tolist(), strict=True))
        loads = [
            (column, tuple(pairs[starts[row] : starts[row + 1]]))
            for row, column in enumerate(self._cheapest(lot, starts).tolist())
        ]
        for (column, load), alike in groupby(loads):
            yield column, load, sum(1 for _ in alike)

    def _place(self, lot: int, number: int) -> None:
        stock, size = self._stock, self._size
        need, kind = stock.vectors[lot], int(stock.lots.kind[lot])
        fits = self._feasible[lot, self._column[:size]] & ~self._closed[:size, kind]
        fits &= (self._free[:size] >= need).all(axis=1)
        rows = np.flatnonzero(fits)[:number]
        copies = self._copies(self._free[rows], need, kind)
        taken = np.clip(number - (np.cumsum(copies) - copies), 0, copies)
        self._put(rows[taken > 0], lot, taken[taken > 0])
        number -= int(taken.sum())
        open_to = np.flatnonzero(self._feasible[lot])
        if not number or not len(open_to):
            return
        alone = self._copies(self._room[open_to], need, kind)
        together = np.max(self._to_come / np.maximum(self._room[open_to], 1), axis=1, initial=1.0)
        # As many nodes as all that is to come would need, or as these alone: the cheapest in sum.
        apart = -(-number // alone) if self._conflict[kind, kind] else 1
        best = int(np.argmin(self._charge[open_to] * np.maximum(together, apart)))
        each = int(alone[best])
        rows = self._opened(int(open_to[best]), -(-number // each))
        counts = np.full(len(rows), each, dtype=np.int64)
        counts[-1] = number - each * (len(rows) - 1)
        self._put(rows, lot, counts)

    def _copies(self, room: Amounts, need: Amounts, kind: int) -> Amounts:
        """How many bundles of a lot fit each room (N, R)."""
        asked = need > 0
        if self._conflict[kind, kind] or not asked.any():
            most = 1 if self._conflict[kind, kind] else np.iinfo(np.int32).max
            return np.full(len(room), most, dtype=np.int64)
        result: Amounts = (room[:, asked] // need[asked]).min(axis=1)
        return result

    def _put(self, rows: Amounts, lot: int, number: Amounts) -> None:
        need = self._stock.vectors[lot]
        self._free[rows] -= number[:, None] * need
        self._closed[rows] |= self._conflict[self._stock.lots.kind[lot]]
        self._to_come = self._to_come - need * int(number.sum())
        self._taken.append((rows, np.full(len(rows), lot, dtype=np.int64), number))

    def _opened(self, column: int, number: int) -> Amounts:
        size = self._size + number
        while size > len(self._column):
            self._column, self._free, self._closed = (
                np.concatenate([each, np.zeros_like(each)])
                for each in (self._column, self._free, self._closed)
            )
        rows = np.arange(self._size, size)
        self._column[rows], self._free[rows], self._size = column, self._room[column], size
        return rows

    def _cheapest(self, lot: Amounts, starts: list[int]) -> Amounts:
        """Per node the cheapest column that holds its load, (N,)."""
        used = self._room[self._column[: self._size]] - self._free[: self._size]
        found: Amounts = np.zeros(self._size, dtype=np.int64)
        for first in range(0, self._size, _BLOCK):
            last = min(first + _BLOCK, self._size)
            begin = starts[first]
            mine = self._feasible[lot[begin : starts[last]]]
            held = np.logical_and.reduceat(mine, np.array(starts[first:last]) - begin, axis=0)
            for row in range(used.shape[1]):
                held &= used[first:last, row][:, None] <= self._room[:, row]
            found[first:last] = held.argmax(axis=1)
        return self._usable[found]
