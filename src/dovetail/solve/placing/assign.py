"""First half of a solve: existing nodes are filled, and every other pod gets its domains on new ones.

Pods are taken one by one against the topology counters where a rule is about them, and by the shape where
none is. Which new node a pod lands on is decided later, by price.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dovetail.api.core import Taint
from dovetail.model.labels import ARCH, CAPACITY_TYPE, HOSTNAME, OS, ZONE
from dovetail.model.requirement import Requirements
from dovetail.solve.demand.match import ports_conflict
from dovetail.solve.demand.shapes import Level, Shape
from dovetail.solve.demand.topology import AFFINITY, SPREAD, DomainOf
from dovetail.solve.placing.even import Seat
from dovetail.solve.placing.items import Assignment, Host, Item, Unit
from dovetail.solve.supply.world import Pins, World, lookup, pinned

_FILTERED = frozenset({ZONE, CAPACITY_TYPE, ARCH, OS})
# What a spread looks at to tell whether a node counts: its labels and its taints.
_Ground = tuple[Requirements, tuple[Taint, ...]]
_ItemKey = tuple[int, int, Requirements, Pins, tuple[int, ...]]


class Assigner:
    """Places the pods of a world. Invariant: topology counters hold every pod that has a place."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.closed: set[tuple[int, int]] = set()  # (shape, pool) that turned out not to work
        self._hosts: list[Host] = []
        self._host_count = 0
        self._items: dict[_ItemKey, Item] = {}
        self._existing: dict[int, list[Unit]] = {}
        groups = world.topology.groups
        self._near = frozenset(
            index
            for index, group in enumerate(groups)
            if group.id.kind == AFFINITY and group.id.key == HOSTNAME
        )
        self._keys: dict[tuple[int, int], tuple[str, ...]] = {}

    def run(self, pods: Iterable[tuple[int, str]]) -> Assignment:
        """Place (shape, pod) pairs; those that fail are tried again while others make progress."""
        self._hosts, self._items, self._existing = [], {}, {}
        waiting = self._in_order(pods)
        while waiting:
            failed = [entry for entry in waiting if not self._place_batch(*entry)]
            failed = [(shape, names) for shape, names in failed if names]
            if sum(len(names) for _, names in failed) == sum(len(names) for _, names in waiting):
                break
            if all(not shape.involved for shape, _ in failed):
                break
            waiting = failed
        else:
            failed = []
        items = [*self._items.values(), *self._host_items()]
        left = [(shape.index, name) for shape, names in failed for name in names]
        return Assignment(self._existing, items, left)

    def forget(self, item: Item, bundles: list[tuple[Unit, ...]]) -> None:
        """Take pods that no node could be bought for out of the counters."""
        for bundle in bundles:
            for unit in bundle:
                seat = self._new_seat(item.pools, item.wanted, item.pins)
                self._count(unit, lookup(item.pins), -1, seat)

    def seat(self, row: int, unit: Unit) -> Seat:
        """The place of a pod on an existing node."""
        domain_of = self._node_domain(row)
        return Seat(unit, domain_of, lambda: self._count(unit, domain_of, -1, self._node_seat(row)))

    def _in_order(self, pods: Iterable[tuple[int, str]]) -> list[tuple[Shape, list[str]]]:
        """Shapes that others want to be near first, then those with rules, then the rest; large first."""
        by_shape: dict[int, list[str]] = {}
        for shape, name in pods:
            by_shape.setdefault(shape, []).append(name)
        depth = self._depths(list(by_shape))
        shapes = [self.world.shapes[index] for index in sorted(by_shape)]
        shapes.sort(
            key=lambda shape: (not shape.involved, depth[shape.index], -self._strictness(shape), shape.index)
        )
        return [(shape, by_shape[shape.index]) for shape in shapes]

    def _strictness(self, shape: Shape) -> int:
        """The most domains that a spread of the shape wants; such pods can only be the first in a domain."""
        groups = self.world.topology.groups
        wanted = [groups[index].id.min_domains for level in shape.levels[:1] for index in level.owned]
        return max(wanted, default=0)

    def _depths(self, indices: list[int]) -> dict[int, int]:
        """How long the chain of affinities is that a shape hangs on; cycles count once."""
        shapes = self.world.shapes
        providers: dict[int, list[int]] = {}
        for index in indices:
            for group in shapes[index].matching:
                providers.setdefault(group, []).append(index)
        needs = {
            index: sorted(
                {
                    other
                    for level in shapes[index].levels[:1]
                    for group in level.owned
                    if self.world.topology.groups[group].id.kind == AFFINITY
                    and group not in shapes[index].matching
                    for other in providers.get(group, ())
                }
            )
            for index in indices
        }
        depth: dict[int, int] = dict.fromkeys(indices, 0)
        for _ in range(min(len(indices), 8)):
            for index in indices:
                want = max((depth[other] + 1 for other in needs[index] if other != index), default=0)
                depth[index] = min(want, 8)
        return depth

    def _place_batch(self, shape: Shape, names: list[str]) -> bool:
        """Place as many pods of a shape as can be; those placed leave `names`. True iff none is left."""
        while names:
            placed = self._place(shape, names)
            if not placed:
                return False
            del names[:placed]
        return True

    def _place(self, shape: Shape, names: list[str]) -> int:
        """How many of the first pods found a place: one where rules are involved, else all that can."""
        for number, level in enumerate(shape.levels):
            for wanted in level.alternatives:
                self.world.work.spend(1)
                placed = self._on_existing(shape, number, wanted, names)
                if placed:
                    return placed
                if self._wants_host(shape, level):
                    if self._on_host(shape, number, wanted, names[0]):
                        return 1
                    continue
                placed = self._on_new(shape, number, wanted, names)
                if placed:
                    return placed
        return 0

    def _on_existing(self, shape: Shape, number: int, wanted: Requirements, names: list[str]) -> int:
        world, level = self.world, shape.levels[number]
        for row in world.nodes.candidates(wanted, level.rules, shape.vector):
            world.work.spend(1)
            if not world.nodes.accepts(row, shape):
                continue
            domain_of = self._node_domain(row)
            if shape.involved and self._refused(shape, level, domain_of, skip_hosts=False):
                continue
            count = 1
            if not shape.involved and not shape.ports and not shape.volumes:
                asked = shape.vector > 0
                count = min(len(names), int(np.min(world.nodes.room[row][asked] // shape.vector[asked])))
            world.nodes.place(row, shape, count)
            for name in names[:count]:
                unit = Unit(shape.index, number, name)
                self._existing.setdefault(row, []).append(unit)
                if shape.involved:
                    self._count(unit, domain_of, 1, self._node_seat(row))
            return count
        return 0

    def _on_new(self, shape: Shape, number: int, wanted: Requirements, names: list[str]) -> int:
        level = shape.levels[number]
        keys = self._involved_keys(shape, number)
        for pools in self._pools(shape, level, wanted):
            for pins, at in self._ways(shape, level, pools, wanted, keys):
                key = (shape.index, number, wanted, pins, at)
                item = self._items.get(key)
                if item is None:
                    item = Item([], wanted, pins, at, shape.vector, shape.ports)
                    self._items[key] = item
                count = 1 if shape.involved else len(names)
                for name in names[:count]:
                    unit = Unit(shape.index, number, name)
                    item.bundles.append((unit,))
                    if shape.involved:
                        self._count(unit, lookup(pins), 1, self._new_seat(at, wanted, pins))
                return count
        return 0

    def _ways(
        self, shape: Shape, level: Level, pools: tuple[int, ...], wanted: Requirements, keys: tuple[str, ...]
    ) -> list[tuple[Pins, tuple[int, ...]]]:
        """Legal pins for one more pod of the shape, the best first."""
        groups = self.world.topology.groups
        spreads = [groups[index] for index in level.owned if groups[index].id.kind == SPREAD]
        found = []
        for place in self.world.places(pools, wanted, shape.vector, keys):
            self.world.work.spend(1)
            values = dict(place.pins)
            if shape.involved and self._refused(shape, level, lookup(place.pins), skip_hosts=True):
                continue
            crowd = sum(group.matched.get(values.get(group.id.key, ""), 0) for group in spreads)
            found.append((crowd, place.estimate, place.pins, place.pools))
        found.sort(key=lambda way: way[:3])
        return [(pins, at) for _, _, pins, at in found]

    def _on_host(self, shape: Shape, number: int, wanted: Requirements, name: str) -> bool:
        for host in self._hosts:
            if self._join(host, shape, number, wanted, name):
                return True
        for pools in self._pools(shape, shape.levels[number], wanted):
            host = Host(
                f"new-{self._host_count}", [], Requirements(), (), pools, np.zeros_like(shape.vector), ()
            )
            if self._join(host, shape, number, wanted, name):
                self._host_count += 1
                self._hosts.append(host)
                return True
        return False

    def _join(self, host: Host, shape: Shape, number: int, wanted: Requirements, name: str) -> bool:
        """Add a pod to a node under construction, pinning what its rules look at; False if it cannot be."""
        world, level = self.world, shape.levels[number]
        if ports_conflict(shape.ports, host.ports):
            return False
        both = Requirements.of((*host.wanted, *wanted, *pinned(host.pins)))
        pools = tuple(pool for pool in host.pools if world.suits(pool, both, level.rules))
        open_keys = tuple(key for key in self._involved_keys(shape, number) if key not in dict(host.pins))
        vector = host.vector + shape.vector
        for place in world.places(pools, both, vector, open_keys):
            world.work.spend(1)
            domain_of = lookup((*host.pins, *place.pins, (HOSTNAME, host.name)))
            if self._refused(shape, level, domain_of, skip_hosts=False):
                continue
            host.pins = tuple(sorted((*host.pins, *place.pins)))
            host.pools, host.vector, host.ports = place.pools, vector, (*host.ports, *shape.ports)
            host.wanted = Requirements.of((*host.wanted, *wanted))
            unit = Unit(shape.index, number, name)
            host.units.append(unit)
            self._count(unit, domain_of, 1, self._new_seat(host.pools, host.wanted, host.pins))
            return True
        return False

    def _host_items(self) -> list[Item]:
        return [
            Item([tuple(host.units)], host.wanted, host.pins, host.pools, host.vector, host.ports)
            for host in self._hosts
        ]

    def _pools(self, shape: Shape, level: Level, wanted: Requirements) -> list[tuple[int, ...]]:
        """Per tier, the pools that let the pod in."""
        world = self.world
        tiers = [
            tuple(
                pool
                for pool in tier
                if (shape.index, pool) not in self.closed
                and world.suits(pool, wanted, level.rules)
                and world.free_of_ports(pool, shape.ports)
            )
            for tier in world.tiers
        ]
        return [tier for tier in tiers if tier]

    def _wants_host(self, shape: Shape, level: Level) -> bool:
        return not self._near.isdisjoint(shape.matching) or not self._near.isdisjoint(level.owned)

    def _involved_keys(self, shape: Shape, number: int) -> tuple[str, ...]:
        """The labels, hostname apart, whose value must be known of a node that takes the pod."""
        memo = (shape.index, number)
        known = self._keys.get(memo)
        if known is None:
            groups = self.world.topology.groups
            every: set[str] = set()
            for index in (*shape.matching, *shape.levels[number].owned):
                every.add(groups[index].id.key)
                # Whether a node counts must be known as well as which domain it counts for.
                every.update(key for key in groups[index].id.node_filter.labels() if key in _FILTERED)
            known = tuple(sorted(every - {HOSTNAME}))
            self._keys[memo] = known
        return known

    def _node_domain(self, row: int) -> DomainOf:
        return lambda key: self.world.nodes.domain(row, key)

    def _node_seat(self, row: int) -> _Ground:
        return self.world.nodes.labels[row], self.world.problem.nodes[row].taints

    def _new_seat(self, pools: tuple[int, ...], wanted: Requirements, pins: Pins) -> _Ground:
        table = self.world.tables[pools[0]]
        return table.base.add(*wanted, *pinned(pins)), table.pool.taints

    def _refused(self, shape: Shape, level: Level, domain_of: DomainOf, *, skip_hosts: bool) -> bool:
        topology = self.world.topology
        return bool(topology.first_refusal(level.owned, shape.matching, domain_of, skip_hosts=skip_hosts))

    def _count(self, unit: Unit, domain_of: DomainOf, step: int, seat: _Ground) -> None:
        """Register a pod with every group that counts it or that it owns."""
        shape = self.world.shapes[unit.shape]
        owned = shape.levels[unit.level].owned
        for index in dict.fromkeys((*shape.matching, *owned)):
            group = self.world.topology.groups[index]
            matched = index in shape.matching
            if matched and group.id.kind == SPREAD and index not in owned:
                matched = group.id.node_filter.accepts(*seat, self.world.well_known)
            group.count(domain_of(group.id.key), step, matched=matched, owner=index in owned)
