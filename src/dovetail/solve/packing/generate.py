"""Column generation: patterns of nodes that pay, and an integer plan made of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dovetail.solve.packing.exchange import Exchange
from dovetail.solve.packing.knapsack import Knapsacks
from dovetail.solve.packing.market import Market
from dovetail.solve.packing.master import Fractions, Master
from dovetail.solve.packing.patterns import fill
from dovetail.solve.packing.whole import whole
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts
from dovetail.solve.work import Work

_ROWS = 2_500  # ways to take items out that are tried in one round
_NEW = 200  # patterns that one round adds
_FEW_NEW = 25  # when a round adds fewer, patterns are looked for in another way
_PROGRESS = 1e-5  # share of the cost: the same after a round that gained less
_GAIN = 1e-4  # of a node's price: less is not worth a pattern
_FILLED_AT_ONCE = 12_000  # columns times items, so that the time is looked at in between
_WIDTHS = (2_000, 20_000)  # partial loads that a search for patterns follows; more where it found nothing
_PER_COLUMN = 40
_PIVOT = 20  # units of work per iteration of the simplex method
_DIVE_ROWS = 500
_DIVE_NEW = 50
_DIVE_ROUNDS = 3
_MANY = 300  # items; with more a round takes so long that one must do
_DIVE = 0.75  # of the work left: for a dive; the rest is for packing what it did not come to
_NEARLY_ONE = 0.8  # a fraction of a node that is rounded up together with the largest
_PATIENCE = 40  # rounds in a row that may gain nothing
_WHOLE = 1e-6
_CLOSE = 0.9999  # share of the cost in fractions: a bound that near is not worth another search
_SHARE = 0.65  # of the work left: for patterns; the rest is for making a plan of them


@dataclass(frozen=True, slots=True)
class Purchase:
    """So many nodes of one pattern."""

    counts: Amounts  # (I,)
    column: int  # of the market
    number: int


@dataclass(frozen=True, slots=True)
class Told:
    """What is proven of a market: whole nodes for its demand cost `rooms` at least, and no load of a column
    exceeds `most` (K,) at worths (I,). Neither is known where there are no worths, or `rooms` is 0."""

    goods: Market
    rooms: int = 0
    worth: Floats = field(default_factory=lambda: np.zeros(0))
    most: Floats = field(default_factory=lambda: np.zeros(0))


class Generator:
    """One market's search: patterns so far and what the items turn out to be worth."""

    def __init__(self, goods: Market, work: Work) -> None:
        self._goods = goods
        self._work = work
        self._master = Master(goods)
        self._exchange = Exchange(goods, work)
        self._knapsacks = Knapsacks(goods, work)
        self._paid = 0  # iterations of the simplex method that were charged
        self.worth: Floats = np.zeros(len(goods.demand))
        self._last = self.worth  # of the plan in fractions
        self.cost = 0.0  # of the plan in fractions, nano-dollars per hour
        self.bound = 0.0  # what any plan costs at least, about; `worth` proves it
        self.most: Floats = np.zeros(0)  # worth that no load exceeds, (K,), by which it does

    def run(self, seeds: Amounts) -> list[Purchase]:
        """A plan for the market's demand, from patterns (M, I) to start with. May stop short of it."""
        return self._dive(self.search(seeds))

    def search(self, seeds: Amounts) -> Fractions:
        """The best plan in fractions of nodes; `worth` and `cost` are its."""
        self._master.add(self._alone())
        self._master.add(np.minimum(seeds, self._goods.demand))
        now, before, idle = self._solve(), np.inf, 0
        part = self._work.part(_SHARE)
        while part.left and idle < _PATIENCE:
            idle = idle + 1 if now.cost > before * (1 - _PROGRESS) else 0
            added = self._exchanged(now, self._goods.demand, _ROWS, _NEW)
            if idle or added < _FEW_NEW:
                added += self._filled(now)
            if added < _FEW_NEW:
                for width in _WIDTHS:
                    found = self._searched(now, width)
                    added += found
                    if found or not part.left or self.bound > now.cost * _CLOSE:
                        break
            if not added or self.bound > now.cost * _CLOSE:
                break
            before, now = now.cost, self._solve()
        self._last, self.cost = now.worth, now.cost
        self.worth = self.worth if self.bound else now.worth
        return now

    def whole(self, limit: int) -> list[Purchase]:
        """A plan for less than `limit`, of all patterns that such a plan can use; empty if none is found."""
        prices = int(self.cost), limit
        found = whole(self._goods, self._last, prices, self._work, extra=self._master.counts)
        rest = self._goods.demand.copy()
        bought: list[Purchase] = []
        for load in found.plan:
            for _ in range(load.number):
                rest = self._buy(np.minimum(load.counts, rest), 1, rest, bought)
        return bought

    def _alone(self) -> Amounts:
        """Per item the pattern of only it that costs least per copy."""
        copies = self._goods.copies()
        rate = np.where(copies > 0, self._goods.price[:, None] / np.maximum(copies, 1), np.inf)
        items = np.arange(len(self._goods.demand))
        return np.diag(copies[rate.argmin(axis=0), items])

    def _solve(self) -> Fractions:
        now = self._master.solve()
        self._work.spend((self._master.iterations - self._paid) * _PIVOT)
        self._paid = self._master.iterations
        return now

    def _exchanged(self, now: Fractions, demand: Amounts, rows: int, most: int) -> int:
        used = np.flatnonzero(now.nodes > _WHOLE)
        counts, column = self._master.counts[used], self._master.column[used]
        fine = np.all(counts <= demand, axis=1)
        added = 0
        for found in self._exchange.run(now.worth, counts[fine], column[fine], demand, rows):
            added += self._master.add(found, most - added)
            if added == most:
                break
        return added

    def _filled(self, now: Fractions) -> int:
        """Patterns that pay among greedy fillings of every column."""
        goods = self._goods
        found, gains = [self._master.counts[:0]], [np.zeros(0)]
        block = max(1, _FILLED_AT_ONCE // max(1, len(goods.demand)))
        for start in range(0, len(goods.price), block):
            if not self._work.left:
                break
            room, feasible = goods.room[start : start + block], goods.feasible[start : start + block]
            self._work.spend(feasible.size)
            counts = fill(room, feasible, goods.vectors, now.worth, goods.demand, goods.conflict)
            price = np.tile(goods.price[start : start + block], len(counts) // len(room)).astype(np.float64)
            gain = (counts @ now.worth - price) / np.maximum(price, 1.0)
            found.append(counts[gain > _GAIN])
            gains.append(gain[gain > _GAIN])
        order = np.argsort(-np.concatenate(gains), kind="stable")
        return self._master.add(np.concatenate(found)[order], _NEW)

    def _searched(self, now: Fractions, width: int) -> int:
        """Patterns that pay by a search of those columns that might have any; what it proves is kept."""
        found, most = [self._master.counts[:0]], np.full(len(self._goods.price), np.inf)
        for column, price in enumerate(self._goods.price.tolist()):
            if not self._work.left:
                break
            best = self._knapsacks.run(column, now.worth, price * (1 + _GAIN), width)
            found.append(best.counts[:_PER_COLUMN])
            most[column] = best.most if price > 0 else np.inf
        highest = float(np.max(most / np.maximum(self._goods.price, 1), initial=1.0))
        if now.cost / highest > self.bound:
            self.bound, self.worth, self.most = now.cost / highest, now.worth, most
        return self._master.add(np.concatenate(found))

    def _dive(self, now: Fractions) -> list[Purchase]:
        """Buy the whole nodes of the optimum, or its largest fraction, and plan the rest anew."""
        rest = self._goods.demand.copy()
        bought: list[Purchase] = []
        part = self._work.part(_DIVE)
        rounds = _DIVE_ROUNDS if len(rest) <= _MANY else 1
        while rest.any():
            before = int(rest.sum())
            for pattern, number in self._whole(now):
                rest = self._buy(np.minimum(self._master.counts[pattern], rest), number, rest, bought)
            if not part.left or int(rest.sum()) == before:
                break
            self._master.demand(rest)
            now = self._solve()
            for _ in range(rounds):
                used = np.flatnonzero(now.nodes > _WHOLE)
                added = self._master.add(np.minimum(self._master.counts[used], rest))
                added += self._exchanged(now, rest, _DIVE_ROWS, _DIVE_NEW)
                if not added or not part.left:
                    break
                now = self._solve()
        return bought

    def _whole(self, now: Fractions) -> list[tuple[int, int]]:
        """(pattern, nodes) to buy for certain."""
        number = np.floor(now.nodes + _WHOLE).astype(np.int64)
        order = np.argsort(-now.nodes, kind="stable")
        if not number.any():
            number[now.nodes > _NEARLY_ONE] = 1
            number[order[:1]] = 1
        return [(index, int(number[index])) for index in order.tolist() if number[index]]

    def _buy(self, counts: Amounts, number: int, rest: Amounts, bought: list[Purchase]) -> Amounts:
        held = counts > 0
        column = int(self._goods.cheapest(counts[None], owned=True)[0])
        if column < 0 or not held.any():
            return rest
        number = min(number, int(np.min(rest[held] // counts[held])))
        bought.append(Purchase(counts, column, number))
        return rest - counts * number
