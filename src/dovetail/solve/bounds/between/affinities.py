"""Affinity and anti-affinity between pods, as rows that hold in the end in whichever order pods come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.solve.bounds.between.rows import Rows
from dovetail.solve.demand.topology import ANTI
from dovetail.solve.packing.market import cliques
from dovetail.solve.supply.world import World


def apart(world: World, rows: Rows, index: int) -> None:
    """Pods that repel each other share no domain; those that merely prefer so, if both do."""
    group, terrain = world.topology.groups[index], rows.terrain
    owners = [number for number, kind in enumerate(terrain.kinds) if index in kind.owned]
    matched = [number for number, kind in enumerate(terrain.kinds) if index in kind.matching]
    strict = group.id.kind == ANTI
    held, holders, *_ = world.before[index]
    at = _domains(world, rows, group.id.key)
    for domain, sites in at.items():
        if held.get(domain):
            for number in owners:
                rows.close(number, sites)
        if holders.get(domain):
            for number in matched:
                rows.close(number, sites)
    if group.id.key == HOSTNAME:
        if strict:
            _on_nodes(rows, owners, matched)
        return
    clash = np.zeros((len(terrain.kinds), len(terrain.kinds)), dtype=np.bool_)
    for number in owners:
        for mate in matched:
            if strict or (mate in owners and number in matched):
                clash[number, mate] = clash[mate, number] = True
    alone = cliques(clash)
    pairs = np.triu(clash, 1)
    for some in alone:
        pairs[np.ix_(some, some)] = False
    for domain, sites in at.items():
        for some in alone:
            rows.at_most(rows.count(some, sites), 1)
        for one, other in np.argwhere(pairs).tolist():
            if rows.count((one,), sites) and rows.count((other,), sites):
                flags = [rows.present(number, group.id.key, domain) for number in (one, other)]
                rows.at_most(dict.fromkeys(flags, 1.0), 1)


def _on_nodes(rows: Rows, owners: Sequence[int], matched: Sequence[int]) -> None:
    """On each node that exists: those who repel others, or those others, or one of those who do both.

    On new nodes it is a rule about what one node holds.
    """
    groups = [
        [kind for kind in owners if kind not in matched],
        [kind for kind in matched if kind not in owners],
        [kind for kind in owners if kind in matched],
    ]
    terrain = rows.terrain
    for site in range(terrain.bought, len(terrain.price)):
        there = [[kind for kind in group if site in rows.pods[kind]] for group in groups]
        if sum(bool(some) for some in there) < 2:
            continue
        flags = [_gated(rows, site, some) for some in there if some]
        rows.at_most(dict.fromkeys(flags, 1.0), 1)


def _gated(rows: Rows, site: int, kinds: Sequence[int]) -> int:
    """Yes if there are any pods of the kinds on a node that exists."""
    flag, terrain = rows.flag(), rows.terrain
    for kind in kinds:
        rows.at_most({rows.pods[kind][site]: 1.0, flag: -float(rows.copies[kind, site])}, 0)
    for resource in np.flatnonzero(terrain.room[site] > 0).tolist():
        room = float(terrain.room[site, resource])
        used = {rows.pods[kind][site]: terrain.vectors[kind, resource] / room for kind in kinds}
        used = {pods: share for pods, share in used.items() if share > 0}
        if len(used) > 1:
            rows.at_most({**used, flag: -1.0}, 0)
    return flag


def together(world: World, rows: Rows, index: int) -> None:
    """Who wants to be near others is where one of them is, or where the first of themselves went."""
    group, terrain = world.topology.groups[index], rows.terrain
    owners = [number for number, kind in enumerate(terrain.kinds) if index in kind.owned]
    matched = [number for number, kind in enumerate(terrain.kinds) if index in kind.matching]
    if not owners:
        return
    held = world.before[index][0]
    at = _domains(world, rows, group.id.key)
    listed = {site for sites in at.values() for site in sites}
    for number in owners:
        rows.close(number, (site for site in range(len(terrain.price)) if site not in listed))
    first: dict[str, int] = {}
    if not any(held.values()) and any(number in matched for number in owners):
        first = {domain: rows.flag() for domain in at}
        rows.at_most(dict.fromkeys(first.values(), 1.0), 1)
    others = [number for number in matched if number not in owners]
    for domain, sites in at.items():
        if held.get(domain):
            continue
        if group.id.key == HOSTNAME:
            _on_node(rows, sites[0], (owners, matched, others), first.get(domain))
            continue
        for number in owners:
            if not rows.count((number,), sites):
                continue
            there = rows.present(number, group.id.key, domain)
            own = number in matched
            mates = rows.count(others if own else matched, sites, -1.0)
            start = {first[domain]: -1.0} if own and first else {}
            rows.at_most({there: 1.0, **mates, **start}, 0)


def _on_node(
    rows: Rows, site: int, kinds: tuple[Sequence[int], Sequence[int], Sequence[int]], first: int | None
) -> None:
    """The same on each node of a site: so many nodes as hold one to be near at most."""
    terrain = rows.terrain
    owners, matched, others = kinds
    start = [first] if first is not None else []
    for number in owners:
        mine = rows.count((number,), (site,))
        if mine:
            own = number in matched
            mates = [mate for mate in (others if own else matched) if site in rows.pods[mate]]
            beside = {rows.pods[mate][site]: -_beside(rows, site, number, mate) for mate in mates}
            extra = dict.fromkeys(start, -float(rows.copies[number, site])) if own else {}
            rows.at_most({**beside, **extra, **mine}, 0)
    scale = np.maximum(terrain.vectors.max(axis=0, initial=1), 1)
    for resource in range(terrain.vectors.shape[1]):
        used = {
            rows.pods[number][site]: terrain.vectors[number, resource] / scale[resource]
            for number in owners
            if site in rows.pods[number] and terrain.vectors[number, resource] > 0
        }
        room = terrain.room[site, resource] / scale[resource]
        free = [number for number in matched if number in others or number not in used]
        if used and all(number in others or number in owners for number in free):
            nodes = rows.count(others, (site,), -room)
            rows.at_most({**used, **nodes, **dict.fromkeys(start, -room)}, 0)


def _beside(rows: Rows, site: int, kind: int, mate: int) -> float:
    """How many pods of the kind a node of the site holds beside one mate."""
    terrain = rows.terrain
    need = terrain.vectors[kind]
    left = np.maximum(terrain.room[site] - terrain.vectors[mate], 0)
    most = np.min(left[need > 0] // need[need > 0], initial=terrain.demand[kind])
    return 0.0 if terrain.conflict[kind, mate] else float(most)


def _domains(world: World, rows: Rows, key: str) -> dict[str, list[int]]:
    """Sites by domain; where that is the node, each offering is one, which stands for all its nodes."""
    terrain = rows.terrain
    if key != HOSTNAME:
        return terrain.at(key)
    first = terrain.bought
    return {
        **{f"new {site}": [site] for site in range(first)},
        **{node.name: [first + row] for row, node in enumerate(world.nodes.nodes)},
    }
