"""Filling many nodes at once: which counts of which items make the most of each."""

from __future__ import annotations

import numpy as np

from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask

STRATEGIES = 3


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
    nodes = len(room)
    kinds = np.repeat(np.arange(STRATEGIES), nodes)
    total = np.tile(room, (STRATEGIES, 1)).astype(np.float64)
    left = total.copy()
    open_to = np.tile(feasible, (STRATEGIES, 1))
    needs = vectors.astype(np.float64)
    counts = np.zeros(open_to.shape, dtype=np.int64)
    weight = np.maximum(values, 1e-9)
    scale = 1.0 / np.maximum(total[:nodes], 1.0)
    score = np.empty(open_to.shape, dtype=np.float64)
    score[nodes : 2 * nodes] = _sizes(needs, scale) + 1e-9 * weight
    lonely = np.asarray([conflict[item, item] for item in range(len(conflict))], dtype=np.int64)
    conflicting = bool(conflict.any())
    rows = np.arange(len(left))
    while True:
        open_to &= (counts < demand) & _fits(needs, left)
        active: Mask = np.asarray(open_to.any(axis=1), dtype=np.bool_)
        if not active.any():
            return counts
        share = (1.0 / np.maximum(left[:nodes], 1e-6)) @ needs.T
        score[:nodes] = weight / np.maximum(share, 1e-12)
        score[2 * nodes :] = ((left[2 * nodes :] * scale * scale) @ needs.T) * np.sqrt(weight)
        pick = np.argmax(np.where(open_to, score, -1.0), axis=1)
        most = _copies(needs[pick], left)
        some = np.where(kinds == 1, most, np.maximum(1, most // 3))
        some = np.minimum(some, demand[pick] - counts[rows, pick])
        some = np.where(lonely[pick] > 0, 1, some) * active.astype(np.int64)
        counts[rows, pick] += some
        left -= needs[pick] * some[:, None]
        if conflicting:
            open_to &= ~(conflict[pick] & active[:, None])


def _sizes(needs: Floats, scale: Floats) -> Floats:
    """The largest share of any resource that each item takes of each empty node, (K, I)."""
    result = np.zeros((len(scale), len(needs)))
    for row in range(needs.shape[1]):
        np.maximum(result, scale[:, row][:, None] * needs[:, row][None, :], out=result)
    return result


def _fits(needs: Floats, left: Floats) -> Mask:
    """Which items fit which rooms, (K, I), one resource after the other to keep memory small."""
    result = np.ones((len(left), len(needs)), dtype=np.bool_)
    for row in range(needs.shape[1]):
        result &= (needs[:, row][None, :] <= left[:, row][:, None]) | (needs[:, row] == 0)[None, :]
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
