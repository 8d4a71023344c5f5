"""Fewer nodes for the same money: nodes of one load joined with as many of another, many at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.solve.packing.bins import Bin
from dovetail.solve.packing.pack import Packer, Packing, rank
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.limits import Limits

_GROUPS = 48  # of nodes of one load; of more, those with most nodes are joined
_FEW_GROUPS = 8
_CELLS = 60_000  # groups times columns; with more there are fewer groups
_STEPS = 64
_MANY = 100_000  # lots times columns; with more, no nodes are joined once the time is over
_UNITS_PER_LOAD = 3  # of work, for finding its price


def joined(packer: Packer, packing: Packing, start: Limits) -> Packing:
    """The packing, or one of fewer nodes that costs no more. `start` is not changed.

    A little of it is done even once the time is over: fewer nodes are fewer claims to be written.
    """
    late = packer.world.work.late
    if len(packing.bins) < 2 or (late and len(packer.items) * len(packer.sold) > _MANY):
        return packing
    bins = _Groups(packer, packing.bins, start).run()
    if start.any:
        bins = _allowed(packer, bins, start)
    return min(packing, replace(packing, bins=bins), key=rank) if bins else packing


class _Groups:
    """Invariant: `saved[a, b]` is what one node instead of one of each saves, -inf if it is dearer."""

    def __init__(self, packer: Packer, bins: list[Bin], start: Limits) -> None:
        self._packer, self._start = packer, start
        groups: dict[tuple[object, ...], list[Bin]] = {}
        for made in bins:
            groups.setdefault((made.counts, made.pool, made.column, made.reservation), []).append(made)
        ordered = sorted(groups.values(), key=lambda group: (bool(group[0].reservation), -len(group)))
        self._late = packer.world.work.late
        many = 0 if self._late else min(_GROUPS, _CELLS // max(1, len(packer.sold)))
        most = max(_FEW_GROUPS, many)
        chosen = [group for group in ordered[:most] if not group[0].reservation]
        self._others = [made for group in ordered[len(chosen) :] for made in group]
        size = len(chosen) + (_FEW_GROUPS if self._late else _STEPS)
        self._made = [group[0] for group in chosen]
        self._number = np.zeros(size, dtype=np.int64)
        self._number[: len(chosen)] = [len(group) for group in chosen]
        self._price = np.zeros(size)
        self._load: Amounts = np.zeros((size, len(packer.items)), dtype=np.int64)
        self._saved: Floats = np.full((size, size), -np.inf)
        self._column: Amounts = np.zeros((size, size), dtype=np.int64)
        for row, made in enumerate(self._made):
            self._enter(row, made)
        for row in range(len(self._made)):
            if self._over:
                break
            self._look(row)

    @property
    def _over(self) -> bool:
        """True once the time is over that was not when this began."""
        return not self._late and self._packer.world.work.late

    def run(self) -> list[Bin]:
        """Join what saves most; at equal saving the cheapest nodes, so that many can be joined again."""
        while len(self._made) < len(self._number):
            best = float(self._saved.max(initial=-np.inf))
            if best == -np.inf or self._over:
                break
            one, other = np.nonzero(self._saved >= best - 0.5)
            least = int(np.argmin(self._price[one] + self._price[other]))
            self._join(int(one[least]), int(other[least]))
        left = zip(self._made, self._number.tolist(), strict=False)
        return [*(each for made, number in left for each in [made] * number), *self._others]

    def _enter(self, row: int, made: Bin) -> None:
        self._price[row] = made.price
        for item, number in made.counts:
            self._load[row, item] = number

    def _join(self, one: int, other: int) -> None:
        load = self._load[one] + self._load[other]
        counts = tuple((item, int(load[item])) for item in np.flatnonzero(load).tolist())
        made = self._packer.made(self._start, int(self._column[one, other]), counts)
        if made is None or made.price > self._price[one] + self._price[other]:
            self._saved[one, other] = self._saved[other, one] = -np.inf
            return
        row = len(self._made)
        number = int(self._number[one]) // 2 if one == other else int(self._number[[one, other]].min())
        for each in (one, other):
            self._number[each] -= number
        self._number[row] = number
        self._made.append(made)
        self._enter(row, made)
        for each in (one, other):
            if not self._number[each]:
                self._saved[each] = self._saved[:, each] = -np.inf
            elif self._number[each] == 1:
                self._saved[each, each] = -np.inf
        self._look(row)

    def _look(self, row: int) -> None:
        """Work out what joining with every group up to this one saves."""
        others = np.flatnonzero(self._number[: row + 1])
        others = others[~self._clashing(row, others)]
        if self._number[row] < 2:
            others = others[others != row]
        if not len(others):
            return
        self._packer.world.work.spend(len(others) * _UNITS_PER_LOAD)
        most = self._price[row] + float(self._price[others].max())
        column, price = self._packer.cheapest(self._load[row] + self._load[others], most)
        saved = self._price[row] + self._price[others] - price
        saved[saved < 0] = -np.inf
        self._saved[row, others] = self._saved[others, row] = saved
        self._column[row, others] = self._column[others, row] = column

    def _clashing(self, row: int, others: Amounts) -> Mask:
        """Which groups hold kinds that cannot share a node with those of this one."""
        lots = self._packer.lots
        mine = np.unique(lots.kind[self._load[row] > 0])
        closed = lots.conflict[mine].any(axis=0)[lots.kind]
        clash: Mask = np.asarray((self._load[others][:, closed] > 0).any(axis=1), dtype=np.bool_)
        return clash


def _allowed(packer: Packer, bins: list[Bin], start: Limits) -> list[Bin]:
    """The nodes bought one after the other within the limits; none if one of them is refused."""
    limits = start.copy()
    offsets = np.cumsum([0, *(len(table.offerings) for table in packer.world.tables)]).tolist()
    bought = []
    for made in bins:
        again = packer.made(limits, offsets[made.pool] + made.column, made.counts)
        if again is None:
            return []
        limits.take(again)
        bought.append(again)
    return bought
