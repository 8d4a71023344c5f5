"""New nodes under construction, for pods that want to be near each other on one node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.model.ports import HostPort
from dovetail.model.requirement import Requirements
from dovetail.solve.assign.items import Item, Unit
from dovetail.solve.assign.strategies import Policy
from dovetail.solve.assign.topology_rules import Judge, Stance
from dovetail.solve.instance.arrays import Amounts
from dovetail.solve.instance.instance import World, lookup, pinned
from dovetail.solve.instance.matching import ports_conflict
from dovetail.solve.instance.pod_classes import Shape
from dovetail.solve.instance.topology import AFFINITY, Pins

_LOOSE = 1.25  # times the nodes that pods need if these fill up, which they do not
_LAST_HOSTS = 16  # are tried once the budget is used up
_Ask = tuple[Shape, int, Requirements]  # a shape, a level of it, and its demands on labels there


@dataclass(slots=True)
class _Host:
    name: str
    units: list[Unit]
    wanted: Requirements
    pins: Pins
    pools: tuple[int, ...]
    vector: Amounts
    ports: tuple[HostPort, ...]


class Hosts:
    """Nodes that fill up pod by pod. Invariant: some column of their pools holds what is on each of them."""

    def __init__(self, world: World, judge: Judge, policy: Policy) -> None:
        self._world = world
        self._judge = judge
        self._apart = policy.apart
        self._made = 0
        self._hosts: dict[str, _Host] = {}
        self._full: dict[tuple[int, int, Requirements], set[str]] = {}
        self._share: dict[int, int] = {}  # per group

    def items(self) -> list[Item]:
        """What is on the nodes, to be bought as it is; the nodes are closed by that."""
        items = [
            Item(
                tuple((unit.shape, unit.level) for unit in host.units),
                [tuple(unit.pod for unit in host.units)],
                host.wanted,
                host.pins,
                host.pools,
                host.vector,
                host.ports,
                host.name,
            )
            for host in self._hosts.values()
        ]
        self._hosts, self._full = {}, {}
        return items

    def put(self, ask: _Ask, names: list[str]) -> int:
        """Put the first of these pods on one node, as many as can be; how many that was."""
        shape, number, wanted = ask
        stance = self._judge.stance(shape, number)
        full = self._full.setdefault((shape.index, number, wanted), set())
        spare = self._spare(shape, stance)
        shares = self._shares(shape, stance)
        names = names[: min(shares.values(), default=len(names))]
        for name in self._likely(stance):
            if name in full or any(self._there(index, name) >= share for index, share in shares.items()):
                continue
            placed = self._join(self._hosts[name], ask, names, spare)
            if placed:
                return placed
            if placed is None and not spare.any():
                full.add(name)
        for pools in self._judge.pools(shape, number, wanted):
            host = _Host(f"new-{self._made}", [], Requirements(), (), pools, np.zeros_like(spare), ())
            placed = self._join(host, ask, names, spare) or self._join(host, ask, names, np.zeros_like(spare))
            if placed:
                self._made += 1
                self._hosts[host.name] = host
                return placed
        return 0

    def _there(self, group: int, host: str) -> int:
        return self._world.topology.groups[group].matched.get(host, 0)

    def _spare(self, shape: Shape, stance: Stance) -> Amounts:
        """Room that a node must have besides the first pod: of those that have to follow it there."""
        spare = np.zeros_like(shape.vector)
        groups = self._world.topology.groups
        for index in stance.boots:
            if groups[index].id.key == HOSTNAME and not any(groups[index].matched.values()):
                followers = [other for other in self._concerned[index] if _owns(other, index)]
                all_of_them = sum((len(other.pods) * other.vector for other in followers), -shape.vector)
                spare = np.maximum(spare, all_of_them)
        return spare

    @cached_property
    def _concerned(self) -> dict[int, list[Shape]]:
        """Per group the shapes that it counts or that own it."""
        found: dict[int, list[Shape]] = {}
        for shape in self._world.shapes:
            owned = shape.levels[0].owned if shape.levels else ()
            for index in dict.fromkeys((*shape.matching, *owned)):
                found.setdefault(index, []).append(shape)
        return found

    def _shares(self, shape: Shape, stance: Stance) -> dict[int, int]:
        """Per affinity to these pods, how many of them a node should take, so that others find room there."""
        groups = self._world.topology.groups
        shares: dict[int, int] = {}
        for index in shape.matching:
            if index in stance.owned or groups[index].id.kind != AFFINITY or groups[index].id.key != HOSTNAME:
                continue
            if self._apart and self._judge.followers(shape).any():
                shares[index] = 1
                continue
            if index not in self._share:
                self._share[index] = self._share_of(index)
            shares[index] = self._share[index]
        return shares

    def _share_of(self, index: int) -> int:
        near = self._concerned[index]
        total = sum(
            (len(other.pods) * other.vector for other in near[1:]), len(near[0].pods) * near[0].vector
        )
        rooms = [table.room.max(axis=0, initial=1) for table in self._world.tables]
        hosts = int(np.ceil(_LOOSE * np.max(total / np.max(np.array(rooms), axis=0), initial=0.0)))
        pods = sum(len(other.pods) for other in near if index in other.matching)
        return max(1, pods // max(1, hosts))

    def _likely(self, stance: Stance) -> Iterable[str]:
        """Nodes that may take such a pod: where those are that it wants to be near, if it says so."""
        groups = self._world.topology.groups
        for index in stance.owned:
            group = groups[index]
            if group.id.kind == AFFINITY and group.id.key == HOSTNAME and any(group.matched.values()):
                return [name for name, number in group.matched.items() if number and name in self._hosts]
        return list(self._hosts) if self._world.work.left else list(self._hosts)[-_LAST_HOSTS:]

    def _join(self, host: _Host, ask: _Ask, names: list[str], spare: Amounts) -> int | None:
        """Add pods to a node, pinning what their rules look at; how many. None: none ever can.

        `spare` must be left on it for others that will follow.
        """
        world, judge, (shape, number, wanted) = self._world, self._judge, ask
        stance = judge.stance(shape, number)
        # Pods only come to a node, they do not leave it.
        if ports_conflict(shape.ports, host.ports) or judge.kept_apart(shape, stance, host.name):
            return None
        known = dict(host.pins)
        keys = tuple(key for key in stance.keys if key not in known)
        if not keys:
            domain_of = lookup((*host.pins, (HOSTNAME, host.name)))
            if judge.refused(shape, stance.owned, domain_of, skip_hosts=False):
                world.work.spend(1)
                return 0
        both = Requirements.of((*host.wanted, *wanted, *pinned(host.pins)))
        rules = shape.levels[number].rules
        pools = tuple(pool for pool in host.pools if world.suits(pool, both, rules))
        count = self._most(host, shape, stance, len(names))
        while True:
            vector = host.vector + count * shape.vector
            places = world.places(pools, both, vector + spare, keys)
            for place in places:
                world.work.spend(1)
                domain_of = lookup((*host.pins, *place.pins, (HOSTNAME, host.name)))
                if judge.refused(shape, stance.owned, domain_of, skip_hosts=False):
                    continue
                host.pins = tuple(sorted((*host.pins, *place.pins)))
                host.pools, host.vector, host.ports = place.pools, vector, (*host.ports, *shape.ports)
                host.wanted = Requirements.of((*host.wanted, *wanted))
                host.units += [Unit(shape.index, number, name) for name in names[:count]]
                ground = judge.ground(host.pools, host.wanted, host.pins)
                judge.count(shape, number, domain_of, count, ground)
                return count
            if count == 1:
                return 0 if places else None
            count //= 2

    def _most(self, host: _Host, shape: Shape, stance: Stance, pods: int) -> int:
        one = shape.ports or stance.spreads or stance.lonely or not self._judge.settled(stance)
        return 1 if one else max(1, min(pods, self._judge.most_on_host(shape, stance, host.name)))


def _owns(shape: Shape, group: int) -> bool:
    return bool(shape.levels) and group in shape.levels[0].owned
