"""The greedy packer: which nodes to buy for items whose domains are decided, the best value first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dovetail.solve.packing.bins import Bin
from dovetail.solve.packing.finish import finished
from dovetail.solve.packing.lots import Lots
from dovetail.solve.packing.pace import Crowds, Pace
from dovetail.solve.packing.patterns import fill, topped_up
from dovetail.solve.packing.stock import CELLS_PER_UNIT, Counts, Stock
from dovetail.solve.packing.twins import Twins
from dovetail.solve.supply.columns import Columns, Floats
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.limits import Limits
from dovetail.solve.supply.world import World

_ACTIVE = 24  # columns that are filled again for every pattern; all are, now and then
_CELLS = 6_000  # items times columns in one step of filling
_STALE = 1.05  # a pattern so much dearer than the best of all columns makes all be filled again
_MANY = 150  # items; beyond it that is not done, since filling all takes long
_FEW = 400  # bundles left; one node is bought at a time
_TRIES = 24  # of the best fillings, how many are looked at
_AS_GOOD = 1.01  # times the best cost per worth: such fillings are taken in the same step
# Where items can stand in for others many loads are as good, and a step takes them all.
_FEW_TWINS = 60
_AS_GOOD_TWINS = 1.08
_LOSS = 0.03  # of a node's price, that a load with others in it may be worth less
_FILLING = 300  # units of work of one step of filling, however small


@dataclass(slots=True)
class Packing:
    """Nodes to buy, and how many bundles of each item found none."""

    bins: list[Bin]
    left: Amounts  # (I,)

    @property
    def price(self) -> int:
        return sum(item.price for item in self.bins)


def rank(packing: Packing) -> tuple[int, int, int]:
    """The best packing has the least: first of pods left over, then of money, then of nodes."""
    return int(packing.left.sum()), packing.price, len(packing.bins)


@dataclass(frozen=True, slots=True)
class _Option:
    rate: float  # cost per worth
    column: int  # the cheapest that holds the load
    target: int  # the column that was filled
    counts: Counts  # by cell


class Packer(Stock):
    """Packs a fixed list of lots, as often as asked, under different values. Items are lots here."""

    def __init__(self, world: World, columns: Columns, lots: Lots) -> None:
        super().__init__(world, columns, lots)
        self._crowds = Crowds(lots)
        self._clash = lots.conflict[np.ix_(self.cells.kind, self.cells.kind)]
        self._twins = self._helpful_twins()
        self._few, self._as_good = (_FEW, _AS_GOOD) if self._twins is None else (_FEW_TWINS, _AS_GOOD_TWINS)
        many = len(self.cells.kind)
        self._stale = _STALE if many <= _MANY else np.inf
        self._active = max(4, min(_ACTIVE, _CELLS // max(1, many)))

    def _helpful_twins(self) -> Twins | None:
        """None where too few nodes are bought to save any steps, or where loads are not of items."""
        if int(self.demand.sum()) < _FEW or self.visitors or not self.cells.trivial:
            return None
        twins = Twins(self.vectors, self.lots.kind, self.feasible, self.lots.conflict)
        return twins if twins.any else None

    def pack(self, values: Floats, charge: Floats, limits: Limits, demand: Amounts | None = None) -> Packing:
        """Greedily buy the nodes whose pods are worth most for what they are charged, until nothing is left.

        `values` (I,) is the worth of a bundle, `charge` (C,) usually the price. `limits` is used up.
        `demand` (I,) is all bundles if not given.
        """
        left = (self.demand if demand is None else demand).copy()
        bins: list[Bin] = []
        active, rate = self.kept, 0.0
        while left.any():
            if self.world.work.late:
                bins += finished(self, charge, left, limits)
                break
            pace = self._pace(values, left)
            usable = active[limits.allowed()[active]] if limits.any else active
            options = self._options(usable, (values, charge), pace, left)
            dear = bool(options) and options[0].rate > rate * self._stale
            if active is not self.kept and (dear or not options):
                if not options or self.world.work.left:
                    active = self.kept
                    continue
                if self.world.work.hurried:
                    bins += finished(self, charge, left, limits)
                    break
            before = int(left.sum())
            if not self._take(options, pace, left, limits, bins):
                self._give_up(left, limits, bins)
            if int(left.sum()) == before:
                break
            if active is self.kept and options:
                active, rate = self._best_columns(options), options[0].rate
        return Packing(bins, left)

    def _pace(self, values: Floats, left: Amounts) -> Pace:
        by_kind = np.bincount(self.lots.kind, left, minlength=len(self.lots.kinds)).astype(np.int64)
        return self._crowds.pace(by_kind, float(values @ left))

    def _options(
        self, usable: Amounts, prices: tuple[Floats, Floats], pace: Pace, left: Amounts
    ) -> list[_Option]:
        """Loads of one node each, the cheapest per worth first."""
        if not len(usable):
            return []
        cells, charge = self.cells, prices[1]
        total = cells.total(left)
        worth = self._worth(np.maximum(prices[0], 1e-9), left, total)
        wanted = np.flatnonzero(total)
        usable = self._within(usable, charge, pace, wanted)
        filled = fill(
            self.room[usable],
            cells.feasible[np.ix_(wanted, usable)].T,
            cells.vectors[wanted],
            (worth + pace.pull[cells.kind])[wanted],
            total[wanted],
            self._clash[np.ix_(wanted, wanted)],
            largest=self._twins is None,  # where many loads are as good, these are not the best
        )
        picks = int(np.max(np.count_nonzero(filled, axis=1), initial=0))
        self.world.work.spend(_FILLING + filled.size * (2 + picks) // CELLS_PER_UNIT)
        column, price = self._cheapest(filled, wanted, charge, usable)
        value = filled @ (worth + pace.credit[cells.kind])[wanted]
        rate = np.where(value > 0, (price + 1e-3) / np.maximum(value, 1e-30), np.inf)
        rank = np.round(np.minimum(rate, 1e30) / max(float(rate.min()), 1e-30), 2)
        order = np.lexsort((-value, rank))  # at about equal rates the larger: fewer nodes
        order = order[np.isfinite(rate[order])]
        found: dict[Counts, _Option] = {}
        loads = _loads(filled[order], wanted)
        targets = usable[order % len(usable)].tolist()
        rows = zip(rate[order].tolist(), column[order].tolist(), targets, loads, strict=True)
        for each, cheapest, target, counts in rows:
            if len(found) >= _TRIES:
                break
            found.setdefault(counts, _Option(each, cheapest, target, counts))
        return list(found.values())

    def _worth(self, values: Floats, left: Amounts, total: Amounts) -> Floats:
        """The mean worth per cell (G,) of what is left of it."""
        summed = np.bincount(self.cells.cell, values * left, minlength=len(total))
        mean: Floats = summed / np.maximum(total, 1)
        return mean

    def _within(self, usable: Amounts, charge: Floats, pace: Pace, wanted: Amounts) -> Amounts:
        """Columns no dearer than the pace allows, and the cheapest for each that sets the pace."""
        fine = charge[usable] <= pace.price
        if fine.all():
            return usable
        order = np.argsort(charge[usable], kind="stable")
        paid = wanted[pace.credit[self.cells.kind[wanted]] > 0]
        held = self.cells.feasible[np.ix_(paid, usable[order])]
        fine[order[held.argmax(axis=1)[held.any(axis=1)]]] = True
        return usable[fine] if fine.any() else usable

    def _cheapest(
        self, filled: Amounts, wanted: Amounts, charge: Floats, usable: Amounts
    ) -> tuple[Amounts, Floats]:
        """Per load (N, W) the cheapest column that holds it and what that is charged."""
        columns = usable
        if not self.scarce:  # smaller ones than those that were filled, whatever was thinned out
            columns = self.offered[charge[self.offered] <= float(np.max(charge[usable], initial=0.0))]
        columns = columns[np.argsort(charge[columns], kind="stable")]
        held = self.held(filled, self.cells.vectors[wanted], self.cells.kind[wanted], columns)
        best = held.argmax(axis=1)
        return columns[best], np.where(held.any(axis=1), charge[columns[best]], np.inf)

    def _take(
        self, options: list[_Option], pace: Pace, left: Amounts, limits: Limits, bins: list[Bin]
    ) -> bool:
        """Buy the best options and those as good as long as there is demand; False if nothing can be."""
        bought, few = False, int(left.sum()) < self._few
        total = self.cells.total(left).tolist()
        for option in options:
            if bought and (few or limits.any or option.rate > options[0].rate * self._as_good):
                break
            if all(total[cell] >= count for cell, count in option.counts):
                bought |= self._repeat(option, left, limits, bins)
                total = self.cells.total(left).tolist()
            if bought and self._twins and not limits.any:
                self._repeat_alike(option, pace, left, limits, bins)
                total = left.tolist()
        return bought or self._take_less(options, left, limits, bins)

    def _repeat(self, option: _Option, left: Amounts, limits: Limits, bins: list[Bin]) -> bool:
        """Buy an option as often as there is demand for it and limits allow."""
        total = self.cells.total(left)
        number = min(int(total[cell]) // count for cell, count in option.counts)
        done = 0
        while done < number:
            # Filling up may have taken what the option was to be repeated with.
            total = self.cells.total(left)
            if any(int(total[cell]) < count for cell, count in option.counts):
                break
            load = self._load(option, left)
            made = self.made(limits, option.column, load)
            if made is None:
                break
            alike = min(number - done, *(int(left[lot]) // count for lot, count in load))
            alike = limits.times(made, alike)
            if alike < 1:
                break
            self.buy(made, alike, left, limits, bins)
            done += alike
        return done > 0

    def _repeat_alike(
        self, option: _Option, pace: Pace, left: Amounts, limits: Limits, bins: list[Bin]
    ) -> None:
        """Buy the option again and again with others in place of those that have run out."""
        assert self._twins is not None
        credit = pace.credit[self.cells.kind].tolist()
        most = sum(credit[cell] * count for cell, count in option.counts)
        dearest = int(self.columns.price[option.column])
        while True:
            load = self._twins.load(option.counts, option.column, left.tolist())
            lost = most - sum(credit[item] * count for item, count in load)
            if not load or lost > dearest * _LOSS:
                break
            made = self.made(limits, option.column, load)
            if made is None or lost > made.price * _LOSS:
                break
            number = min(int(left[item]) // count for item, count in load)
            if number < 1:
                break
            self.buy(made, number, left, limits, bins)

    def _load(self, option: _Option, left: Amounts) -> Counts:
        """The option in lots; what room is left, by cells too large or for guests, is filled up."""
        if self.cells.trivial and not self.visitors:
            return option.counts
        taken = self.cells.drawn(option.counts, left)
        kinds = np.unique(self.lots.kind[taken > 0])
        closed: Mask = np.asarray(self.lots.conflict[kinds].any(axis=0), dtype=np.bool_)
        taken += topped_up(
            self.room[option.column] - taken @ self.vectors,
            self.guests[:, option.column] & ~closed[self.lots.kind],
            self.vectors,
            left - taken,
            (self.lots.kind, self.lots.conflict),
        )
        self.world.work.spend(len(left) // CELLS_PER_UNIT)
        chosen = np.flatnonzero(taken)
        return tuple(zip(chosen.tolist(), taken[chosen].tolist(), strict=True))

    def _take_less(self, options: list[_Option], left: Amounts, limits: Limits, bins: list[Bin]) -> bool:
        """Buy the first option that the rules of a node allow once some pods are taken out."""
        for option in options:
            trial = dict(self._load(option, left))
            while sum(trial.values()) > 1:
                largest = max(trial, key=lambda index: (trial[index], index))
                trial[largest] -= max(1, trial[largest] // 4)
                if not trial[largest]:
                    del trial[largest]
                made = self.made(limits, option.column, tuple(sorted(trial.items())))
                if made is not None:
                    self.buy(made, 1, left, limits, bins)
                    return True
        return False

    def _give_up(self, left: Amounts, limits: Limits, bins: list[Bin]) -> bool:
        """Try each item alone; False when none can be placed any more."""
        allowed = limits.allowed()
        for index in np.flatnonzero(left).tolist():
            for column in self.ways(index, allowed):
                found = self.bought((column, ((index, 1),)), 1, left, limits)
                bins += found
                if found:
                    return True
        return False

    def _best_columns(self, options: list[_Option]) -> Amounts:
        chosen = list(dict.fromkeys(option.target for option in options))
        return np.array(sorted(chosen[: self._active]), dtype=np.int64)


def _loads(filled: Amounts, items: Amounts) -> Iterator[Counts]:
    """Each row's (N, W) counts of the items (W,)."""
    row, place = np.nonzero(filled)
    pairs = list(zip(items[place].tolist(), filled[row, place].tolist(), strict=True))
    ends = np.searchsorted(row, np.arange(len(filled) + 1)).tolist()
    return (tuple(pairs[start:end]) for start, end in pairwise(ends))
