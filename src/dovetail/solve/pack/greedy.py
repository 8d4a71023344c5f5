"""The greedy packer: nodes of the best value first; first fit for the rest once time is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np

from dovetail.solve.colgen.patterns import fill, topped_up
from dovetail.solve.colgen.pricing_instance import Market, market
from dovetail.solve.instance.arrays import Amounts, Floats, Mask, share
from dovetail.solve.instance.instance import World
from dovetail.solve.instance.limits import Limits, diverse_room
from dovetail.solve.instance.offerings import Columns, thinned, undominated
from dovetail.solve.pack.aggregation import (
    Cells,
    Crowds,
    Kind,
    Lots,
    Pace,
    Twins,
)
from dovetail.solve.pack.node_candidate import Bin, make_bin

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


CELLS_PER_UNIT = 24  # of items times nodes in one step of filling that make a unit of work

_MANY_CELLS = 60_000  # cells times columns; with fewer, limits are spent on the very best column

Counts = tuple[tuple[int, int], ...]  # (item or cell, bundles), ascending


class Stock:
    """I items, which are lots here, and C columns of R resources.

    `feasible` and `guests` (I, C), `vectors` (I, R), `room` (C, R); of the columns `offered` are worth a look
    at all, `kept` those to fill again and again, `sold` those without reservations, the cheapest first.
    """

    def __init__(self, world: World, columns: Columns, lots: Lots) -> None:
        self.world = world
        self.columns = columns
        self.lots = lots
        self.items = lots.items
        self.demand = np.array([len(item.bundles) for item in lots.items], dtype=np.int64)
        amounts = np.array([item.vector for item in lots.items])
        holds = columns.holds(amounts)
        world.work.spend(holds.size // CELLS_PER_UNIT)
        suited = self._suited(lots.kinds, guests=False)
        self.feasible = holds & suited[lots.kind]
        # Nodes of other pools, bought anyway, may take an item too; none is bought there for its sake.
        self.guests = holds & self._suited(lots.kinds, guests=True)[lots.kind]
        self._unsuited = ~suited  # (K, C)
        self.visitors = bool((self.guests & ~self.feasible).any())
        self.vectors: Amounts = np.concatenate([amounts, lots.takes[lots.kind]], axis=1)
        room = np.maximum(diverse_room(world, columns, amounts), 0)
        self.room: Amounts = np.concatenate([room, np.tile(lots.has, (len(room), 1))], axis=1)
        self.cells = Cells(self.vectors, lots.kind, self.feasible, self.room)
        limited = [table.index for table in world.tables if table.pool.limits is not None]
        drawing = world.commons.draws.any(axis=1)
        protected = columns.reserved | np.isin(columns.pool, limited) | drawing
        self.scarce = bool(protected.any())
        self.offered = undominated(self.cells.feasible, self.room, columns.price, protected)
        self.kept = self.offered
        if not self.scarce or len(self.offered) * len(self.cells.vectors) > _MANY_CELLS:
            free = self.offered[~columns.reserved[self.offered]]
            some = thinned(free, self.cells.feasible, columns.price)
            self.kept = np.union1d(some, self.offered[columns.reserved[self.offered]])
        free = self.offered[~columns.reserved[self.offered]]
        self.sold: Amounts = free[np.argsort(columns.price[free], kind="stable")]
        self._sold_price = columns.price[self.sold]

    @cached_property
    def conflict(self) -> Mask:
        """Which items cannot share a node, (I, I); the diagonal: at most one bundle per node."""
        kind = self.lots.kind
        return self.lots.conflict[np.ix_(kind, kind)]

    @cached_property
    def unreserved(self) -> Market:
        """All that is for sale but reserved capacity; a node is bought only for whom `feasible` lets in."""
        guests, own = self.guests & ~self.columns.reserved, self.feasible & ~self.columns.reserved
        what = self.room, self.columns.price, self.vectors, self.conflict, self.demand
        return market(guests, *what, own=own)

    def least_costs(self) -> Floats:
        """What a bundle costs on its best column, by its share of the scarcest resource there, (I,)."""
        least = np.full(len(self.items), np.inf)
        for column in self.kept.tolist():
            room = np.maximum(self.room[column], 1).astype(np.float64)
            share = np.max(self.vectors / room, axis=1, initial=0.0)
            cost = np.where(self.feasible[:, column], share * self.columns.price[column], np.inf)
            np.minimum(least, cost, out=least)
        return np.where(np.isfinite(least), least, 0.0)

    def cheapest(self, loads: Amounts, most: float = np.inf) -> tuple[Amounts, Floats]:
        """The cheapest column for each load (N, I), and its price: infinite where none up to `most` holds it.

        Limits and reservations are left out.
        """
        wanted = np.flatnonzero(loads.any(axis=0))
        loads = loads[:, wanted]
        columns = self.sold[: max(1, int(np.searchsorted(self._sold_price, most, side="right")))]
        held = self.held(loads, self.vectors[wanted], self.lots.kind[wanted], columns)
        if self.lots.conflict.any():
            conflict, present = self.conflict_among(wanted), loads > 0
            apart = share(present, np.triu(conflict, 1))
            broken = (apart & present) | ((loads > 1) & np.diagonal(conflict))
            held &= ~broken.any(axis=1, keepdims=True)
        best = held.argmax(axis=1)
        price = np.where(held.any(axis=1), self.columns.price[columns[best]], np.inf)
        return columns[best], price.astype(np.float64)

    def held(self, loads: Amounts, vectors: Amounts, kind: Amounts, columns: Amounts) -> Mask:
        """Which columns hold which loads (N, W) of W things with such requests and kinds, (N, columns).

        Who fits alone somewhere but for its size is a matter of its kind.
        """
        present = loads > 0
        kinds, of = np.unique(kind, return_inverse=True)
        if 2 * len(kinds) < len(kind):
            member = of.reshape(-1)[:, None] == np.arange(len(kinds))
            present, kind = share(present, member), kinds
        result: Mask = ~share(present, self._unsuited[np.ix_(kind, columns)])
        used = loads.astype(np.float64) @ vectors.astype(np.float64)  # exact: below 2**53
        for row in range(used.shape[1]):
            result &= used[:, row][:, None] <= self.room[columns, row][None, :]
        return result

    def conflict_among(self, items: Amounts) -> Mask:
        """Which of these items cannot share a node."""
        kind = self.lots.kind[items]
        return self.lots.conflict[np.ix_(kind, kind)]

    def _suited(self, kinds: Sequence[Kind], *, guests: bool) -> Mask:
        """Columns that each kind may be on, whatever their room, (K, C)."""
        world, rows = self.world, []
        for kind in kinds:
            pools = kind.guests if guests else kind.pools
            free = [pool for pool in pools if world.free_of_ports(pool, kind.ports)]
            rows.append(self.columns.suits(kind.wanted, free))
        return np.array(rows, dtype=np.bool_)

    def made(self, limits: Limits, column: int, counts: Counts) -> Bin | None:
        """The node for so many of each item, None when some rule forbids it."""
        return make_bin(self.world, self.columns, limits, self.items, (column, counts))

    @staticmethod
    def buy(made: Bin, number: int, left: Amounts, limits: Limits, bins: list[Bin]) -> None:
        bins.extend([made] * number)
        limits.take(made, number)
        for index, count in made.counts:
            left[index] -= number * count

    def ways(self, item: int, allowed: Mask) -> list[int]:
        """Of the columns that are allowed (C,) and hold the item, the cheapest per pool and reservation."""
        columns, found = self.columns, dict[tuple[int, str], int]()
        where = np.flatnonzero(self.feasible[item] & allowed)
        for column in where[np.argsort(columns.price[where], kind="stable")].tolist():
            found.setdefault((int(columns.pool[column]), columns.reservation[column]), column)
        return list(found.values())

    def bought(self, trial: tuple[int, Counts], number: int, left: Amounts, limits: Limits) -> list[Bin]:
        """At most so many nodes of one load, which is left so often; fewer where a rule or limit forbids."""
        bins: list[Bin] = []
        while len(bins) < number:
            made = self.made(limits, *trial)
            if made is None:
                break
            alike = limits.times(made, number - len(bins))
            self.buy(made, alike, left, limits, bins)
        return bins


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
