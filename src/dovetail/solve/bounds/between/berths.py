"""The nodes of an answer one by one, where it says only how many there are and what they hold together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.solve.bounds.between.rows import Rows
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts


def shared_out(rows: Rows, values: Floats) -> Iterator[tuple[int, list[int]]]:
    """(site, pods per kind) for each node: large pods first, each where least is left.

    Who fits on no node of its site is left out: together they have room for all, not always one by one.
    """
    terrain = rows.terrain
    share = np.max(terrain.vectors / np.maximum(terrain.room.max(axis=0, initial=1), 1), axis=1, initial=0.0)
    order = np.argsort(-share, kind="stable").tolist()
    for site, node in enumerate(rows.nodes):
        many = round(values[node])
        wanted = [(kind, round(values[rows.pods[kind][site]])) for kind in order if site in rows.pods[kind]]
        if many and any(number for _, number in wanted):
            for counts in _filled(rows, site, many, wanted):
                if counts.any():
                    yield site, counts.tolist()


def _filled(rows: Rows, site: int, many: int, wanted: list[tuple[int, int]]) -> Amounts:
    """Pods of each kind on so many nodes of the site, (many, S)."""
    terrain = rows.terrain
    counts = np.zeros((many, len(terrain.kinds)), dtype=np.int64)
    room = np.tile(terrain.room[site], (many, 1))
    for kind, number in wanted:
        need, apart = terrain.vectors[kind], terrain.conflict[kind]
        asked = np.flatnonzero(need)
        for _ in range(number):
            fine = (room[:, asked] >= need[asked]).all(axis=1) & ~counts[:, apart].any(axis=1)
            if not fine.any():
                break
            left = (room[:, asked] - need[asked]) / np.maximum(terrain.room[site, asked], 1)
            best = int(np.where(fine, left.sum(axis=1), np.inf).argmin())
            counts[best, kind] += 1
            room[best] -= need
    return counts
