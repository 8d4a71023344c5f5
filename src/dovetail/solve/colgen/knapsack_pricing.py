"""Knapsack pricing: the pattern of most dual value that one node can hold, and how much better none can be.

Labels are partial patterns. What the rest of the items can still add to one is bounded by dynamic
programming: a pattern is held to some resources and pays for the others (a Lagrangian relaxation). One of few
whole units, such as GPUs, is counted exactly, one other is rounded down to a grid. What completes a pattern
best obeys the relaxed problem too, whatever the prices are, so a table never says too little; of several the
least counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from dovetail.model.arrays import TABLE, Amounts, Floats, Mask, share
from dovetail.solve.budget import CELLS, LABELS, STEP, SWEEP, SolveBudget
from dovetail.solve.colgen.highs import integer_program, quiet_solver
from dovetail.solve.colgen.pricing_instance import PricingInstance
from dovetail.solve.tolerances import MANY, NARROW, ROUNDING, SEVERAL


@dataclass(frozen=True, slots=True)
class Best:
    """Of one column: patterns (M, I) of more worth than asked for, and a worth that none exceeds."""

    counts: Amounts
    worth: Floats  # (M,) of the patterns, the most first
    most: float
    others: float  # a worth that no pattern exceeds which is not part of one of the patterns


@dataclass(frozen=True, slots=True)
class Companions:
    """G rules: a node with some of the `owners` (G, I) and none of their `companions` (G, I) costs `price`
    (G,) more, infinite where that must not be.
    """

    owners: Mask
    companions: Mask
    price: Floats

    def lacking(self, counts: Amounts) -> Mask:
        """Whether patterns (N, I) have owners without companions, (G, N)."""
        held = (counts > 0).T
        return share(self.owners, held) & ~share(self.companions, held)

    def of(self, items: Amounts) -> Companions:
        """For some of the items, in this order."""
        return Companions(self.owners[:, items], self.companions[:, items], self.price)


class Relaxation:
    """Knapsacks in fractions, one linear program for all columns. Gives prices of capacity, not bounds."""

    def __init__(self, pricing: PricingInstance, copies: Amounts) -> None:
        self._copies = copies
        self._scale = np.maximum(pricing.capacity.max(axis=0, initial=1), 1).astype(np.float64)
        self._capacity = pricing.capacity / self._scale
        items, resources = pricing.vectors.shape
        self._numbers = np.arange(items, dtype=np.int32)
        item, row = np.indices(pricing.vectors.shape).reshape(2, -1)
        none, rows = np.zeros(items), (np.full(resources, -np.inf), np.zeros(resources))
        entries = row, item, (pricing.vectors / self._scale).ravel()
        model = integer_program(none, (none, none), rows, entries)
        model.integrality_, model.sense_ = [], highspy.ObjSense.kMaximize
        self._solver = quiet_solver(presolve="off")
        self._solver.passModel(model)

    def prices(self, column: int, dual_values: Floats) -> Floats:
        """What a unit of each resource of the column is worth, (R,), not negative."""
        size = len(self._numbers)
        top = max(float(np.max(dual_values, initial=0.0)), 1e-30)
        self._solver.changeColsCost(size, self._numbers, dual_values / top)
        upper = self._copies[column].astype(np.float64)
        self._solver.changeColsBounds(size, self._numbers, np.zeros(size), upper)
        for row, amount in enumerate(self._capacity[column].tolist()):
            self._solver.changeRowBounds(row, -highspy.kHighsInf, amount)
        self._solver.run()
        duals = np.array(self._solver.getSolution().row_dual, dtype=np.float64)
        if len(duals) != len(self._scale):
            return np.zeros(len(self._scale))
        prices: Floats = np.maximum(duals, 0.0) * top / self._scale
        return prices


class Knapsacks:
    """All columns of a market as knapsacks."""

    def __init__(self, pricing: PricingInstance, work: SolveBudget) -> None:
        self._pricing = pricing
        self._work = work
        self._copies = pricing.copies()
        self._relaxation = Relaxation(pricing, self._copies)
        none = np.zeros((0, len(pricing.vectors)), dtype=np.bool_)
        self._alone = Companions(none, none, np.zeros(0))
        self._prices: dict[int, Floats] = {}  # of capacity, by the column that they were found for
        self._dual_values: Floats = np.zeros(0)  # that `_most` is about
        self._most: Floats = np.zeros(0)  # dual values that no pattern of each column exceeds, (K,)

    def fraction(self, column: int, dual_values: Floats) -> tuple[float, Floats]:
        """(a worth that no pattern exceeds, prices of capacity it follows from): true whatever the prices."""
        prices = self._relaxation.prices(column, dual_values)
        self._work.spend(SWEEP + len(dual_values))
        self._prices[column] = prices
        limits = self._limits(dual_values, prices[None])
        self._most = np.minimum(self.screened(dual_values), limits)
        return float(limits[column]), prices

    def screened(self, dual_values: Floats) -> Floats:
        """Worths that no pattern of each column exceeds, (K,), by the prices that are known so far."""
        if not np.array_equal(dual_values, self._dual_values):
            self._dual_values, self._most = dual_values, np.full(len(self._copies), np.inf)
            if self._prices:
                self._most = self._limits(dual_values, np.array(list(self._prices.values())))
        return self._most

    def _limits(self, dual_values: Floats, prices: Floats) -> Floats:
        """The least of what prices (P, R) allow each column, (K,)."""
        beyond = np.maximum(dual_values - prices @ self._pricing.vectors.T, 0.0)
        most = prices @ self._pricing.capacity.T + beyond @ self._copies.T
        self._work.spend(most.size * len(dual_values) // CELLS)
        least: Floats = most.min(axis=0) * (1 + ROUNDING)
        return least

    def run(
        self, column: int, dual_values: Floats, above: float, width: int, beside: Companions | None = None
    ) -> Best:
        """Patterns worth more than `above`, by partial patterns of which at most `width` are followed up."""
        most, beside = float(self.screened(dual_values)[column]), beside or self._alone
        if most > above:
            most, prices = self.fraction(column, dual_values)
        none = np.zeros((0, len(dual_values)), dtype=np.int64)
        if most <= above:
            return Best(none, np.zeros(0), most, most)
        copies, useful = self._copies[column], (dual_values > 0) | beside.companions.any(axis=0)
        reduced = dual_values - self._pricing.vectors @ prices
        # An item that loses more by being put in than the bound is above the aim is in no such pattern.
        items = np.flatnonzero((copies > 0) & useful & (reduced >= above - most))
        items, rest = self._ordered(column, items, dual_values, prices, beside)
        top = float(rest.most(0, np.zeros(1), self._pricing.capacity[column][None])[0]) * (1 + ROUNDING)
        if top <= above:
            return Best(none, np.zeros(0), min(most, above), min(most, above))
        what = items, dual_values[items], rest, beside.of(items)
        found, worth, missed = self._search(column, what, above, width)
        counts = np.zeros((len(found), len(dual_values)), dtype=np.int64)
        counts[:, items] = found
        best = float(np.max(worth, initial=0.0))
        others = min(most, max(above, missed * (1 + ROUNDING)))
        return Best(counts, worth, max(min(most, best * (1 + ROUNDING)), others), others)

    def _ordered(
        self, column: int, items: Amounts, dual_values: Floats, prices: Floats, beside: Companions
    ) -> tuple[Amounts, Completions]:
        """The items in the order in which partial patterns take them, and what later ones can add."""
        needs, capacity = self._pricing.vectors[items], self._pricing.capacity[column]
        share = (needs / np.maximum(capacity, 1)).max(axis=1)
        few = scarcest(capacity, prices)
        # Companions first, then those that want them, so that it is soon known which lack any. Measured: then
        # those that need none of the scarcest units first, the largest first.
        scarce = needs[:, few] if few >= 0 else np.zeros_like(share)
        here = beside.of(items)
        items = items[np.lexsort((-share, scarce, ~here.owners.any(axis=0), ~here.companions.any(axis=0)))]
        copies = self._copies[column][items]
        rest = Completions(self._pricing.vectors[items], capacity, copies, dual_values[items], prices)
        self._work.spend(rest.work)
        return items, rest

    def _search(
        self, column: int, what: tuple[Amounts, Floats, Completions, Companions], above: float, width: int
    ) -> tuple[Amounts, Floats, float]:
        """(patterns over the items (M, n), best first, what they are worth (M,), the bound of the best
        partial pattern that was let go).
        """
        items, dual_values, rest, beside = what
        # More than one companion of no worth is of no use.
        copies = np.where(dual_values > 0, self._copies[column][items], 1)
        apart = np.triu(self._pricing.conflict[np.ix_(items, items)], 1)
        capacity = self._pricing.capacity[column][None].copy()
        value = worth = np.zeros(1)
        patterns = np.zeros((1, len(items)), dtype=np.int16)
        missed, order = 0.0, np.arange(len(items))
        decided = np.max(np.where(beside.companions, order, -1), axis=1, initial=-1)
        for step, item in enumerate(items.tolist()):
            need = self._pricing.vectors[item]
            clash: Mask = np.any(patterns[:, apart[:, step]] > 0, axis=1)
            parent, count = children(taken(clash, capacity, need, copies[step]))
            worth = value = value[parent] + count * dual_values[step]
            capacity = capacity[parent] - count[:, None] * need
            if (decided <= step).any():
                grown = patterns[parent]
                grown[:, step] = count
                lacks = beside.lacking(grown.astype(np.int64)) & (decided <= step)[:, None]
                worth = value - np.where(lacks, beside.price[:, None], 0.0).sum(axis=0)
            bound = rest.most(step + 1, worth, capacity) * (1 + ROUNDING)
            chosen = np.flatnonzero(bound > above)
            self._work.spend(STEP + len(parent) // LABELS)
            width = min(width, MANY) if self._work.time_over else width
            if len(chosen) > width:
                chosen = chosen[np.argsort(-bound[chosen], kind="stable")]
                missed = max(missed, float(bound[chosen[width]]))
                chosen = chosen[:width]
            patterns, value, capacity = patterns[parent[chosen]], value[chosen], capacity[chosen]
            patterns[:, step], worth = count[chosen], worth[chosen]
        best = np.argsort(-worth, kind="stable")
        best = best[worth[best] > above]
        return patterns[best].astype(np.int64), worth[best], missed


def taken(clash: Mask, capacity: Amounts, need: Amounts, copies: int) -> Amounts:
    """How many copies of an item partial patterns with that capacity left (L, R) can take, (L,).

    `clash` (L,): those that hold what it cannot share a node with; `copies`: of it at most.
    """
    asked = need > 0
    number = np.minimum((capacity[:, asked] // need[asked]).min(axis=1, initial=2**15 - 1), copies)
    return np.where(clash, 0, number)


def children(number: Amounts) -> tuple[Amounts, Amounts]:
    """The partial patterns that come of them with up to so many copies of an item: of which, and how many."""
    parent = np.repeat(np.arange(len(number)), number + 1)
    return parent, np.arange(len(parent)) - np.repeat(np.cumsum(number + 1) - number - 1, number + 1)


# Times the prices that a linear program gives to the others; per resource on the grid, the dearest first.
_FACTORS = ((1.0, 0.9, 1.1, 1.2), (1.0, 1.1))


@dataclass(frozen=True, slots=True)
class _Table:
    most: Floats  # (n + 1, units of `few` + 1, steps of `fine` + 1): of the items from the n-th on
    few: int  # the resource that is counted exactly, -1 if none is
    fine: int
    step: int
    prices: Floats  # (R,) of the other resources


def scarcest(capacity: Amounts, prices: Floats) -> int:
    """The resource, of those that there are few whole units of, that is worth most; -1 if none is."""
    dual_values = np.where(capacity <= SEVERAL, prices * capacity, 0.0)
    return int(dual_values.argmax()) if dual_values.any() else -1


class Completions:
    """Bounds for patterns of one column from items (n,) in a fixed order."""

    def __init__(
        self, needs: Amounts, capacity: Amounts, copies: Amounts, dual_values: Floats, prices: Floats
    ) -> None:
        """`needs` (n, R), `copies` and `dual_values` (n,), `capacity` and `prices` of capacity (R,), which
        may be any.
        """
        self._needs, self._capacity, self._copies, self._dual_values = needs, capacity, copies, dual_values
        self.work = 0  # units that building the tables took
        share = prices * capacity
        few = scarcest(capacity, prices)
        rest = np.where(np.arange(len(capacity)) == few, 0.0, share)
        fine = np.argsort(-rest, kind="stable")[: max(1, np.count_nonzero(rest))].tolist()
        self._tables = []
        for resource, factors in zip(fine, _FACTORS, strict=False):
            others = prices.copy()
            others[[resource, *([few] if few >= 0 else [])]] = 0.0
            for factor in factors if others.any() else factors[:1]:
                self._tables.append(self._table(few, resource, others * factor))

    def most(self, start: int, value: Floats, capacity: Amounts) -> Floats:
        """What patterns of this value (N,) and capacity left (N, R) are worth at most with items from `start`
        on.
        """
        best: Floats = np.full(len(value), np.inf)
        for table in self._tables:
            units = capacity[:, table.few] if table.few >= 0 else 0
            more = table.most[start, units, capacity[:, table.fine] // table.step]
            np.minimum(best, value + more + capacity @ table.prices, out=best)
        return best

    def _table(self, few: int, fine: int, prices: Floats) -> _Table:
        size = len(self._needs)
        units = int(self._capacity[few]) if few >= 0 else 0
        grid = max(1, min(NARROW, TABLE // ((size + 1) * (units + 1))))
        step = max(1, -(-int(self._capacity[fine]) // grid))
        width = int(self._capacity[fine]) // step
        gain = (self._dual_values - self._needs @ prices).tolist()
        taken = (self._needs[:, few] if few >= 0 else np.zeros(size, dtype=np.int64)).tolist()
        length = (self._needs[:, fine] // step).tolist()
        most = np.zeros((size + 1, units + 1, width + 1))
        for item in range(size - 1, -1, -1):
            row = most[item]
            row[:] = most[item + 1]
            copies, part = int(self._copies[item]) if gain[item] > 0 else 0, 1
            while copies:
                # Parts of 1, 2, 4, ... copies, each taken or not, make up any number of them.
                part = min(part, copies)
                up, along = part * taken[item], part * length[item]
                before = row[: units + 1 - up, : width + 1 - along] + part * gain[item]
                np.maximum(row[up:, along:], before, out=row[up:, along:])
                self.work += 1 + row.size // CELLS
                copies, part = copies - part, 2 * part
        return _Table(most, few, fine, step, prices)
