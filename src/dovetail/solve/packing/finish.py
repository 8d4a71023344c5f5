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
    able = (left > 0) & (stock.feasible & allowed).any(axis=1)
    for lot in np.flatnonzero(able).tolist():
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
        self._per_room = 1.0 / np.maximum(self._room, 1)
        self._feasible = np.take(stock.feasible, usable, axis=1)
        self._conflict = stock.lots.conflict
        self._clashing: list[bool] = np.asarray(self._conflict.any(axis=1)).tolist()  # per kind
        self._to_come = left @ stock.vectors  # (R,) what lots ask for that have no place yet
        self._size = 0
        self._column: Amounts = np.zeros(64, dtype=np.int64)  # position in usable
        self._free: Amounts = np.zeros((stock.vectors.shape[1], 64), dtype=np.int64)
        self._closed: Mask = np.zeros((len(self._conflict), 64), dtype=np.bool_)  # to kinds
        self._taken: list[tuple[Amounts, int, Amounts]] = []  # nodes, lot, numbers
        share = np.max(stock.vectors / np.maximum(self._to_come, 1), axis=1, initial=0.0)
        wanted = (left > 0) & self._feasible.any(axis=1)
        for lot in np.lexsort((np.arange(len(share)), -share)).tolist():
            if wanted[lot]:
                self._place(lot, int(left[lot]))

    def loads(self) -> Iterator[tuple[int, Counts, int]]:
        """(column, load, nodes in a row that have it), each on the cheapest column that holds it."""
        if not self._taken:
            return
        node = np.concatenate([nodes for nodes, _, _ in self._taken])
        lot = np.repeat([lot for _, lot, _ in self._taken], [len(nodes) for nodes, _, _ in self._taken])
        number = np.concatenate([numbers for _, _, numbers in self._taken])
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
        need, kind = stock.vectors[lot].tolist(), int(stock.lots.kind[lot])
        asked = [(row, each) for row, each in enumerate(need) if each]
        single = bool(self._conflict[kind, kind])
        most = 1 if single else number
        fits: Mask = self._feasible[lot, self._column[:size]]
        if self._clashing[kind]:
            fits &= ~self._closed[kind, :size]
        for row, each in asked:
            fits &= self._free[row, :size] >= each
        nodes = fits.nonzero()[0][:number]
        if len(nodes):
            copies = np.full(len(nodes), most)
            for row, each in [] if single else asked:
                np.minimum(copies, self._free[row, nodes] // each, out=copies)
            before = np.cumsum(copies) - copies
            nodes = nodes[before < number]
            copies = np.minimum(copies, number - before)[: len(nodes)]
            self._put(nodes, lot, copies)
            number -= int(copies.sum())
        if number:
            self._open(lot, number, None if single else asked)

    def _open(self, lot: int, number: int, asked: list[tuple[int, int]] | None) -> None:
        """Place the rest of a lot on new nodes. `asked`: (resource, amount); None where a node takes one."""
        # As many nodes as all that is to come would need, or as these alone: the cheapest in sum.
        least = number if asked is None else 1
        together = (self._per_room * self._to_come).max(axis=1, initial=least)
        cost: Floats = np.where(self._feasible[lot], self._charge * together, np.inf)
        best = int(cost.argmin())
        if cost[best] == np.inf:
            return
        room = self._room[best].tolist()
        each = 1 if asked is None else min(number, *(room[row] // amount for row, amount in asked))
        nodes = np.arange(self._size, self._size - (-number // each))
        while nodes[-1] >= len(self._column):
            self._column = np.concatenate([self._column, np.zeros_like(self._column)])
            self._free = np.concatenate([self._free, np.zeros_like(self._free)], axis=1)
            self._closed = np.concatenate([self._closed, np.zeros_like(self._closed)], axis=1)
        self._size += len(nodes)
        self._column[nodes] = best
        self._free[:, nodes] = self._room[best][:, None]
        counts = np.full(len(nodes), each)
        counts[-1] = number - each * (len(nodes) - 1)
        self._put(nodes, lot, counts)

    def _put(self, nodes: Amounts, lot: int, number: Amounts) -> None:
        need, kind = self._stock.vectors[lot], self._stock.lots.kind[lot]
        self._free[:, nodes] -= need[:, None] * number
        if self._clashing[kind]:
            self._closed[:, nodes] |= self._conflict[kind, :, None]
        self._to_come -= need * int(number.sum())
        self._taken.append((nodes, lot, number))

    def _cheapest(self, lot: Amounts, starts: list[int]) -> Amounts:
        """Per node the cheapest column that holds its load, (N,)."""
        used = self._room[self._column[: self._size]] - self._free[:, : self._size].T
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
