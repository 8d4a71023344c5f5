"""Columns that a relaxation needs: in fractions of nodes, what a dollar buys counts, not a node's size."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dovetail.solve.supply.encode import Amounts, Mask

_EQUAL = 1 - 1e-9  # rates that differ by less are the same size of room for the same price


def best_rates(feasible: Mask, room: Amounts, price: Amounts) -> npt.NDArray[np.int64]:
    """Columns without those that another beats: it takes the same shapes and sells no less of anything.

    `feasible` (S, C), `room` (C, R), `price` (C,). What any fraction of a beaten column holds, a fraction of
    the other holds for the same money, so the optimum is the same. At the other's optimal prices of resources
    the beaten column is worth no more than it costs, so the proof is the same, too.
    """
    useful = np.flatnonzero(feasible.any(axis=0))
    rates = np.maximum(room[useful], 0) / np.maximum(price[useful], 1)[:, None]
    takes = feasible[:, useful].T
    kept: list[int] = []
    waiting = np.lexsort((-rates.sum(axis=1), -takes.sum(axis=1)))
    while len(waiting):
        best, waiting = int(waiting[0]), waiting[1:]
        kept.append(best)
        beaten = np.all(rates[best] >= rates[waiting] * _EQUAL, axis=1)
        some = np.flatnonzero(beaten)
        beaten[some] = np.all(takes[best] | ~takes[waiting[some]], axis=1)
        waiting = waiting[~beaten]
    return useful[np.array(sorted(kept), dtype=np.int64)]
