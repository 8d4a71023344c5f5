"""How much worth the room that costs nothing can take."""

from __future__ import annotations

import numpy as np

from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts

_BLOCK = 2_000_000  # cells of (price lists, kinds, rooms) that are worked on at once
_SLACK = 1e-9  # share by which results are raised for rounding in floating point


def absorbed(worth: Floats, vectors: Amounts, copies: Amounts, free: Amounts, prices: Floats) -> Floats:
    """Per free room (N,) a worth that no load of it exceeds, whatever the prices are.

    `worth` (S,), `vectors` (S, R), `copies` (S, N) that a room can hold of a kind alone, `free` (N, R).
    `prices` (P, R) are opinions of what a unit of a resource is worth. For any of them a load is worth at
    most what the room is, plus what its pods are worth beyond what they take: the least such sum counts.
    """
    some = np.flatnonzero(worth > 0)
    worth, vectors, copies = worth[some], vectors[some], copies[some]
    prices = np.concatenate([np.zeros((1, vectors.shape[1])), prices])
    beyond = np.maximum(worth[None, :] - prices @ vectors.T, 0.0)
    least = np.full(len(free), np.inf)
    step = max(1, _BLOCK // max(1, beyond.size))
    for start in range(0, len(free), step):
        part = slice(start, start + step)
        most = beyond @ copies[:, part] + prices @ free[part].T
        least[part] = most.min(axis=0)
    result: Floats = least * (1 + _SLACK)
    return result
