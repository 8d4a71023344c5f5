"""Nodes of one site as sites of their own, where together they have room that none of them has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dovetail.solve.bounds.between.berths import shared_out
from dovetail.solve.bounds.between.rows import Rows
from dovetail.solve.bounds.between.terrain import Terrain
from dovetail.solve.supply.columns import Floats


def cramped(rows: Rows, values: Floats) -> dict[int, int]:
    """Sites -> nodes there, of those that an answer buys several of, where somebody finds no room on one."""
    counts = np.zeros((len(rows.nodes), len(rows.pods)), dtype=np.int64)
    for site, load in shared_out(rows, values):
        counts[site] += load
    nodes = {site: round(values[node]) for site, node in enumerate(rows.nodes)}
    return {
        site: many
        for site, many in nodes.items()
        if many > 1
        and any(
            round(values[row[site]]) > counts[site, kind] for kind, row in enumerate(rows.pods) if site in row
        )
    }


def split(terrain: Terrain, some: Mapping[int, int]) -> Terrain:
    """The same where so many nodes of some sites are sites of their own, beside all others there."""
    parts = np.ones(len(terrain.price), dtype=np.int64)
    parts[list(some)] += list(some.values())
    order = np.repeat(np.arange(len(parts)), parts)
    single = np.append(order[1:] == order[:-1], False)  # the last one of each stands for all the others
    last = np.flatnonzero(~single)
    # All are alike: whatever a plan buys there, the single ones come first.
    before = np.where(terrain.before[order] < 0, -1, last[terrain.before[order]])
    before[1:] = np.where(single[:-1], np.arange(len(order) - 1), before[1:])
    return replace(
        terrain,
        feasible=terrain.feasible[:, order],
        own=terrain.own[:, order],
        could=terrain.could[:, order],
        room=terrain.room[order],
        price=terrain.price[order],
        most=np.where(single, 1, terrain.most[order] - (parts[order] - 1)),
        before=before,
        column=terrain.column[order],
        domains={
            key: tuple(values[site] for site in order.tolist()) for key, values in terrain.domains.items()
        },
        counting={index: each.of(order) for index, each in terrain.counting.items()},
        unlimited=terrain.unlimited[order],
    )
