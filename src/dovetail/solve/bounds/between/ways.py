"""All ways in which pods may stand in the end that obey the same spreads: those that have an order.

One pod after the other enters a domain where it is at most `maxSkew` ahead of all domains that count. Where
pods obey spreads over several labels at once, few ways to fill the domains can be reached like that. Each of
them is a yes or no, and the pods in each combination of domains are as many as in the one that is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.solve.bounds.between.rows import Rows
from dovetail.solve.demand.topology import SPREAD
from dovetail.solve.supply.encode import Amounts
from dovetail.solve.supply.world import World

_MOST_STATES = 600  # ways to place some of the pods
_MOST_WAYS = 120  # to place all of them
_COUNTS = 20  # that are looked at per unit of work

_Cells = Mapping[tuple[str, ...], Sequence[int]]  # domains, one per spread -> sites


@dataclass(frozen=True, slots=True)
class _Party:
    """Kinds that obey the same spreads, which count all of them and nobody else."""

    kinds: tuple[int, ...]
    spreads: tuple[int, ...]


def add_ways(world: World, rows: Rows) -> None:
    """The rows for all parties for which it is clear which domains count, in programs under construction."""
    for party in _parties(world, rows):
        cells = _cells(world, rows, party)
        if cells and all(_known(world, rows, party, index) for index in party.spreads):
            ways = _ways(world, rows, party, list(cells))
            if len(ways):
                _choose(rows, party.kinds, list(cells.values()), ways)


def _parties(world: World, rows: Rows) -> Iterator[_Party]:
    """Those of whom none runs already."""
    groups, kinds = world.topology.groups, rows.terrain.kinds
    found: dict[tuple[int, ...], list[int]] = {}
    for number, kind in enumerate(kinds):
        mine = [index for index in sorted(kind.owned | kind.matching) if groups[index].id.kind == SPREAD]
        some = tuple(index for index in mine if groups[index].id.key != HOSTNAME)
        if some:
            found.setdefault(some, []).append(number)
    for spreads, members in found.items():
        alone = all(
            (number in members) == (index in kind.owned) == (index in kind.matching)
            for number, kind in enumerate(kinds)
            for index in spreads
        )
        if alone and not any(any(world.before[index][0].values()) for index in spreads):
            yield _Party(tuple(members), spreads)


def _known(world: World, rows: Rows, party: _Party, index: int) -> bool:
    """True iff nodes for all kinds can be bought in each domain, without end, and count."""
    terrain, key = rows.terrain, world.topology.groups[index].id.key
    if key not in terrain.domains:
        return False
    at, counting = terrain.at(key), terrain.counting[index]
    if not all((counting.surely | counting.foreign)[sites].all() for sites in at.values()):
        return False
    if not all(counting.surely[list(rows.pods[kind])].all() for kind in party.kinds):
        return False
    reached = terrain.feasible[list(party.kinds)] & terrain.unlimited
    reached[:, terrain.bought :] = False
    return all(bool(reached[:, sites].any(axis=1).all()) for sites in at.values())


def _cells(world: World, rows: Rows, party: _Party) -> _Cells:
    """Combinations of domains, with the sites where some of the kinds may be."""
    domains = rows.terrain.domains
    keys = [world.topology.groups[index].id.key for index in party.spreads]
    found: dict[tuple[str, ...], list[int]] = {}
    for site in sorted({site for kind in party.kinds for site in rows.pods[kind]}):
        cell = tuple(domains[key][site] if key in domains else "" for key in keys)
        if all(cell):
            found.setdefault(cell, []).append(site)
    return found


def _ways(world: World, rows: Rows, party: _Party, cells: Sequence[tuple[str, ...]]) -> Amounts:
    """Pods per cell in each way, (W, C); none where there are too many to look at."""
    states, step = np.zeros((1, len(cells)), dtype=np.int64), np.eye(len(cells), dtype=np.int64)
    limits = []
    for number, index in enumerate(party.spreads):
        one = world.topology.groups[index].id
        names, domain = np.unique([cell[number] for cell in cells], return_inverse=True)
        from_zero = len(rows.terrain.at(one.key)) < one.min_domains
        limits.append((np.eye(len(names), dtype=np.int64)[domain], domain, one.max_skew, from_zero))
    for _ in range(int(rows.terrain.demand[list(party.kinds)].sum())):
        more = (states[:, None, :] + step).reshape(-1, len(cells))
        world.work.spend(more.size // _COUNTS)
        if len(more) > _MOST_STATES * len(cells) or not world.work.left:
            return states[:0]
        fine = np.ones(len(more), dtype=np.bool_)
        for at, domain, most, from_zero in limits:
            counts = more @ at
            least = 0 if from_zero else counts.min(axis=1)
            fine &= counts[np.arange(len(more)), np.tile(domain, len(states))] - least <= most
        states = np.unique(more[fine], axis=0)
    return states if len(states) <= _MOST_WAYS else states[:0]


def _choose(rows: Rows, kinds: Sequence[int], cells: Sequence[Sequence[int]], ways: Amounts) -> None:
    """One of the ways, and in each cell the nodes that its pods need at least."""
    flags = [rows.flag() for _ in ways]
    rows.exactly(dict.fromkeys(flags, 1.0), 1.0)
    for sites, numbers in zip(cells, ways.T, strict=True):
        most = max(_most(rows, kinds, site) for site in sites)
        pods = {flag: -float(number) for flag, number in zip(flags, numbers.tolist(), strict=True) if number}
        nodes = {flag: float(-(number // most)) for flag, number in pods.items()}
        rows.exactly({**rows.count(kinds, sites), **pods}, 0)
        rows.at_most({**nodes, **{rows.nodes[site]: -1.0 for site in sites}}, 0)


def _most(rows: Rows, kinds: Sequence[int], site: int) -> int:
    """More of these pods than that are never on one node of the site."""
    terrain, some = rows.terrain, [kind for kind in kinds if site in rows.pods[kind]]
    need = terrain.vectors[some].min(axis=0)
    room = terrain.room[site][need > 0] // need[need > 0]
    return int(min(room.min(initial=terrain.demand[some].sum()), rows.copies[some, site].sum()))
