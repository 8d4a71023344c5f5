"""The most worth that one node can hold: good patterns, and a proof of how much better none can be."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from dovetail.solve.highs import quiet_solver
from dovetail.solve.packing.integer import minimum
from dovetail.solve.packing.market import Market
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts
from dovetail.solve.work import Work

_CELLS = 24  # steps per resource of the grid that thins out partial loads
_PER_CELL = 2
_SLACK = 1e-9  # share by which bounds are raised for rounding in floating point
_SHARE = 0.03  # of the work left, for one integer program
_CHECK = 300  # units of work per question of the integer program: it is a small one
_TOLERANCE = 1e-6  # share by which bounds of integer programs are raised for their tolerances
_LABELS_PER_UNIT = 4


@dataclass(frozen=True, slots=True)
class Best:
    """Of one column: patterns (M, I) of more worth than asked for, and a worth that none exceeds."""

    counts: Amounts
    most: float
    others: float  # a worth that no load exceeds which is not part of one of the patterns


class Relaxation:
    """Knapsacks in fractions, one linear program for all columns. Gives prices of room, not bounds."""

    def __init__(self, goods: Market, copies: Amounts) -> None:
        self._copies = copies
        self._scale = np.maximum(goods.room.max(axis=0, initial=1), 1).astype(np.float64)
        self._room = goods.room / self._scale
        items, resources = goods.vectors.shape
        self._numbers = np.arange(items, dtype=np.int32)
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = items, resources
        model.col_cost_ = np.zeros(items)
        model.col_lower_, model.col_upper_ = np.zeros(items), np.zeros(items)
        model.row_lower_, model.row_upper_ = np.full(resources, -highspy.kHighsInf), np.zeros(resources)
        model.sense_ = highspy.ObjSense.kMaximize
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = np.arange(items + 1, dtype=np.int32) * resources
        model.a_matrix_.index_ = np.tile(np.arange(resources, dtype=np.int32), items)
        model.a_matrix_.value_ = (goods.vectors / self._scale).ravel()
        self._solver = quiet_solver(presolve="off")
        self._solver.passModel(model)

    def prices(self, column: int, worth: Floats) -> Floats:
        """What a unit of each resource of the column is worth, (R,), not negative."""
        size = len(self._numbers)
        top = max(float(np.max(worth, initial=0.0)), 1e-30)
        self._solver.changeColsCost(size, self._numbers, worth / top)
        upper = self._copies[column].astype(np.float64)
        self._solver.changeColsBounds(size, self._numbers, np.zeros(size), upper)
        for row, amount in enumerate(self._room[column].tolist()):
            self._solver.changeRowBounds(row, -highspy.kHighsInf, amount)
        self._solver.run()
        duals = np.array(self._solver.getSolution().row_dual, dtype=np.float64)
        if len(duals) != len(self._scale):
            return np.zeros(len(self._scale))
        prices: Floats = np.maximum(duals, 0.0) * top / self._scale
        return prices


class Knapsacks:
    """All columns of a market as knapsacks."""

    def __init__(self, goods: Market, work: Work) -> None:
        self._goods = goods
        self._work = work
        self._copies = goods.copies()
        self._relaxation = Relaxation(goods, self._copies)

    def fraction(self, column: int, worth: Floats) -> tuple[float, Floats]:
        """(a worth that no load exceeds, prices of room it follows from): true whatever the prices."""
        prices = self._relaxation.prices(column, worth)
        self._work.spend(len(worth))
        extra = np.maximum(worth - self._goods.vectors @ prices, 0.0) @ self._copies[column]
        return float(self._goods.room[column] @ prices + extra) * (1 + _SLACK), prices

    def run(self, column: int, worth: Floats, above: float, width: int) -> Best:
        """Patterns worth more than `above`, by partial loads of which at most `width` are followed up."""
        most, prices = self.fraction(column, worth)
        if most <= above:
            return Best(np.zeros((0, len(worth)), dtype=np.int64), most, most)
        copies = self._copies[column]
        reduced = worth - self._goods.vectors @ prices
        # An item that loses more by being put in than the bound is above the aim is in no such pattern.
        items = np.flatnonzero((copies > 0) & (worth > 0) & (reduced >= above - most))
        share = self._goods.vectors[items] / np.maximum(self._goods.room[column], 1)
        items = items[np.argsort(-share.max(axis=1), kind="stable")]
        found, missed = self._search(column, (items, worth, reduced, prices), above, width)
        counts = np.zeros((len(found), len(worth)), dtype=np.int64)
        counts[:, items] = found
        best = float(np.max(counts @ worth, initial=0.0))
        others = min(most, max(above, missed) * (1 + _SLACK))
        return Best(counts, max(min(most, best * (1 + _SLACK)), others), others)

    def exact(self, column: int, worth: Floats) -> Best:
        """The best pattern by an integer program, which the work may stop; conflicts are left out."""
        copies = self._copies[column]
        items = np.flatnonzero((copies > 0) & (worth > 0))
        needs, top = self._goods.vectors[items], float(np.max(worth[items], initial=1.0))
        rows = np.flatnonzero(needs.any(axis=0))
        room = self._goods.room[column][rows]
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(items), len(rows)
        model.col_cost_ = -worth[items] / top
        model.col_lower_, model.col_upper_ = np.zeros(len(items)), copies[items].astype(np.float64)
        scale = np.maximum(room, 1).astype(np.float64)
        model.row_lower_, model.row_upper_ = np.full(len(rows), -highspy.kHighsInf), room / scale
        model.integrality_ = [highspy.HighsVarType.kInteger] * len(items)
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = np.arange(len(items) + 1, dtype=np.int32) * len(rows)
        model.a_matrix_.index_ = np.tile(np.arange(len(rows), dtype=np.int32), len(items))
        model.a_matrix_.value_ = (needs[:, rows] / scale).ravel()
        answer = minimum(model, self._work, check=_CHECK, share=_SHARE)
        counts = np.zeros((1, len(worth)), dtype=np.int64)
        if answer.values is not None:
            counts[0, items] = np.rint(answer.values).astype(np.int64)
        most = -answer.bound * top * (1 + _TOLERANCE) if np.isfinite(answer.bound) else np.inf
        return Best(counts, most, most)

    def _search(
        self, column: int, what: tuple[Amounts, Floats, Floats, Floats], above: float, width: int
    ) -> tuple[Amounts, float]:
        """(loads over the items (M, n), best first, the bound of the best partial load that was let go)."""
        items, worth, reduced, prices = what
        copies = self._copies[column][items]
        gains = np.maximum(reduced[items], 0.0) * copies
        later = np.append(np.cumsum(gains[::-1])[::-1][1:], 0.0)
        apart = np.triu(self._goods.conflict[np.ix_(items, items)], 1)
        room = self._goods.room[column][None].copy()
        value = np.zeros(1)
        loads = np.zeros((1, len(items)), dtype=np.int16)
        missed = 0.0
        for step, item in enumerate(items.tolist()):
            need = self._goods.vectors[item]
            asked = need > 0
            number = np.minimum((room[:, asked] // need[asked]).min(axis=1, initial=2**15 - 1), copies[step])
            if apart[:, step].any():
                number[(loads[:, apart[:, step]] > 0).any(axis=1)] = 0
            parent = np.repeat(np.arange(len(value)), number + 1)
            ends = np.cumsum(number + 1)
            count = np.arange(len(parent)) - np.repeat(ends - number - 1, number + 1)
            value = value[parent] + count * worth[item]
            room = room[parent] - count[:, None] * need
            bound = (value + room @ prices + later[step]) * (1 + _SLACK)
            chosen = np.flatnonzero(bound > above)
            self._work.spend(1 + len(parent) // _LABELS_PER_UNIT)
            if len(chosen) > width:
                kept = self._thinned(column, room[chosen], bound[chosen], width)
                lost = np.ones(len(chosen), dtype=np.bool_)
                lost[kept] = False
                missed = max(missed, float(bound[chosen][lost].max(initial=0.0)))
                chosen = chosen[kept]
            loads, value, room = loads[parent[chosen]], value[chosen], room[chosen]
            loads[:, step] = count[chosen]
        best = np.argsort(-value, kind="stable")
        best = best[value[best] > above]
        return loads[best].astype(np.int64), missed

    def _thinned(self, column: int, room: Amounts, bound: Floats, width: int) -> Amounts:
        """Of partial loads with alike room the most promising, then the most promising of all."""
        cell = np.zeros(len(room), dtype=np.int64)
        for row in range(room.shape[1]):
            step = np.maximum(self._goods.room[column, row] // _CELLS, 1)
            cell = cell * (_CELLS + 2) + np.minimum(room[:, row] // step, _CELLS + 1)
        order = np.lexsort((-bound, cell))
        sorted_cell = cell[order]
        first = np.ones(len(order), dtype=np.bool_)
        first[_PER_CELL:] = sorted_cell[_PER_CELL:] != sorted_cell[:-_PER_CELL]
        order = order[first]
        best: Amounts = order[np.argsort(-bound[order], kind="stable")][:width]
        return best
