"""Column generation: the restricted master in fractions, patterns that pay, and a plan by diving.

After Gilmore and Gomory (1961): the master's dual values price patterns, exchange and knapsack pricing look
for those of negative reduced cost. What is proven on the way is Farley's bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import highspy
import numpy as np

from dovetail.model.arrays import Amounts, Floats
from dovetail.solve.budget import HALF, LABELS, MOST, STEP, Part, SolveBudget
from dovetail.solve.colgen.exchange_pricing import Exchange
from dovetail.solve.colgen.highs import quiet_solver
from dovetail.solve.colgen.knapsack_pricing import Knapsacks
from dovetail.solve.colgen.pattern_mip import whole
from dovetail.solve.colgen.patterns import fill
from dovetail.solve.colgen.pricing_instance import PricingInstance
from dovetail.solve.tolerances import (
    FEW,
    LINEAR,
    MANY,
    MOSTLY,
    NARROW,
    OPTIMAL,
    PASSES,
    PAYS,
    SEVERAL,
    TRIES,
    WIDE,
)
from dovetail.units.money import NANO_DOLLARS

NEW = 200  # patterns that one round adds
FEW_NEW = 20  # when a round adds fewer, patterns are looked for in another way
ROUNDS = 40  # rounds in a row that may gain nothing


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """So many nodes of one pattern."""

    counts: Amounts  # (I,)
    column: int  # of the market
    number: int


@dataclass(frozen=True, slots=True)
class MarketProof:
    """What is proven of a market: whole nodes for its demand cost `capacities` at least, and no pattern of a
    column exceeds `most` (K,) at dual values (I,). Neither is known where there are no dual values, or
    `capacities` is 0.
    """

    pricing: PricingInstance
    capacities: int = 0
    dual_values: Floats = field(default_factory=lambda: np.zeros(0))
    most: Floats = field(default_factory=lambda: np.zeros(0))


class Generator:
    """One market's search: patterns so far and what the items turn out to be worth."""

    def __init__(self, pricing: PricingInstance, work: SolveBudget) -> None:
        self.pricing = pricing
        self._work = work
        self._master = Master(pricing)
        self._exchange = Exchange(pricing, work)
        self._knapsacks = Knapsacks(pricing.in_units(), work)
        self.ended = False  # True iff no pattern is missing that could pay
        self._paid = 0  # iterations of the simplex method that were charged
        self.dual_values: Floats = np.zeros(len(pricing.demand))
        self._last = self.dual_values  # of the plan in fractions
        self.cost = 0.0  # of the plan in fractions, nano-dollars per hour
        self.bound = 0.0  # what any plan costs at least, about; `dual_values` proves it
        self.most: Floats = np.zeros(0)  # worth that no pattern exceeds, (K,), by which it does

    def _added(self, found: Amounts, most: int | None = None) -> int:
        """How many of these patterns (M, I) are new to the master."""
        number = self._master.add(found, most)
        self._work.tally["columns"] += number
        return number

    def run(self, seeds: Amounts) -> list[PlannedNode]:
        """A plan for the market's demand, from patterns (M, I) to start with. May stop short of it."""
        return self._dive(self.search(seeds))

    def search(self, seeds: Amounts) -> Fractions:
        """The best plan in fractions of nodes; `dual_values` and `cost` are its."""
        resumed = self._paid > 0
        self._master.add(self._alone())
        self._master.add(np.minimum(seeds, self.pricing.demand))
        self._master.demand(self.pricing.demand)  # not what was left of it in a dive
        now, before, idle = self._solve(), np.inf, 0
        part = self._work.part(MOST)
        # One that goes on would else take what buying whole nodes needs: with it five of 300 to 1,200 pods
        # cost 1.6 % less after four million units, 0.2 % without. The first may, for the sake of its proof.
        with self._work.sparing(1 - MOST if resumed else 0.0):
            while not self.ended and part.left and idle < ROUNDS:
                idle = idle + 1 if now.cost > before * OPTIMAL else 0
                added = self._exchanged(now, self.pricing.demand, NARROW, NEW)
                if (idle or added < FEW_NEW) and len(self.pricing.demand) <= FEW:
                    added += self._filled(now)
                if added < FEW_NEW:
                    for width in (NARROW, WIDE):
                        found = self._searched(now, width, part)
                        added += found
                        if found or not part.left or self.bound > now.cost * OPTIMAL:
                            break
                if not added or self.bound > now.cost * OPTIMAL:
                    self.ended = part.left
                    break
                before, now = now.cost, self._solve()
        self._last, self.cost = now.dual_values, now.cost
        self.dual_values = self.dual_values if self.bound else now.dual_values
        return now

    def whole(self, limit: int) -> tuple[list[PlannedNode], int]:
        """A plan for less than `limit`, of all patterns that such a plan can use, empty if none is found; and
        about what any costs at least."""
        prices = int(self.cost), limit
        found = whole(self.pricing, self._last, prices, self._work, extra=self._master.counts)
        rest = self.pricing.demand.copy()
        bought: list[PlannedNode] = []
        for pattern in found.plan:
            for _ in range(pattern.number):
                rest = self._buy(np.minimum(pattern.counts, rest), 1, rest, bought)
        return bought, found.bound

    def _alone(self) -> Amounts:
        """Per item the pattern of only it that costs least per copy."""
        copies = self.pricing.copies()
        rate = np.where(copies > 0, self.pricing.price[:, None] / np.maximum(copies, 1), np.inf)
        items = np.arange(len(self.pricing.demand))
        return np.diag(copies[rate.argmin(axis=0), items])

    def _solve(self) -> Fractions:
        now = self._master.solve()
        self._work.spend((self._master.iterations - self._paid) * STEP)
        self._paid = self._master.iterations
        return now

    def _exchanged(self, now: Fractions, demand: Amounts, rows: int, most: int) -> int:
        used, added = np.flatnonzero(now.nodes > LINEAR), 0
        counts, column = self._master.counts[used], self._master.column[used]
        fine = np.all(counts <= demand, axis=1)
        for found in self._exchange.run(now.dual_values, counts[fine], column[fine], demand, rows):
            added += self._added(found, most - added)
            if added == most:
                break
        return added

    def _filled(self, now: Fractions) -> int:
        """Patterns that pay among greedy fillings of every column."""
        pricing = self.pricing
        self._work.spend(pricing.feasible.size // LABELS)  # 0.034 s for 78,000
        what = pricing.vectors, now.dual_values, pricing.demand, pricing.conflict
        counts = fill(pricing.capacity, pricing.feasible, *what)
        price = np.tile(np.maximum(pricing.price, 1.0), len(counts) // len(pricing.price))
        gain = counts @ now.dual_values / price - 1
        order = np.argsort(-gain, kind="stable")
        return self._added(counts[order[gain[order] > PAYS]], NEW)

    def _searched(self, now: Fractions, width: int, part: Part) -> int:
        """Patterns that pay by a search of those columns that might have any; what it proves is kept."""
        found, most = [self._master.counts[:0]], np.full(len(self.pricing.price), np.inf)
        for column, price in enumerate(self.pricing.price.tolist()):
            if not part.left:
                break
            best = self._knapsacks.run(column, now.dual_values, price * (1 + PAYS), width)
            found.append(best.counts[:FEW_NEW])
            most[column] = best.most if price > 0 else np.inf
        highest = float(np.max(most / np.maximum(self.pricing.price, 1), initial=1.0))
        if now.cost / highest > self.bound:
            self.bound, self.dual_values, self.most = now.cost / highest, now.dual_values, most
        return self._added(np.concatenate(found))

    def _dive(self, now: Fractions) -> list[PlannedNode]:
        """Buy the whole nodes of the optimum, or its largest fraction, and plan the rest anew; once other
        patterns gained nothing, only with those there are until it becomes dearer."""
        rest, known = self.pricing.demand.copy(), 0.0
        bought: list[PlannedNode] = []
        part, prices = self._work.part(HALF), self.pricing.price
        rounds, rows = PASSES if len(rest) <= MANY else 1, NARROW if len(rest) <= FEW else MANY
        while rest.any():
            pods = int(rest.sum())
            for pattern, number in self._whole(now, rest):
                rest = self._buy(np.minimum(self._master.counts[pattern], rest), number, rest, bought)
            if not self._work.left or int(rest.sum()) == pods:
                break
            self._master.demand(rest)
            now, spent = self._solve(), sum(int(prices[node.column]) * node.number for node in bought)
            for _ in range(rounds if part.left else 0):
                if spent + now.cost <= known:
                    break
                used = np.flatnonzero(now.nodes > LINEAR)
                added = self._master.add(np.minimum(self._master.counts[used], rest))
                added += self._exchanged(now, rest, rows, NEW)
                if not added or not part.left:
                    break
                before, now = now.cost, self._solve()
                if before - now.cost <= PAYS * self.cost:
                    known = (spent + now.cost) * (1 + PAYS)
        return bought

    def _whole(self, now: Fractions, rest: Amounts) -> list[tuple[int, int]]:
        """(pattern, nodes) to buy for certain."""
        number = np.floor(now.nodes + LINEAR).astype(np.int64)
        order = np.argsort(-now.nodes, kind="stable")
        if not number.any():
            last = len(rest) <= FEW and rest.sum() <= SEVERAL
            number[now.nodes > MOSTLY] = not last
            number[self._cheapest(order[:TRIES], rest) if last else order[:1]] = 1
        return [(index, int(number[index])) for index in order.tolist() if number[index]]

    def _cheapest(self, patterns: Amounts, rest: Amounts) -> int:
        """Of these patterns the one with which the rest costs least, with fractions of nodes after it."""
        counts = np.minimum(self._master.counts[patterns], rest)
        column = self.pricing.cheapest(counts, owned=True)
        cost = np.where(column >= 0, self.pricing.price[column], np.inf)
        for index, each in enumerate(counts):
            self._master.demand(rest - each)
            cost[index] += self._solve().cost if each.any() else np.inf
        return int(patterns[np.argmin(cost)])

    def _buy(self, counts: Amounts, number: int, rest: Amounts, bought: list[PlannedNode]) -> Amounts:
        held = counts > 0
        column = int(self.pricing.cheapest(counts[None], owned=True)[0])
        if column < 0 or not held.any():
            return rest
        number = min(number, int(np.min(rest[held] // counts[held])))
        bought.append(PlannedNode(counts, column, number))
        return rest - counts * number


@dataclass(frozen=True, slots=True)
class Fractions:
    """An optimum of the master: nano-dollars per hour, nodes per pattern (N,), worth of an item (I,)."""

    cost: float
    nodes: Floats
    dual_values: Floats


class Master:
    """Patterns and one linear program over them that is kept warm.

    A pattern is a count per item; its column is the cheapest that holds it. Invariant: no pattern twice.
    """

    def __init__(self, pricing: PricingInstance) -> None:
        self.pricing = pricing
        self._counts = np.zeros((256, len(pricing.demand)), dtype=np.int64)
        self._column = np.zeros(256, dtype=np.int64)
        self._size = 0
        self._known: set[bytes] = set()
        self.iterations = 0  # of the simplex method, so far
        self._solver = quiet_solver(presolve="off")
        none = np.zeros(0, dtype=np.int32)
        for amount in pricing.demand.tolist():
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
        column = self.pricing.cheapest(counts)
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
        dual_values = np.maximum(np.array(solution.row_dual, dtype=np.float64), 0.0) * NANO_DOLLARS
        return Fractions(float(info.objective_function_value) * NANO_DOLLARS, nodes, dual_values)

    def _append(self, counts: Amounts, column: Amounts) -> None:
        end = self._size + len(counts)
        if end > len(self._counts):
            capacity = max(end, 2 * len(self._counts))
            self._counts, self._column = _grown(self._counts, capacity), _grown(self._column, capacity)
        self._counts[self._size : end] = counts
        self._column[self._size : end] = column
        self._size = end
        row, item = np.nonzero(counts)
        starts = np.searchsorted(row, np.arange(len(counts))).astype(np.int32)
        price = self.pricing.price[column].astype(np.float64) / NANO_DOLLARS
        limits = np.zeros(len(counts)), np.full(len(counts), highspy.kHighsInf)
        index, value = item.astype(np.int32), counts[row, item].astype(np.float64)
        self._solver.addCols(len(counts), price, *limits, len(row), starts, index, value)


def _grown(table: Amounts, rows: int) -> Amounts:
    """A copy of so many rows, zeros at its end; memory is not touched before it is used."""
    result = np.zeros((rows, *table.shape[1:]), dtype=table.dtype)
    result[: len(table)] = table
    return result
