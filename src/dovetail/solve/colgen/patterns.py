"""Filling many nodes at once: which counts of which items make the most of each."""

from __future__ import annotations

import numpy as np

from dovetail.model.arrays import UNLIMITED, Amounts, Floats, Mask
from dovetail.solve.tolerances import MOSTLY


def fill(
    capacity: Amounts,
    feasible: Mask,
    vectors: Amounts,
    values: Floats,
    demand: Amounts,
    conflict: Mask,
    *,
    largest: bool = True,
) -> Amounts:
    """Counts per node and item, shape (N * K, I), of K nodes with `capacity` (K, R), filled greedily in N
    ways.

    `feasible` is (K, I), `vectors` (I, R), `values` (I,) what a bundle is worth, `conflict` (I, I).
    The ways: most value for the scarcest capacity that is left; the largest first, if asked for; best aligned
    with the capacity left.
    """
    filling = _Filling((capacity, 3 if largest else 2), feasible, vectors, values, demand, conflict)
    while filling.step():
        pass
    return filling.counts


class _Filling:
    """Nodes while they are filled. What is closed, node or item, is left out now and then.

    `_rows` (N,) and `_items` (M,) are those that are still there; all but `counts` and demands is about them.
    """

    def __init__(
        self,
        capacities: tuple[Amounts, int],
        feasible: Mask,
        vectors: Amounts,
        values: Floats,
        demand: Amounts,
        conflict: Mask,
    ) -> None:
        capacity, ways = capacities
        # Rows of a way stand together: those of the largest first begin and end here.
        self._first, self._last = len(capacity), (ways - 1) * len(capacity)
        self._rows, self._items = np.arange(ways * len(capacity)), np.arange(len(vectors))
        self.counts: Amounts = np.zeros((ways * len(capacity), len(vectors)), dtype=np.int64)
        self._left = np.tile(capacity, (ways, 1)).astype(np.float64)
        self._scale = 1.0 / np.maximum(self._left, 1.0)
        self._open = np.tile(feasible & (demand > 0), (ways, 1))
        self._needs = vectors.astype(np.float64)
        self._asked = np.ascontiguousarray(self._needs.T)
        self._most = self._needs.max(axis=0, initial=0.0)  # (R,) that any item needs
        self._weight = np.maximum(values, 1e-9)
        self._root = np.sqrt(self._weight)
        sizes = _sizes(self._needs, self._scale[self._first : self._last])
        self._large = sizes + 1e-9 * self._weight
        self._demand = demand
        self._self_repelling = np.diagonal(conflict)
        self._friends = ~conflict if conflict.any() else None  # which items may join which, (I, M)

    def step(self) -> bool:
        """Put some copies of one item on each node; False when no node is open to anything."""
        for row in np.flatnonzero(self._most > self._left.min(axis=0)).tolist():
            self._open &= self._asked[row] <= self._left[:, row, None]
        active: Mask = np.logical_or.reduce(self._open, axis=1)
        if not active.any():
            return False
        active = self._narrowed(active)
        first, last = self._first, self._last
        scores = self._scores(first, last)
        scores *= self._open  # all scores are positive
        pick = scores.argmax(axis=1)
        item, needs = self._items[pick], self._needs[pick]
        most = _copies(needs, self._left)
        some = most // 3
        np.maximum(some, 1, out=some)
        some[first:last] = most[first:last]
        before = self.counts[self._rows, item]
        rest = self._demand[item] - before
        np.minimum(some, rest, out=some)
        if self._friends is not None:
            some[self._self_repelling[item]] = 1
        some *= active
        before += some
        self.counts[self._rows, item] = before
        self._left -= needs * some[:, None]
        self._open[np.arange(len(pick)), pick] &= some < rest
        if self._friends is not None:
            self._open &= self._friends[item]
        return True

    def _scores(self, first: int, last: int) -> Floats:
        """What each node should take next has most, (N, M)."""
        score = np.empty(self._open.shape)
        share = (1.0 / np.maximum(self._left[:first], 1e-6)) @ self._asked
        np.divide(self._weight, np.maximum(share, 1e-12, out=share), out=score[:first])
        score[first:last] = self._large
        scale = self._scale[last:]
        np.multiply((self._left[last:] * scale * scale) @ self._asked, self._root, out=score[last:])
        return score

    def _narrowed(self, active: Mask) -> Mask:
        """Leave out what is closed, if that is enough to pay; the nodes that stay and are open."""
        if np.count_nonzero(active) < MOSTLY * len(active):
            self._large = self._large[active[self._first : self._last]]
            self._first, self._last = (int(np.count_nonzero(active[:at])) for at in (self._first, self._last))
            self._rows, self._left = self._rows[active], self._left[active]
            self._scale, self._open = self._scale[active], self._open[active]
            active = active[active]
        some: Mask = np.logical_or.reduce(self._open, axis=0)
        if np.count_nonzero(some) < MOSTLY * len(some):
            self._items, self._needs = self._items[some], self._needs[some]
            self._weight, self._root = self._weight[some], self._root[some]
            self._asked = np.ascontiguousarray(self._needs.T)
            self._most = self._needs.max(axis=0, initial=0.0)
            self._open, self._large = self._open[:, some], self._large[:, some]
            if self._friends is not None:
                self._friends = self._friends[:, some]
        return active


def _sizes(needs: Floats, scale: Floats) -> Floats:
    """The largest share of any resource that each item takes of each empty node, (K, I)."""
    result = np.zeros((len(scale), len(needs)))
    for row in range(needs.shape[1]):
        np.maximum(result, scale[:, row][:, None] * needs[:, row][None, :], out=result)
    return result


def _copies(needs: Floats, left: Floats) -> Amounts:
    """How many copies of each row's item its capacity holds, shape (K,)."""
    ratio = left / np.maximum(needs, 1e-9)
    ratio[needs <= 0] = UNLIMITED
    whole: Amounts = np.minimum.reduce(ratio, axis=1, initial=UNLIMITED).astype(np.int64)
    return whole
