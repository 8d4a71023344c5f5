"""What the rest of the items can still add to a partial load: bounds by dynamic programming.

A load is held to some resources and pays for the others (a Lagrangian relaxation): one of few whole units,
such as GPUs, is counted exactly, one other is rounded down to a grid. What completes a load best obeys the
relaxed problem too, whatever the prices are, so a table never says too little; of several the least counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts

_GRID = 2_000  # steps of a resource, at most
_MOST_CELLS = 1_500_000  # of one table
_FEW = 16  # units of a resource that can be counted exactly
# Times the prices that a linear program gives to the others; per resource on the grid, the dearest first.
_FACTORS = ((1.0, 0.9, 1.1, 1.2), (1.0, 1.1))
_CELLS_PER_UNIT = 300  # of work


@dataclass(frozen=True, slots=True)
class _Table:
    most: Floats  # (n + 1, units of `few` + 1, steps of `fine` + 1): of the items from the n-th on
    few: int  # the resource that is counted exactly, -1 if none is
    fine: int
    step: int
    prices: Floats  # (R,) of the other resources


def scarcest(room: Amounts, prices: Floats) -> int:
    """The resource, of those that there are few whole units of, that is worth most; -1 if none is."""
    worth = np.where(room <= _FEW, prices * room, 0.0)
    return int(worth.argmax()) if worth.any() else -1


class Completions:
    """Bounds for loads of one column from items (n,) in a fixed order."""

    def __init__(self, needs: Amounts, room: Amounts, copies: Amounts, worth: Floats, prices: Floats) -> None:
        """`needs` (n, R), `copies` and `worth` (n,), `room` and `prices` of room (R,), which may be any."""
        self._needs, self._room, self._copies, self._worth = needs, room, copies, worth
        self.work = 0  # units that building the tables took
        share = prices * room
        few = scarcest(room, prices)
        rest = np.where(np.arange(len(room)) == few, 0.0, share)
        fine = np.argsort(-rest, kind="stable")[: max(1, np.count_nonzero(rest))].tolist()
        self._tables = []
        for resource, factors in zip(fine, _FACTORS, strict=False):
            others = prices.copy()
            others[[resource, *([few] if few >= 0 else [])]] = 0.0
            for factor in factors if others.any() else factors[:1]:
                self._tables.append(self._table(few, resource, others * factor))

    def most(self, start: int, value: Floats, room: Amounts) -> Floats:
        """What loads of this value (N,) and room left (N, R) are worth at most with items from `start` on."""
        best: Floats = np.full(len(value), np.inf)
        for table in self._tables:
            units = room[:, table.few] if table.few >= 0 else 0
            more = table.most[start, units, room[:, table.fine] // table.step]
            np.minimum(best, value + more + room @ table.prices, out=best)
        return best

    def _table(self, few: int, fine: int, prices: Floats) -> _Table:
        size = len(self._needs)
        units = int(self._room[few]) if few >= 0 else 0
        grid = max(1, min(_GRID, _MOST_CELLS // ((size + 1) * (units + 1))))
        step = max(1, -(-int(self._room[fine]) // grid))
        width = int(self._room[fine]) // step
        gain = (self._worth - self._needs @ prices).tolist()
        taken = (self._needs[:, few] if few >= 0 else np.zeros(size, dtype=np.int64)).tolist()
        length = (self._needs[:, fine] // step).tolist()
        most = np.zeros((size + 1, units + 1, width + 1))
        for item in range(size - 1, -1, -1):
            row = most[item]
            row[:] = most[item + 1]
            copies, part = int(self._copies[item]) if gain[item] > 0 else 0, 1
            while copies:
                # Parts of 1, 2, 4, ... copies, each taken or not, make up any number of them.
                part = min(part, copies)
                up, along = part * taken[item], part * length[item]
                before = row[: units + 1 - up, : width + 1 - along] + part * gain[item]
                np.maximum(row[up:, along:], before, out=row[up:, along:])
                self.work += 1 + row.size // _CELLS_PER_UNIT
                copies, part = copies - part, 2 * part
        return _Table(most, few, fine, step, prices)
