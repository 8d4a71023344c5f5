"""Cells: many different lots as few, each a little larger than all that it stands for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.solve.supply.encode import Amounts, Mask

_MOST = 300  # cells; so many lots are not merged
_STEP = 1.01  # ratio of amounts within a cell, at first
_WIDER = 1.5  # power by which that ratio grows while there are too many cells
_NEAR = 1.15  # ratio of amounts that are near-equal; merging what is further apart wastes a lot of room,
_FAR_APART = 720  # so that it is done only where there are more lots than this
_LARGE = 2**62  # numbers of rows stay below it


class Cells:
    """G cells of L lots. What holds a number of a cell holds as many of any lots in it."""

    def __init__(self, vectors: Amounts, kind: Amounts, feasible: Mask, room: Amounts) -> None:
        """`vectors` (L, R), `kind` (L,), `feasible` (L, C), `room` (C, R)."""
        self.cell = _cells(vectors, kind)
        self._merge(vectors, feasible, room)
        hopeless: Mask = np.asarray(~self.feasible.any(axis=1), dtype=np.bool_)
        lost = feasible.any(axis=1) & hopeless[self.cell]
        if lost.any():  # a cell is too large for every column, but not all of its lots are
            alone = np.where(lost, len(self.cell) + np.arange(len(self.cell)), self.cell)
            self.cell = np.unique(alone, return_inverse=True)[1].reshape(-1)
            self._merge(vectors, feasible, room)
        self.trivial = len(self.vectors) == len(kind)
        self.kind: Amounts = np.zeros(len(self.vectors), dtype=np.int64)
        self.kind[self.cell] = kind
        # Lots of a cell stand together, the largest first.
        scale = np.maximum(vectors.max(axis=0, initial=1), 1)
        self._order = np.lexsort((np.arange(len(kind)), -(vectors / scale).sum(axis=1), self.cell))
        self._start = np.searchsorted(self.cell[self._order], np.arange(len(self.vectors) + 1)).tolist()

    def _merge(self, vectors: Amounts, feasible: Mask, room: Amounts) -> None:
        order = np.argsort(self.cell, kind="stable")
        starts = np.searchsorted(self.cell[order], np.arange(int(np.max(self.cell, initial=-1)) + 1))
        self.vectors: Amounts = np.maximum.reduceat(vectors[order], starts, axis=0)
        self.feasible: Mask = np.logical_and.reduceat(feasible[order], starts, axis=0)
        for row in range(vectors.shape[1]):
            need = self.vectors[:, row][:, None]
            self.feasible &= (need <= room[:, row][None, :]) | (need == 0)

    def total(self, amounts: Amounts) -> Amounts:
        """Sums per cell (G,) of what is given per lot (L,)."""
        if self.trivial:
            return amounts
        return np.bincount(self.cell, amounts, minlength=len(self.kind)).astype(np.int64)

    def drawn(self, counts: Sequence[tuple[int, int]], left: Amounts) -> Amounts:
        """Lots (L,) for so many of each cell out of what is left (L,), the largest first."""
        taken = np.zeros_like(left)
        for cell, number in counts:
            mine = self._order[self._start[cell] : self._start[cell + 1]]
            before = np.cumsum(left[mine]) - left[mine]
            taken[mine] = np.clip(number - before, 0, left[mine])
        return taken


def _cells(vectors: Amounts, kind: Amounts) -> Amounts:
    """The cell of each lot (L,): of one kind, and in every resource within one step of a geometric grid."""
    if len(kind) <= _MOST:
        return np.arange(len(kind))
    ratio = _STEP
    most = max(_MOST, 2 * len(np.unique(np.column_stack([kind, vectors > 0]), axis=0)))
    while True:
        numbers = _numbers(np.column_stack([kind, on_grid(vectors, ratio)]))
        different, cell = np.unique(numbers, return_inverse=True)
        if len(different) <= most:
            return cell.reshape(-1).astype(np.int64)
        ratio **= _WIDER
        if ratio > _NEAR and len(kind) <= _FAR_APART:
            return np.arange(len(kind))


def _numbers(rows: Amounts) -> Amounts:
    """A number per row (L, N) in the rows' own order: numbers are sorted sooner than rows."""
    found: Amounts = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        different, place = np.unique(column, return_inverse=True)
        found = found * len(different) + place.reshape(-1)
        if found.max(initial=0) > _LARGE // (len(rows) + 1):  # before the next one: no number overflows
            found = np.unique(found, return_inverse=True)[1].reshape(-1)
    return found


def on_grid(vectors: Amounts, ratio: float) -> Amounts:
    """Each amount as a place on a geometric grid of that ratio; 0 stays apart from everything."""
    places = np.floor(np.log(np.maximum(vectors, 1)) / np.log(ratio)).astype(np.int64)
    return np.where(vectors > 0, 1 + places, 0)
