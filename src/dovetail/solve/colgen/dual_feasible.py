"""Shares of a node that whole pods take, whichever others they share it with.

A dual feasible function maps what a pod asks for, as a part of a node, to a share, so that pods which fit on
the node have shares of 1 at most in sum. Such sums hold for any number of nodes of one offering together,
where their capacity in sum says little: three pods of 0.6 do not fit on two nodes.
"""

from __future__ import annotations

from sys import getsizeof

import numpy as np

from dovetail.base.memo import by_weight
from dovetail.model.arrays import TABLE, Amounts, Floats, Mask
from dovetail.solve.tolerances import ROUNDING, TRIES

# Bytes, as many as the largest table has: a plan of 3,000 pod classes asks with 120 KiB for each of a hundred
# kinds of capacity.
_REMEMBERED = np.dtype(np.float64).itemsize * TABLE


def shares(vectors: Amounts, capacity: Amounts) -> Floats:
    """(N, S): in each of N ways, what pods that ask for `vectors` (S, R) take of a node with `capacity` (R,).

    A pod that asks for w of W counts as the floor of w (k + 1) / W over k, or as it is where that is whole
    (Fekete and Schepers, "New classes of fast lower bounds for bin packing problems", 2001); or as 1 / n from
    the size on of which a node holds n. Left out is what another way, or a resource itself, says as well.
    Types are sold in several zones and ways, and asked about again and again: the answer is remembered, so
    that it cannot be written to.
    """
    return _shares(vectors.tobytes(), vectors.shape, capacity.tobytes())


@by_weight(_REMEMBERED, lambda args, answer: getsizeof(args[0]) + getsizeof(answer))
def _shares(asked_for: bytes, pod_class: tuple[int, int], offered: bytes) -> Floats:
    vectors: Amounts = np.frombuffer(asked_for, np.int64).reshape(pod_class)
    capacity: Amounts = np.frombuffer(offered, np.int64)
    found: list[Floats] = []
    asked = np.flatnonzero((capacity > 0) & vectors.any(axis=0))
    for resource in asked.tolist():
        need, size = vectors[:, resource], int(capacity[resource])
        for k in range(1, TRIES + 1):
            whole = need * (k + 1) // size
            exact = whole * size == need * (k + 1)
            found.append(np.where(exact, whole / (k + 1), whole / k))
        for least in np.unique(need[need > 0]).tolist():
            if 0 < size // least <= TRIES:
                found.append(np.where(need >= least, 1.0 / (size // least), 0.0))
    if not found:
        return np.zeros((0, len(vectors)))
    ways = np.array(list(dict.fromkeys(tuple(way.tolist()) for way in found)))
    linear = vectors[:, asked].T / capacity[asked, None]
    result: Floats = ways[~_dominated(ways, linear)]
    result.flags.writeable = False
    return result


def _dominated(ways: Floats, linear: Floats) -> Mask:
    within: Mask = np.all(ways[:, None, :] <= ways[None, :, :] + ROUNDING, axis=2)
    np.fill_diagonal(within, val=False)
    # Of two that are equal but for rounding, the first stays.
    within &= ~(np.tril(within, -1).T & within)
    covered: Mask = np.all(ways[:, None, :] <= linear[None, :, :] + ROUNDING, axis=2)
    result: Mask = np.any(np.concatenate([within, covered], axis=1), axis=1)
    return result
