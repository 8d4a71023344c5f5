"""Making a packing cheaper: nodes emptied into the room of others, merged, or packed anew in groups."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

from dovetail.base.streams import stream
from dovetail.solve.packing.bins import Bin, loads_of, make_bin
from dovetail.solve.packing.pack import Packer, Packing
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.limits import Limits

_ROUNDS = 12  # groups of nodes that are packed anew
_MERGES = 150  # groups of nodes that are tried as one node
_GROUP = 6  # nodes in a group, at most
_TIRED = 1_500_000  # units of work after which groups are no longer packed anew
_FEW = 400  # nodes; beyond it only a sample is tried to be emptied
_ENOUGH = 1.005  # times the bound: no use in looking further


class Improver:
    """Works on one packing at a time. Never makes it dearer, never leaves a pod out that had a node."""

    def __init__(self, packer: Packer, start: Limits) -> None:
        self._packer = packer
        self._start = start  # before anything of the packing was bought
        offsets = np.cumsum([0, *(len(table.offerings) for table in packer.world.tables)])
        self._offset = [int(value) for value in offsets]

    def run(self, packing: Packing, values: Floats, bound: float) -> tuple[Packing, Limits]:
        """The improved packing and what it leaves of the limits. `bound`: a price that cannot be beaten."""
        draw = stream(0, "solve", "improve")
        best = self._merged(self._emptied(packing), draw)
        price = self._packer.columns.price.astype(np.float64)
        for _ in range(_ROUNDS):
            work = self._packer.world.work
            if len(best.bins) < 2 or best.price <= bound * _ENOUGH or work.used > _TIRED or not work.left:
                break
            size = min(len(best.bins), draw.randint(2, _GROUP))
            chosen = set(draw.sample(range(len(best.bins)), size))
            kept = [made for index, made in enumerate(best.bins) if index not in chosen]
            group = [made for index, made in enumerate(best.bins) if index in chosen]
            noise = np.array([draw.uniform(0.7, 1.4) for _ in range(len(values))])
            limits = self._start.after(kept)
            trial = self._packer.pack(values * noise, price, limits, self._loads(group).sum(axis=0))
            if trial.left.any() or trial.price > sum(made.price for made in group):
                continue
            best = self._emptied(replace(best, bins=[*kept, *trial.bins]))
        best = self._merged(best, draw)
        return best, self._start.after(best.bins)

    def _merged(self, packing: Packing, draw: Random) -> Packing:
        """Groups of nodes that one node can replace for no more money are replaced: fewer nodes win ties."""
        packer = self._packer
        price = packer.columns.price
        bins = list(packing.bins)
        for _ in range(_MERGES):
            if len(bins) < 2 or packer.world.work.late:
                break
            size = min(len(bins), draw.choice((2, 2, 3, 4, 5)))
            chosen = sorted(draw.sample(range(len(bins)), size))
            demand = self._loads([bins[index] for index in chosen]).sum(axis=0)
            items = np.flatnonzero(demand)
            packer.world.work.spend(1)
            if packer.conflict[np.ix_(items, items)].any():
                continue
            fits = np.all(packer.room >= demand @ packer.vectors, axis=1) & packer.feasible[items].all(axis=0)
            fits &= ~packer.columns.reserved
            if not fits.any():
                continue
            column = int(np.argmin(np.where(fits, price, np.iinfo(np.int64).max)))
            if int(price[column]) > sum(bins[index].price for index in chosen):
                continue
            kept = [made for index, made in enumerate(bins) if index not in chosen]
            counts = tuple((index, int(demand[index])) for index in items.tolist())
            made = make_bin(
                packer.world, packer.columns, self._start.after(kept), packer.items, (column, counts)
            )
            if made is not None and made.price <= sum(bins[index].price for index in chosen):
                bins = [*kept, made]
        return replace(packing, bins=bins)

    def _loads(self, bins: list[Bin]) -> Amounts:
        return loads_of([made.counts for made in bins], len(self._packer.items))

    def _emptied(self, packing: Packing) -> Packing:
        """Nodes whose pods all fit into the room of others are not bought; the dearest are tried first."""
        bins = list(packing.bins)
        if len(bins) < 2:
            return packing
        packer = self._packer
        columns = np.array([self._offset[made.pool] + made.column for made in bins], dtype=np.int64)
        counts = self._loads(bins)
        room = packer.room[columns] - counts @ packer.vectors
        alive = np.ones(len(bins), dtype=np.bool_)
        order = sorted(range(len(bins)), key=lambda index: -bins[index].price)
        for index in order[:_FEW]:
            if packer.world.work.late:
                break
            alive[index] = False
            moved = self._moved(counts[index], columns, counts, room, alive)
            if moved is None:
                alive[index] = True
                continue
            counts += moved
            room -= moved @ packer.vectors
        if alive.all():
            return packing
        rebuilt = self._rebuilt(columns[alive], counts[alive])
        if rebuilt is None or sum(made.price for made in rebuilt) > packing.price:
            return packing
        return replace(packing, bins=rebuilt)

    def _moved(
        self, load: Amounts, columns: Amounts, counts: Amounts, room: Amounts, alive: Mask
    ) -> Amounts | None:
        """How the load spreads over the room of the nodes that stay, (B, I); None when it does not fit."""
        packer = self._packer
        moved = np.zeros_like(counts)
        left = room.copy()
        packer.world.work.spend(len(columns))
        for item in np.flatnonzero(load).tolist():
            need = packer.vectors[item]
            asked = need > 0
            todo = int(load[item])
            hosts = alive & packer.guests[item, columns] & np.all(left[:, asked] >= need[asked], axis=1)
            if packer.conflict[item].any():
                clashing = packer.conflict[item]
                hosts &= ~((counts[:, clashing] + moved[:, clashing]) > 0).any(axis=1)
            tightness = np.where(hosts, (left[:, asked] / need[asked]).min(axis=1), np.inf)
            for row in np.argsort(tightness, kind="stable").tolist():
                if not hosts[row] or not todo:
                    break
                number = min(todo, int((left[row, asked] // need[asked]).min()))
                if packer.conflict[item, item]:
                    number = min(number, 1)
                moved[row, item] += number
                left[row] -= number * need
                todo -= number
            if todo:
                return None
        return moved

    def _rebuilt(self, columns: Amounts, counts: Amounts) -> list[Bin] | None:
        """The nodes anew, each checked; None when one breaks a rule."""
        packer = self._packer
        limits = self._start.copy()
        bins: list[Bin] = []
        for column, row in zip(columns.tolist(), counts, strict=True):
            chosen = np.flatnonzero(row).tolist()
            trial = (column, tuple((index, int(row[index])) for index in chosen))
            made = make_bin(packer.world, packer.columns, limits, packer.items, trial)
            if made is None:
                return None
            limits.take(made)
            bins.append(made)
        return bins
