"""Small steps that make a packing cheaper: two nodes joined into one, one bundle moved from node to node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.solve.packing.bins import Bin, loads_of
from dovetail.solve.packing.pack import Packer, Packing
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts
from dovetail.solve.supply.limits import Limits

_MOST = 4_000_000  # steps times items; with more there are too many to look at all
_STEPS = 300
_UNITS_PER_LOAD = 3  # of work, for finding its price


def settled(packer: Packer, packing: Packing, start: Limits) -> Packing:
    """The packing, or a cheaper one that no such step makes cheaper still. `start` is not changed."""
    steps = len(packing.bins) * sum(1 + len(made.counts) for made in packing.bins)
    work = packer.world.work
    if len(packing.bins) < 2 or steps * len(packer.items) > _MOST or not work.left:
        return packing
    return _Steps(packer, packing, start).run()


class _Steps:
    """Invariant: `gain[a, b]` is what the best step from node a to node b saves, as far as prices tell."""

    def __init__(self, packer: Packer, packing: Packing, start: Limits) -> None:
        self._packer, self._packing, self._start = packer, packing, start
        self._bins: list[Bin | None] = list(packing.bins)
        size = len(packing.bins)
        self._counts = loads_of([made.counts for made in packing.bins], len(packer.items))
        # Per node what one step may take out of it, (N, I), and what the node costs without that, (N,).
        self._moves = [self._taken_out(row) for row in range(size)]
        self._gain: Floats = np.full((size, size), -np.inf)
        self._best: Amounts = np.zeros((size, size), dtype=np.int64)  # of the giver's moves
        self._look_at_all()

    def run(self) -> Packing:
        """As many steps as pay; at equal price those that spare a node."""
        for _ in range(_STEPS):
            giver, taker = divmod(int(np.argmax(self._gain)), len(self._bins))
            if self._gain[giver, taker] < 0 or not self._packer.world.work.left:
                break
            if not self._step(giver, taker):
                self._gain[giver, taker] = -np.inf
        return replace(self._packing, bins=[made for made in self._bins if made is not None])

    def _step(self, giver: int, taker: int) -> bool:
        """Do it if the rules of both nodes allow it and it saves what it seemed to."""
        moved = self._moves[giver][0][self._best[giver, taker]]
        others = [made for row, made in enumerate(self._bins) if row not in (giver, taker)]
        limits = self._start.after([made for made in others if made is not None])
        loads = (self._counts[taker] + moved, self._counts[giver] - moved)
        larger = self._made(loads[0], limits)
        smaller = self._made(loads[1], limits) if loads[1].any() else None
        if larger is None or (smaller is None and loads[1].any()):
            return False
        saved = self._cost(giver) + self._cost(taker) - larger.price - (smaller.price if smaller else 0)
        if saved < 0 or (saved == 0 and smaller is not None):
            return False
        rows = range(len(self._bins))
        for row, made, load in ((taker, larger, loads[0]), (giver, smaller, loads[1])):
            self._bins[row], self._counts[row] = made, load
            self._moves[row] = self._taken_out(row)
        self._look([(row, other) for row in (giver, taker) for other in rows])
        self._look([(other, row) for row in (giver, taker) for other in rows])
        return True

    def _cost(self, row: int) -> int:
        made = self._bins[row]
        return made.price if made is not None else 0

    def _made(self, load: Amounts, limits: Limits) -> Bin | None:
        column, price = self._packer.cheapest(load[None])
        held = np.flatnonzero(load).tolist()
        counts = tuple((item, int(load[item])) for item in held)
        made = self._packer.made(limits, int(column[0]), counts) if np.isfinite(price[0]) else None
        if made is not None:
            limits.take(made)
        return made

    def _taken_out(self, row: int) -> tuple[Amounts, Floats]:
        load = self._counts[row]
        items = np.flatnonzero(load)
        moved = np.zeros((len(items) + 1, len(load)), dtype=np.int64)
        moved[np.arange(len(items)), items] = 1
        moved[-1] = load
        rest = load - moved
        return moved, np.where(rest.any(axis=1), self._packer.cheapest(rest)[1], 0.0)

    def _look_at_all(self) -> None:
        """Work out the best step for every two nodes: once for all that are alike."""
        first: dict[tuple[bytes, int], int] = {}
        alike = [
            first.setdefault((load.tobytes(), self._cost(row)), row) for row, load in enumerate(self._counts)
        ]
        rows = np.array(list(first.values()), dtype=np.int64)
        kind = np.searchsorted(rows, alike)
        for index, row in enumerate(rows.tolist()):
            if self._packer.world.work.late:
                break
            gain, best = self._steps([(row, other) for other in rows.tolist()])
            givers = kind == index
            self._gain[givers], self._best[givers] = gain[kind], best[kind]
        np.fill_diagonal(self._gain, -np.inf)

    def _look(self, pairs: list[tuple[int, int]]) -> None:
        """Work out the best step for each (giver, taker)."""
        fine = []
        for giver, taker in pairs:
            self._gain[giver, taker] = -np.inf
            if giver != taker and self._bins[giver] is not None and self._bins[taker] is not None:
                fine.append((giver, taker))
        if fine:
            at = tuple(np.array(fine).T)
            self._gain[at], self._best[at] = self._steps(fine)

    def _steps(self, pairs: list[tuple[int, int]]) -> tuple[Floats, Amounts]:
        """What the best step of each (giver, taker) saves, and which of the giver's moves it is."""
        loads = np.concatenate([self._moves[giver][0] + self._counts[taker] for giver, taker in pairs])
        rest = np.concatenate([self._moves[giver][1] for giver, _ in pairs])
        self._packer.world.work.spend(len(loads) * _UNITS_PER_LOAD)
        price = self._packer.cheapest(loads)[1] + rest
        gain = np.full(len(pairs), -np.inf)
        chosen = np.zeros(len(pairs), dtype=np.int64)
        end = 0
        for index, (giver, taker) in enumerate(pairs):
            start, end = end, end + len(self._moves[giver][0])
            costs = price[start:end]
            # At equal cost a step that spares a node is better than none, one that does not is not.
            saved = self._cost(giver) + self._cost(taker) - costs
            saved[:-1][saved[:-1] <= 0] = -np.inf
            chosen[index] = np.argmax(saved)
            gain[index] = saved[chosen[index]]
        return gain, chosen
