"""Filling many nodes at once: which counts of which items make the most of each."""

from __future__ import annotations

import numpy as np

from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask

STRATEGIES = 3
_ENOUGH = 0.8  # share of nodes, or of items, that is worked on as a whole


def fill(
    room: Amounts,
    feasible: Mask,
    vectors: Amounts,
    values: Floats,
    demand: Amounts,
    conflict: Mask,
) -> Amounts:
    """Counts per node and item, shape (STRATEGIES * K, I), of K nodes with `room` (K, R), filled greedily.

    `feasible` is (K, I), `vectors` (I, R), `values` (I,) what a bundle is worth, `conflict` (I, I).
    Strategies: most value for the scarcest room that is left; largest first; best aligned with the room left.
    """
    filling = _Filling(room, feasible, vectors, values, demand, conflict)
    while filling.step():
        pass
    return filling.counts


class _Filling:
    """Nodes while they are filled. What is closed, node or item, is left out now and then.

    `_rows` (N,) and `_items` (M,) are those that are still there; all but `counts` and demands is about them.
    """

    def __init__(
        self, room: Amounts, feasible: Mask, vectors: Amounts, values: Floats, demand: Amounts, conflict: Mask
    ) -> None:
        self._nodes = len(room)
        self._rows, self._items = np.arange(STRATEGIES * len(room)), np.arange(len(vectors))
        self.counts: Amounts = np.zeros((STRATEGIES * len(room), len(vectors)), dtype=np.int64)
        self._left = np.tile(room, (STRATEGIES, 1)).astype(np.float64)
        self._scale = 1.0 / np.maximum(self._left, 1.0)
        self._open = np.tile(feasible & (demand > 0), (STRATEGIES, 1))
        self._needs = vectors.astype(np.float64)
        self._weight = np.maximum(values, 1e-9)
        self._large = _sizes(self._needs, self._scale[: len(room)]) + 1e-9 * self._weight
        self._demand, self._conflict = demand, conflict
        self._lonely = np.diagonal(conflict)
        self._conflicting = bool(conflict.any())

    def step(self) -> bool:
        """Put some copies of one item on each node; False when no node is open to anything."""
        self._open &= _fits(self._needs, self._left)
        active: Mask = np.asarray(self._open.any(axis=1), dtype=np.bool_)
        if not active.any():
            return False
        active = self._narrowed(active)
        first, last = np.searchsorted(self._rows, (self._nodes, 2 * self._nodes))
        pick = np.argmax(np.where(self._open, self._scores(first, last), -1.0), axis=1)
        item, needs = self._items[pick], self._needs[pick]
        most = _copies(needs, self._left)
        some = np.maximum(1, most // 3)
        some[first:last] = most[first:last]
        some = np.minimum(some, self._demand[item] - self.counts[self._rows, item])
        some = np.where(self._lonely[item], 1, some) * active
        self.counts[self._rows, item] += some
        self._left -= needs * some[:, None]
        here = np.arange(len(pick))
        self._open[here, pick] &= self.counts[self._rows, item] < self._demand[item]
        if self._conflicting:
            self._open &= ~self._conflict[np.ix_(item, self._items)]
        return True

    def _scores(self, first: int, last: int) -> Floats:
        """What each node should take next has most, (N, M). Rows of a strategy stand together."""
        score = np.empty(self._open.shape)
        share = (1.0 / np.maximum(self._left[:first], 1e-6)) @ self._needs.T
        score[:first] = self._weight / np.maximum(share, 1e-12)
        score[first:last] = self._large
        scale = self._scale[last:]
        score[last:] = ((self._left[last:] * scale * scale) @ self._needs.T) * np.sqrt(self._weight)
        return score

    def _narrowed(self, active: Mask) -> Mask:
        """Leave out what is closed, if that is enough to pay; the nodes that stay and are open."""
        if np.count_nonzero(active) < _ENOUGH * len(active):
            first, last = np.searchsorted(self._rows, (self._nodes, 2 * self._nodes))
            self._large = self._large[active[first:last]]
            self._rows, self._left = self._rows[active], self._left[active]
            self._scale, self._open = self._scale[active], self._open[active]
            active = active[active]
        some: Mask = np.asarray(self._open.any(axis=0), dtype=np.bool_)
        if np.count_nonzero(some) < _ENOUGH * len(some):
            self._items, self._needs, self._weight = self._items[some], self._needs[some], self._weight[some]
            self._open, self._large = self._open[:, some], self._large[:, some]
        return active


def _sizes(needs: Floats, scale: Floats) -> Floats:
    """The largest share of any resource that each item takes of each empty node, (K, I)."""
    result = np.zeros((len(scale), len(needs)))
    for row in range(needs.shape[1]):
        np.maximum(result, scale[:, row][:, None] * needs[:, row][None, :], out=result)
    return result


def _fits(needs: Floats, left: Floats) -> Mask:
    """Which items fit which rooms, none negative, (K, I); one resource after the other keeps memory small."""
    result = np.ones((len(left), len(needs)), dtype=np.bool_)
    for row in range(needs.shape[1]):
        result &= needs[:, row][None, :] <= left[:, row][:, None]
    return result


def _copies(needs: Floats, left: Floats) -> Amounts:
    """How many copies of each row's item its room holds, shape (K,)."""
    ratio = np.where(needs > 0, left / np.maximum(needs, 1e-9), np.inf)
    whole: Amounts = np.minimum(np.floor(ratio.min(axis=1)), 1e9).astype(np.int64)
    return whole


def topped_up(
    space: Amounts, open_to: Mask, vectors: Amounts, left: Amounts, kinds: tuple[Amounts, Mask]
) -> Amounts:
    """Counts of items (I,) that fill up one node's room that is left (R,), the best aligned with it first.

    `open_to` (I,) may go there, `left` (I,) there are; `kinds`: the kind of each item, and which conflict.
    """
    kind, conflict = kinds
    counts = np.zeros_like(left)
    items = np.flatnonzero(open_to & (left > 0))
    room = space.astype(np.float64)
    scale = 1.0 / np.maximum(room, 1.0)
    needs = vectors[items].astype(np.float64)
    while True:
        fits: Mask = np.asarray(np.all((needs <= room) | (needs == 0), axis=1), dtype=np.bool_)
        items, needs = items[fits], needs[fits]
        if not len(items):
            return counts
        best = int(np.argmax(needs @ (room * scale * scale)))
        item = items[best]
        clashes = conflict[kind[item]]
        some = min(int(left[item]), int(_copies(needs[best][None], room[None])[0]))
        counts[item] = 1 if clashes[kind[item]] else some
        room -= needs[best] * counts[item]
        keep = ~clashes[kind[items]]
        keep[best] = False
        items, needs = items[keep], needs[keep]
