"""The nodes of an answer one by one, even if it says only how many there are and what they hold together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.solve.bounds.between.rows import Rows
from dovetail.solve.supply.columns import Columns, Floats
from dovetail.solve.supply.encode import Amounts
from dovetail.solve.supply.world import Pins, World


@dataclass(frozen=True, slots=True)
class Berth:
    """One node of an answer: an existing one (`row`), or a new one of a pool with these labels."""

    pods: tuple[tuple[int, int, tuple[str, ...]], ...]  # (shape, level, names)
    row: int = -1
    pool: int = -1
    domains: Pins = ()
    # Per entry of `pods`, if promised: where a node may be bought for them, the lightest pools first.
    owned: tuple[tuple[int, ...], ...] = ()


def berths_of(
    world: World, columns: Columns, rows: Rows, nodes: Iterable[tuple[int, Sequence[int]]]
) -> Iterator[Berth]:
    """The nodes of an answer, by site and how many pods of each kind (S,), with the pods by name."""
    terrain = rows.terrain
    names = [list(kind.pods) for kind in terrain.kinds]
    lightest = [_pools(world, kind.tier) for kind in terrain.kinds]
    for site, load in nodes:
        pods, owned = [], []
        for kind, rest, pools, count in zip(terrain.kinds, names, lightest, load, strict=True):
            if count:
                pods.append((kind.shape, kind.level, tuple(rest[:count])))
                owned.append(pools)
                del rest[:count]
        if site >= terrain.bought and pods:
            yield Berth(tuple(pods), row=site - terrain.bought)
        elif pods:
            domains = tuple((key, some[site]) for key, some in terrain.domains.items() if some[site])
            pool = int(columns.pool[terrain.column[site]])
            yield Berth(tuple(pods), pool=pool, domains=domains, owned=tuple(owned))


def _pools(world: World, tier: int) -> tuple[int, ...]:
    """All pools up to the tier, the lightest first; none where it is not known or nothing is promised."""
    some = world.tiers[: tier + 1] if tier < len(world.tiers) else []
    return tuple(pool for each in reversed(some) for pool in each)


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
