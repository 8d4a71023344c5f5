"""The greedy packer: which nodes to buy for items whose domains are decided, the best value first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dovetail.solve.packing.bins import Bin, make_bin
from dovetail.solve.packing.cells import Cells
from dovetail.solve.packing.lots import Kind, Lots
from dovetail.solve.packing.pace import Crowds, Pace
from dovetail.solve.packing.patterns import fill, topped_up
from dovetail.solve.supply.columns import Columns, Floats, thinned, undominated
from dovetail.solve.supply.diversity import diverse_room
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.limits import Limits
from dovetail.solve.supply.world import World

_ACTIVE = 24  # columns that are filled again for every pattern; all are, now and then
_CELLS = 6_000  # items times columns in one step of filling
_STALE = 1.05  # a pattern so much dearer than the best of all columns makes all be filled again
_STALE_MANY = 1.25  # the same where there are so many items that filling all takes long
_MANY = 150
_FEW = 400  # bundles left; one node is bought at a time
_TRIES = 24  # of the best fillings, how many are looked at
_AS_GOOD = 1.01  # times the best cost per worth: such fillings are taken in the same step
_FILLING = 300  # units of work of one step of filling, however small
_CELLS_PER_UNIT = 24  # of items times nodes in one step of filling that make a unit of work

_Counts = tuple[tuple[int, int], ...]


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
    counts: _Counts  # by cell


class Packer:
    """Packs a fixed list of lots, as often as asked, under different values. Items are lots here."""

    def __init__(self, world: World, columns: Columns, lots: Lots) -> None:
        self.world = world
        self.columns = columns
        self.lots = lots
        self.items = lots.items
        self.demand = np.array([len(item.bundles) for item in lots.items], dtype=np.int64)
        amounts = np.array([item.vector for item in lots.items])
        holds = columns.holds(world, amounts)
        world.work.spend(holds.size // _CELLS_PER_UNIT)
        self.feasible = holds & self._suited(lots.kinds, guests=False)[lots.kind]
        # Nodes of other pools, bought anyway, may take an item too; none is bought there for its sake.
        self.guests = holds & self._suited(lots.kinds, guests=True)[lots.kind]
        self.visitors = bool((self.guests & ~self.feasible).any())
        self.vectors: Amounts = np.concatenate([amounts, lots.takes[lots.kind]], axis=1)
        room = np.maximum(diverse_room(world, columns, amounts), 0)
        self.room: Amounts = np.concatenate([room, np.tile(lots.has, (len(room), 1))], axis=1)
        self.cells = Cells(self.vectors, lots.kind, self.feasible, self.room)
        limited = [table.index for table in world.tables if table.pool.limits is not None]
        protected = columns.reserved | np.isin(columns.pool, limited)
        self._offered = undominated(self.cells.feasible, self.room, columns.price, protected)
        thin = thinned(self._offered, self.cells.feasible, columns.price)
        self.kept = thin if not protected.any() else self._offered
        free = self._offered[~columns.reserved[self._offered]]
        self._open = free[np.argsort(columns.price[free], kind="stable")]
        self._lacks = (~self.cells.feasible).astype(np.float32)
        self._scarce = bool(protected.any())
        self._crowds = Crowds(lots)
        self._clash = lots.conflict[np.ix_(self.cells.kind, self.cells.kind)]
        many = len(self.cells.kind)
        self._stale = _STALE if many <= _MANY else _STALE_MANY
        self._active = max(4, min(_ACTIVE, _CELLS // max(1, many)))

    @property
    def open_columns(self) -> int:
        """How many columns there are for as many nodes as one likes."""
        return len(self._open)

    @cached_property
    def conflict(self) -> Mask:
        """Which items cannot share a node, (I, I); the diagonal: at most one bundle per node."""
        kind = self.lots.kind
        return self.lots.conflict[np.ix_(kind, kind)]

    def least_costs(self) -> Floats:
        """What a bundle costs on its best column, by its share of the scarcest resource there, (I,)."""
        least = np.full(len(self.items), np.inf)
        for column in self.kept.tolist():
            room = np.maximum(self.room[column], 1).astype(np.float64)
            share = np.max(self.vectors / room, axis=1, initial=0.0)
            cost = np.where(self.feasible[:, column], share * self.columns.price[column], np.inf)
            np.minimum(least, cost, out=least)
        return np.where(np.isfinite(least), least, 0.0)

    def cheapest(self, loads: Amounts) -> tuple[Amounts, Floats]:
        """The cheapest column for each load (N, I), and its price: infinite where none holds it.

        Limits and reservations are left out.
        """
        wanted = np.flatnonzero(loads.any(axis=0))
        loads = loads[:, wanted]
        columns = self._open
        present = (loads > 0).astype(np.float32)
        lacks = (~self.feasible[np.ix_(wanted, columns)]).astype(np.float32)
        held = present @ lacks == 0
        used = loads @ self.vectors[wanted]
        for row in range(used.shape[1]):
            held &= used[:, row][:, None] <= self.room[columns, row][None, :]
        if self.lots.conflict.any():
            conflict = self.conflict_among(wanted)
            apart = np.triu(conflict, 1).astype(np.float32)
            broken = ((present @ apart > 0) & (loads > 0)) | ((loads > 1) & np.diagonal(conflict))
            held &= ~broken.any(axis=1, keepdims=True)
        best = held.argmax(axis=1)
        price = np.where(held.any(axis=1), self.columns.price[columns[best]], np.inf)
        return columns[best], price.astype(np.float64)

    def conflict_among(self, items: Amounts) -> Mask:
        """Which of these items cannot share a node."""
        kind = self.lots.kind[items]
        return self.lots.conflict[np.ix_(kind, kind)]

    def pack(self, values: Floats, charge: Floats, limits: Limits, demand: Amounts | None = None) -> Packing:
        """Greedily buy the nodes whose pods are worth most for what they are charged, until nothing is left.

        `values` (I,) is the worth of a bundle, `charge` (C,) usually the price. `limits` is used up.
        `demand` (I,) is all bundles if not given.
        """
        left = (self.demand if demand is None else demand).copy()
        bins: list[Bin] = []
        active, rate = self.kept, 0.0
        while left.any():
            pace = self._pace(values, left)
            usable = active[limits.allowed()[active]] if limits.any else active
            options = self._options(usable, (values, charge), pace, left)
            stale = not options or (options[0].rate > rate * self._stale and self.world.work.left)
            if active is not self.kept and stale:
                active = self.kept
                continue
            if not self._take(options, left, limits, bins) and not self._give_up(left, limits, bins):
                break
            if active is self.kept and options:
                active, rate = self._best_columns(options), options[0].rate
        return Packing(bins, left)

    def _suited(self, kinds: Sequence[Kind], *, guests: bool) -> Mask:
        """Columns that each kind may be on, whatever their room, (K, C)."""
        world, rows = self.world, []
        for kind in kinds:
            pools = kind.guests if guests else kind.pools
            free = [pool for pool in pools if world.free_of_ports(pool, kind.ports)]
            rows.append(self.columns.suits(world, kind.wanted, free))
        return np.array(rows, dtype=np.bool_)

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
        )
        picks = int(np.max(np.count_nonzero(filled, axis=1), initial=0))
        self.world.work.spend(_FILLING + filled.size * (2 + picks) // _CELLS_PER_UNIT)
        column, price = self._cheapest(filled, wanted, charge, usable)
        value = filled @ (worth + pace.credit[cells.kind])[wanted]
        rate = np.where(value > 0, (price + 1e-3) / np.maximum(value, 1e-30), np.inf)
        rank = np.round(np.minimum(rate, 1e30) / max(float(rate.min()), 1e-30), 2)
        order = np.lexsort((-value, rank))  # at about equal rates the larger: fewer nodes
        found: dict[_Counts, _Option] = {}
        for row in order.tolist():
            if not np.isfinite(rate[row]) or len(found) >= _TRIES:
                break
            chosen = np.flatnonzero(filled[row])
            counts = tuple(zip(wanted[chosen].tolist(), filled[row, chosen].tolist(), strict=True))
            target = int(usable[row % len(usable)])
            found.setdefault(counts, _Option(float(rate[row]), int(column[row]), target, counts))
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
        for cell in wanted[pace.credit[self.cells.kind[wanted]] > 0].tolist():
            where = np.flatnonzero(self.cells.feasible[cell, usable])
            if len(where):
                fine[where[np.argmin(charge[usable[where]])]] = True
        return usable[fine] if fine.any() else usable

    def _cheapest(
        self, filled: Amounts, wanted: Amounts, charge: Floats, usable: Amounts
    ) -> tuple[Amounts, Floats]:
        """Per load (N, W) the cheapest column that holds it and what that is charged."""
        columns = usable
        if not self._scarce:  # smaller ones than those that were filled, whatever was thinned out
            columns = self._offered[charge[self._offered] <= float(np.max(charge[usable], initial=0.0))]
        columns = columns[np.argsort(charge[columns], kind="stable")]
        lacks = self._lacks[np.ix_(wanted, columns)]
        held = (filled > 0).astype(np.float32) @ lacks == 0
        used = filled @ self.cells.vectors[wanted]
        for row in range(used.shape[1]):
            held &= used[:, row][:, None] <= self.room[columns, row][None, :]
        best = held.argmax(axis=1)
        return columns[best], np.where(held.any(axis=1), charge[columns[best]], np.inf)

    def _take(self, options: list[_Option], left: Amounts, limits: Limits, bins: list[Bin]) -> bool:
        """Buy the best options and those as good as long as there is demand; False if nothing can be."""
        bought, few = False, int(left.sum()) < _FEW
        for option in options:
            if bought and (few or limits.any or option.rate > options[0].rate * _AS_GOOD):
                break
            bought |= self._repeat(option, left, limits, bins)
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
            alike = limits.times(made.pool, made.types, made.reservation, alike)
            self._buy(made, alike, left, limits, bins)
            done += alike
            if limits.any:  # what is left of them may no longer allow the column
                break
        return done > 0

    def _load(self, option: _Option, left: Amounts) -> _Counts:
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
        self.world.work.spend(len(left) // _CELLS_PER_UNIT)
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
                    self._buy(made, 1, left, limits, bins)
                    return True
        return False

    def made(self, limits: Limits, column: int, counts: _Counts) -> Bin | None:
        """The node for so many of each item, None when some rule forbids it."""
        return make_bin(self.world, self.columns, limits, self.items, (column, counts))

    @staticmethod
    def _buy(made: Bin, number: int, left: Amounts, limits: Limits, bins: list[Bin]) -> None:
        bins.extend([made] * number)
        for _ in range(number if limits.any else 0):
            limits.take(made.pool, made.types, made.reservation)
        for index, count in made.counts:
            left[index] -= number * count

    def _give_up(self, left: Amounts, limits: Limits, bins: list[Bin]) -> bool:
        """Try each item alone on every column; False when none can be placed any more."""
        allowed = limits.allowed()
        for index in np.flatnonzero(left).tolist():
            where = np.flatnonzero(self.feasible[index] & allowed)
            for column in where[np.argsort(self.columns.price[where], kind="stable")].tolist():
                made = self.made(limits, column, ((index, 1),))
                if made is not None:
                    self._buy(made, 1, left, limits, bins)
                    return True
        return False

    def _best_columns(self, options: list[_Option]) -> Amounts:
        chosen = list(dict.fromkeys(option.target for option in options))
        return np.array(sorted(chosen[: self._active]), dtype=np.int64)
