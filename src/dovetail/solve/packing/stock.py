"""What is for sale to a list of lots: who fits where, what a load costs, and buying it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dovetail.solve.packing.bins import Bin, make_bin
from dovetail.solve.packing.cells import Cells
from dovetail.solve.packing.lots import Kind, Lots
from dovetail.solve.packing.market import Market, market
from dovetail.solve.supply.columns import Columns, Floats, thinned, undominated
from dovetail.solve.supply.diversity import diverse_room
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.limits import Limits
from dovetail.solve.supply.masks import share
from dovetail.solve.supply.world import World

CELLS_PER_UNIT = 24  # of items times nodes in one step of filling that make a unit of work

_MANY = 60_000  # cells times columns; with fewer, limits are spent on the very best column

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
        holds = columns.holds(world, amounts)
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
        if not self.scarce or len(self.offered) * len(self.cells.vectors) > _MANY:
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
            rows.append(self.columns.suits(world, kind.wanted, free))
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
