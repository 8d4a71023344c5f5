"""Second half of a solve: which nodes to buy for items whose domains are decided, by price."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.solve.packing.bins import Bin, make_bin
from dovetail.solve.packing.patterns import STRATEGIES, fill
from dovetail.solve.placing.items import Item
from dovetail.solve.supply.columns import Columns, Floats, conflicts, host_rows, thinned, undominated
from dovetail.solve.supply.diversity import diverse_room
from dovetail.solve.supply.encode import Amounts
from dovetail.solve.supply.limits import Limits
from dovetail.solve.supply.world import World

_ACTIVE = 24  # columns that are filled again for every pattern; all are, now and then
_CELLS = 6_000  # items times columns in one step of filling
_STALE = 1.05  # a pattern so much dearer than the best of all columns makes all be filled again
_STALE_MANY = 1.25  # the same where there are so many items that filling all takes long
_MANY = 150
_TRIES = 6  # of the best fillings, how many are priced exactly


@dataclass(slots=True)
class Packing:
    """Nodes to buy, and how many bundles of each item found none."""

    bins: list[Bin]
    left: Amounts  # (I,)

    @property
    def price(self) -> int:
        return sum(item.price for item in self.bins)


class Packer:
    """Packs a fixed list of items, as often as asked, under different values of the items."""

    def __init__(self, world: World, columns: Columns, items: list[Item]) -> None:
        self.world = world
        self.columns = columns
        self.items = items
        self.demand = np.array([len(item.bundles) for item in items], dtype=np.int64)
        self.feasible = np.array([columns.feasible(world, item) for item in items], dtype=np.bool_)
        # Nodes of other pools, bought anyway, may take an item too; none is bought there for its sake.
        self.guests = np.array([columns.feasible(world, _anywhere(world, item)) for item in items], np.bool_)
        takes, has = host_rows(world, items)
        vectors = np.array([item.vector for item in items])
        self.vectors: Amounts = np.concatenate([vectors, takes], axis=1)
        room = np.maximum(diverse_room(world, columns, vectors), 0)
        self.room: Amounts = np.concatenate([room, np.tile(has, (len(columns.price), 1))], axis=1)
        self.conflict = conflicts(world, items)
        limited = [table.index for table in world.tables if table.pool.limits is not None]
        protected = columns.reserved | np.isin(columns.pool, limited)
        kept = undominated(self.feasible, self.room, columns.price, protected)
        self.kept = thinned(kept, self.feasible, columns.price) if not protected.any() else kept
        self._stale = _STALE if len(items) <= _MANY else _STALE_MANY
        self._active = max(4, min(_ACTIVE, _CELLS // max(1, len(items))))

    def least_costs(self) -> Floats:
        """What a bundle costs on its best column, by its share of the scarcest resource there, (I,)."""
        room = np.maximum(self.room[self.kept], 1).astype(np.float64)
        share = np.max(self.vectors[:, None, :] / room[None, :, :], axis=2, initial=0.0)
        cost = np.where(self.feasible[:, self.kept], share * self.columns.price[self.kept], np.inf)
        least = cost.min(axis=1, initial=np.inf)
        return np.where(np.isfinite(least), least, 0.0)

    def pack(self, values: Floats, charge: Floats, limits: Limits, demand: Amounts | None = None) -> Packing:
        """Greedily buy the node whose pods are worth most for what it is charged, until nothing is left.

        `values` (I,) is the worth of a bundle, `charge` (C,) usually the price. `limits` is used up.
        `demand` (I,) is all bundles if not given.
        """
        left = (self.demand if demand is None else demand).copy()
        bins: list[Bin] = []
        active, rate = self.kept, 0.0
        while left.any():
            usable = active[limits.allowed()[active]] if limits.any else active
            options = self._options(usable, values, charge, left)
            stale = not options or (options[0][0] > rate * self._stale and self.world.work.left)
            if active is not self.kept and stale:
                active = self.kept
                continue
            made = self._first_made(options, limits)
            if made is not None:
                self._buy(made, left, limits, bins)
            elif not self._give_up(left, limits, bins):
                break
            if active is self.kept and options:
                active, rate = self._best_columns(options), options[0][0]
        return Packing(bins, left)

    def _options(
        self, usable: Amounts, values: Floats, charge: Floats, left: Amounts
    ) -> list[tuple[float, int, tuple[tuple[int, int], ...]]]:
        """(cost per worth of pods, column, counts), best first, without repeats."""
        if not len(usable):
            return []
        wanted = np.flatnonzero(left)
        self.world.work.spend(len(usable) * len(wanted))
        counts = np.zeros((STRATEGIES * len(usable), len(left)), dtype=np.int64)
        counts[:, wanted] = fill(
            self.room[usable],
            self.feasible[np.ix_(wanted, usable)].T,
            self.vectors[wanted],
            values[wanted],
            left[wanted],
            self.conflict[np.ix_(wanted, wanted)],
        )
        worth = counts @ np.maximum(values, 1e-9)
        price = np.tile(charge[usable], len(counts) // len(usable))
        cost = np.where(worth > 0, (price + 1e-3) / np.maximum(worth, 1e-30), np.inf)
        found: dict[tuple[int, tuple[tuple[int, int], ...]], float] = {}
        for row in np.argsort(cost, kind="stable").tolist():
            if not np.isfinite(cost[row]) or len(found) >= 4 * _TRIES:
                break
            chosen = np.flatnonzero(counts[row])
            key = (
                int(usable[row % len(usable)]),
                tuple(zip(chosen.tolist(), counts[row, chosen].tolist(), strict=True)),
            )
            found.setdefault(key, float(cost[row]))
        return [(rate, column, picked) for (column, picked), rate in found.items()]

    def _first_made(
        self, options: list[tuple[float, int, tuple[tuple[int, int], ...]]], limits: Limits
    ) -> Bin | None:
        """The first option that every rule of the node allows, with pods taken out where that helps."""
        for _, column, counts in options:
            trial = dict(counts)
            while trial:
                made = make_bin(
                    self.world, self.columns, limits, self.items, (column, tuple(sorted(trial.items())))
                )
                if made is not None:
                    return made
                if sum(trial.values()) == 1:
                    break
                largest = max(trial, key=lambda index: (trial[index], index))
                trial[largest] -= max(1, trial[largest] // 4)
                if not trial[largest]:
                    del trial[largest]
        return None

    def _buy(self, made: Bin, left: Amounts, limits: Limits, bins: list[Bin]) -> None:
        """Buy the node, and its like while there is demand."""
        repeat = min(int(left[index]) // number for index, number in made.counts)
        if limits.any:
            repeat = 1
        for _ in range(repeat):
            bins.append(made)
            limits.take(made.pool, made.types, made.reservation)
            for index, number in made.counts:
                left[index] -= number

    def _give_up(self, left: Amounts, limits: Limits, bins: list[Bin]) -> bool:
        """Try each item alone on every column; False when none can be placed any more."""
        allowed = limits.allowed()
        for index in np.flatnonzero(left).tolist():
            where = np.flatnonzero(self.feasible[index] & allowed)
            for column in where[np.argsort(self.columns.price[where], kind="stable")].tolist():
                made = make_bin(self.world, self.columns, limits, self.items, (column, ((index, 1),)))
                if made is not None:
                    self._buy(made, left, limits, bins)
                    return True
        return False

    def _best_columns(self, options: list[tuple[float, int, tuple[tuple[int, int], ...]]]) -> Amounts:
        chosen = list(dict.fromkeys(column for _, column, _ in options))
        return np.array(sorted(chosen[: self._active]), dtype=np.int64)


def _anywhere(world: World, item: Item) -> Item:
    """The item, as if every pool that lets its pods in were its own."""
    rules = [world.shapes[shape].levels[level].rules for shape, level in item.kinds]
    pools = [
        table.index
        for table in world.tables
        if all(world.suits(table.index, item.wanted, each) for each in rules)
    ]
    return replace(item, pools=tuple(pools))
