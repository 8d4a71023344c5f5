"""The restricted master problem: how many nodes of each known pattern, in fractions."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from dovetail.model.offering import NANO_DOLLARS
from dovetail.solve.highs import quiet_solver
from dovetail.solve.packing.market import Market
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts


@dataclass(frozen=True, slots=True)
class Fractions:
    """An optimum of the master: nano-dollars per hour, nodes per pattern (N,), worth of an item (I,)."""

    cost: float
    nodes: Floats
    worth: Floats


class Master:
    """Patterns and one linear program over them that is kept warm.

    A pattern is a count per item; its column is the cheapest that holds it. Invariant: no pattern twice.
    """

    def __init__(self, goods: Market) -> None:
        self.goods = goods
        self._counts = np.zeros((256, len(goods.demand)), dtype=np.int64)
        self._column = np.zeros(256, dtype=np.int64)
        self._size = 0
        self._known: set[bytes] = set()
        self.iterations = 0  # of the simplex method, so far
        self._solver = quiet_solver(presolve="off")
        none = np.zeros(0, dtype=np.int32)
        for amount in goods.demand.tolist():
            self._solver.addRow(float(amount), highspy.kHighsInf, 0, none, np.zeros(0))

    @property
    def counts(self) -> Amounts:
        """All patterns, (N, I)."""
        return self._counts[: self._size]

    @property
    def column(self) -> Amounts:
        """The market's column of each pattern, (N,)."""
        return self._column[: self._size]

    def add(self, counts: Amounts, most: int | None = None) -> int:
        """Add what is new among patterns (M, I) and fits somewhere, `most` at the most; how many it was."""
        fresh: list[int] = []
        if not len(counts):
            return 0
        column = self.goods.cheapest(counts)
        for row in range(len(counts)):
            if most is not None and len(fresh) >= most:
                break
            key = counts[row].tobytes()
            if column[row] >= 0 and key not in self._known and counts[row].any():
                self._known.add(key)
                fresh.append(row)
        if fresh:
            self._append(counts[fresh], column[fresh])
        return len(fresh)

    def demand(self, amounts: Amounts) -> None:
        """Ask for other amounts than the market's, (I,)."""
        for row, amount in enumerate(amounts.tolist()):
            self._solver.changeRowBounds(row, float(amount), highspy.kHighsInf)

    def solve(self) -> Fractions:
        """The optimum over the patterns so far."""
        self._solver.run()
        solution, info = self._solver.getSolution(), self._solver.getInfo()
        self.iterations += max(0, int(info.simplex_iteration_count))
        nodes = np.maximum(np.array(solution.col_value, dtype=np.float64), 0.0)
        worth = np.maximum(np.array(solution.row_dual, dtype=np.float64), 0.0) * NANO_DOLLARS
        return Fractions(float(info.objective_function_value) * NANO_DOLLARS, nodes, worth)

    def _append(self, counts: Amounts, column: Amounts) -> None:
        end = self._size + len(counts)
        if end > len(self._counts):
            room = max(end, 2 * len(self._counts))
            self._counts, self._column = _grown(self._counts, room), _grown(self._column, room)
        self._counts[self._size : end] = counts
        self._column[self._size : end] = column
        self._size = end
        row, item = np.nonzero(counts)
        starts = np.searchsorted(row, np.arange(len(counts))).astype(np.int32)
        price = self.goods.price[column].astype(np.float64) / NANO_DOLLARS
        self._solver.addCols(
            len(counts),
            price,
            np.zeros(len(counts)),
            np.full(len(counts), highspy.kHighsInf),
            len(row),
            starts,
            item.astype(np.int32),
            counts[row, item].astype(np.float64),
        )


def _grown(table: Amounts, rows: int) -> Amounts:
    """The same with rows of zeros at its end; memory is not touched before it is used."""
    result = np.zeros((rows, *table.shape[1:]), dtype=table.dtype)
    result[: len(table)] = table
    return result
