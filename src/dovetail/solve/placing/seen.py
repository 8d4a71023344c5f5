"""Spreads judged by the nodes that are there, as the scheduler judges them.

By default a domain that only one more node would open holds a spread down like any empty one, and pods that
run already count against it. A plan that opens no such domain may look at the others alone: then what runs
there counts for nothing, and only its own pods are kept to `maxSkew` per domain while one is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dovetail.model.labels import HOSTNAME
from dovetail.solve.demand.topology import SPREAD, Group, GroupKey
from dovetail.solve.placing.judge import Ground
from dovetail.solve.supply.world import World

NEW_HOST = "a new node"
# Domains that a spread had not counted on, per spread.
Opened = dict[GroupKey, tuple[str, ...]]


def matters(world: World) -> bool:
    """True iff pods that run already count against domains without nodes."""
    return any(
        any(world.before[index][0].values()) and (_beyond(world, index) or _open_host(world, index))
        for index, _ in _spreads(world)
        if world.present.domains(index)
    )


def restart(world: World, opened: Opened, *, seen: bool) -> None:
    """As if nothing had been placed. `seen`: spreads look at what nodes show to be there, and at `opened`."""
    world.reset(opened)
    for index, group in _spreads(world) if seen else ():
        there = dict(world.present.domains(index))
        fresh = opened.get(group.id, ())
        if not there:
            continue
        if group.id.key != HOSTNAME:
            group.universe = {**there, **dict.fromkeys(fresh)}
            group.running = world.before[index][0] if _beyond(world, index) - group.universe.keys() else None
        elif _open_host(world, index) and NEW_HOST not in fresh:
            group.closed, group.universe, group.running = True, there, world.before[index][0]


def crowded(world: World, bought: Iterable[Ground], left: Iterable[int]) -> Opened:
    """What must count as empty after all, as the counters stand: nodes were bought, pods of shapes left."""
    grounds, waiting = list(bought), {group for index in left for group in _owned(world, index)}
    found: Opened = {}
    for index, group in _spreads(world):
        before = world.before[index][0]
        ours = {name: count - before.get(name, 0) for name, count in group.matched.items()}
        too_many = max(ours.values(), default=0) > group.id.max_skew
        if group.id.key != HOSTNAME:
            missing = _beyond(world, index) - group.universe.keys()
            if too_many and missing:
                found[group.id] = tuple(sorted(missing))
        elif _open_host(world, index) and group.closed:
            ahead = any(ours[name] and group.matched[name] > group.id.max_skew for name in ours)
            counted = (group.id.node_filter.accepts(*each, world.well_known) for each in grounds)
            if too_many or index in waiting or (ahead and any(counted)):
                found[group.id] = (NEW_HOST,)
    return found


def _spreads(world: World) -> Iterator[tuple[int, Group]]:
    return ((index, group) for index, group in enumerate(world.topology.groups) if group.id.kind == SPREAD)


def _owned(world: World, shape: int) -> Iterator[int]:
    return (group for level in world.shapes[shape].levels for group in level.owned)


def _beyond(world: World, index: int) -> frozenset[str]:
    """Domains that only new nodes open; none of hosts."""
    if world.topology.groups[index].id.key == HOSTNAME:
        return frozenset()
    return frozenset(world.before[index][2]).difference(world.present.domains(index))


def _open_host(world: World, index: int) -> bool:
    """True iff it is about hosts, and one may be bought for its owners."""
    return world.topology.groups[index].id.key == HOSTNAME and not world.before[index][3]
