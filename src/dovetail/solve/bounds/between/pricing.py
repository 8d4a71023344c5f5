"""Column generation under rules between pods: loads of nodes that pay, where there are too many to list.

The program over loads in fractions tells what pods are worth in each domain; the loads that are worth more
than their node costs join it, until there are none. After Dantzig and Wolfe; what is proven on the way is
Farley's bound: worths divided by the largest multiple of its price that a load is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.model.offering import NANO_DOLLARS
from dovetail.solve.bounds.between.loads import Loads, alike, joined
from dovetail.solve.bounds.between.master import Linear, Master
from dovetail.solve.bounds.between.rows import Rows
from dovetail.solve.packing.knapsack import Knapsacks
from dovetail.solve.packing.market import Market, market
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.work import Work

_ROUNDS = 60
_WIDTH = 2_000  # partial loads that are followed
_PER_SITE = 20  # loads that one round adds
_FIRST = 0.9  # share of its price that a load of the first round is worth, by what fractions of nodes say
_GAIN = 1e-6  # of the price: less is not worth a load
_CLOSE = 0.9999  # share of the cost in fractions: a bound that near is not worth another round
_SHARE = 0.4  # of the work left


@dataclass(frozen=True, slots=True)
class _Fleet:
    """Sites that no rule tells apart, as one market."""

    goods: Market  # its columns stand for sites
    knapsacks: Knapsacks


class Pricing:
    """Adds loads to the program of some rows."""

    def __init__(self, rows: Rows, work: Work) -> None:
        self._rows, self._work = rows, work
        open_to = rows.open()
        self._fleets = [self._fleet(np.array(sorted(sites)), open_to) for sites in alike(rows.terrain)]
        self._known: set[tuple[int, bytes]] = set()  # sites with what is on a node
        self.bound = 0.0  # dollars per hour that no plan costs less than

    def run(self, master: Master) -> Linear | None:
        """Add the loads that matter; the best plan in fractions of them, None if there is none."""
        part, work = self._work.part(_SHARE), self._work
        first = master.plain(work)
        if first is None:
            return None
        self.bound = first.least
        master.add(self._alone())
        master.add(self._found(master.worths(first), _FIRST)[0])
        for _ in range(_ROUNDS):
            now = master.linear(master.every, work)
            if now is None or not part.left:
                return now
            found, most = self._found(master.worths(now), 1 + _GAIN)
            self.bound = max(self.bound, now.least / most)
            if not len(found) or self.bound >= now.least * _CLOSE:
                return now
            master.add(found)
        return master.linear(master.every, work)

    def _fleet(self, sites: Amounts, open_to: Mask) -> _Fleet:
        terrain, feasible = self._rows.terrain, open_to[:, sites]
        what = terrain.room[sites], terrain.price[sites], terrain.vectors, terrain.conflict, terrain.demand
        goods = market(feasible, *what, own=terrain.own[:, sites] & feasible)
        goods = replace(goods, column=sites[goods.column])
        return _Fleet(goods, Knapsacks(goods, self._work))

    def _alone(self) -> Loads:
        """Each kind on the cheapest node for it, as one pod and as many as fit."""
        found = []
        for fleet in self._fleets:
            copies = fleet.goods.copies().max(axis=0, initial=0)
            some = np.flatnonzero(copies)
            single = np.zeros((len(some), len(copies)), dtype=np.int64)
            single[np.arange(len(some)), some] = 1
            found.append(self._new(fleet, np.concatenate([single, single * copies[some][:, None]])))
        return joined(found, len(self._rows.pods))

    def _found(self, worths: Floats, share: float) -> tuple[Loads, float]:
        """Loads worth more than that share of their price, by worths in dollars per site (K, S + 1), the last
        one of the node itself; and the largest multiple of its price, at least 1, that a load is worth:
        infinite where that takes more work than there is."""
        found: list[Loads] = []
        highest = 1.0
        for fleet in self._fleets:
            for column, price in enumerate(fleet.goods.price.tolist()):
                if not self._work.left:
                    return joined(found, len(self._rows.pods)), float("inf")
                site = int(fleet.goods.column[column])
                # Negative worths: such pods are left out, as if that cost nothing.
                worth, extra = worths[site, :-1] * NANO_DOLLARS, float(worths[site, -1]) * NANO_DOLLARS
                best = fleet.knapsacks.run(column, np.maximum(worth, 0.0), price * share - extra, _WIDTH)
                counts, most = self._owned(fleet.goods, column, worth, best.counts)
                highest = max(highest, (max(most, best.others) + extra) / max(price, 1))
                found.append(self._new(fleet, counts[:_PER_SITE]))
        return joined(found, len(self._rows.pods)), highest

    def _owned(self, goods: Market, column: int, worth: Floats, counts: Amounts) -> tuple[Amounts, float]:
        """Those of the loads (N, S), best first, that a node may be bought for, and the most worth of one.

        Pods of no worth may be what lets others in.
        """
        own = goods.own[column]
        idle = np.flatnonzero(own & (worth <= 0))
        counts = counts.copy()
        for kind in idle.tolist():
            lonely = ~counts[:, own].any(axis=1)
            room = goods.room[column] - counts @ goods.vectors
            fits = (room >= goods.vectors[kind]).all(axis=1) & ~counts[:, goods.conflict[kind]].any(axis=1)
            counts[lonely & fits, kind] = 1
        counts = counts[counts[:, own].any(axis=1)]
        return counts, float(np.max(counts @ np.maximum(worth, 0.0), initial=0.0))

    def _new(self, fleet: _Fleet, counts: Amounts) -> Loads:
        """Those of the loads that were not known, each on the cheapest site."""
        where = fleet.goods.cheapest(counts, owned=True)
        kept = []
        for number, column in enumerate(where.tolist()):
            key = int(fleet.goods.column[column]), counts[number].tobytes()
            if column >= 0 and key not in self._known:
                self._known.add(key)
                kept.append(number)
        return Loads(fleet.goods.column[where[kept]], counts[kept])
