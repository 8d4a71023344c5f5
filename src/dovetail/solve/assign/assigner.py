"""The assigner: existing nodes are filled, and every other pod gets its domains on new ones.

Pods of a class are taken together, as many at once as the topology counters allow without a second look.
Which new node a pod lands on is decided later, by price.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby

import numpy as np

from dovetail.model.requirement import Requirements
from dovetail.solve.assign.colocation import Hosts
from dovetail.solve.assign.items import Assignment, Item, Unit
from dovetail.solve.assign.spread_quotas import Seat, Slot, share_out
from dovetail.solve.assign.strategies import Policy
from dovetail.solve.assign.topology_rules import UNLIMITED, Judge, Stance
from dovetail.solve.instance.arrays import Amounts, Floats
from dovetail.solve.instance.instance import World, lookup
from dovetail.solve.instance.limits import NODES
from dovetail.solve.instance.pod_classes import Shape
from dovetail.solve.instance.topology import AFFINITY, DomainOf, Pins

_Waiting = tuple[Shape, list[str]]
_ItemKey = tuple[int, int, Requirements, Pins, tuple[int, ...]]


class Assigner:
    """Places the pods of a world. Invariant: topology counters hold every pod that has a place."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.world = world
        self.judge = Judge(world, anchors=policy.anchors)
        self._policy = policy
        self._survey = Survey(world, self.judge, policy)
        self._used: set[Pins] = set()  # of items
        self._hosts = Hosts(world, self.judge, policy)
        self._items: dict[_ItemKey, Item] = {}
        self._existing: dict[int, list[Unit]] = {}
        self._rations: Rations | None = None

    def run(self, pods: Iterable[tuple[int, str]], rations: Rations | None = None) -> Assignment:
        """Place (shape, pod) pairs; those that fail are tried again while others make progress."""
        self._items, self._existing = {}, {}
        self._rations, self.judge.full = rations, rations.full if rations else set()
        waiting = self._in_order(pods)
        unheard: list[_Waiting] = []
        while waiting and not unheard:
            before = sum(len(names) for _, names in waiting)
            waiting, unheard = self._in_turn(waiting)
            stuck = sum(len(names) for _, names in waiting) == before
            if stuck or not self.world.work.left or all(not shape.involved for shape, _ in waiting):
                break
        items = [*self._items.values(), *self._hosts.items()]
        return Assignment(self._existing, items, _pairs(waiting), _pairs(unheard))

    def _in_turn(self, waiting: list[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
        """Place what can be; those with pods that fail, and those that there is no time for."""
        over = self.world.work.turns()
        failed: list[_Waiting] = []
        for number, (shape, names) in enumerate(waiting):
            if over(number / len(waiting)):
                return failed, waiting[number:]
            if not self._place_all(shape, names):
                failed.append((shape, names))
        return failed, []

    def forget(self, item: Item, kind: tuple[int, int], number: int) -> None:
        """Take so many pods of one kind out of the counters: no node could be bought for them."""
        ground = self.judge.ground(item.pools, item.wanted, item.pins)
        domain_of = lookup(item.place)
        self.judge.count(self.world.shapes[kind[0]], kind[1], domain_of, -number, ground)

    def seat(self, row: int, unit: Unit) -> Seat:
        """The place of a pod on an existing node."""
        domain_of, ground = self._node_domain(row), self.judge.node_ground(row)
        shape = self.world.shapes[unit.shape]
        return Seat(unit, domain_of, lambda: self.judge.count(shape, unit.level, domain_of, -1, ground))

    def _in_order(self, pods: Iterable[tuple[int, str]]) -> list[_Waiting]:
        """Shapes that others want to be near first, then those with rules, then the rest; large first."""
        by_shape: dict[int, list[str]] = {}
        for shape, name in pods:
            by_shape.setdefault(shape, []).append(name)
        depth = self._depths(list(by_shape))
        short = self.world.work.short
        shapes = [self.world.shapes[index] for index in sorted(by_shape)]
        shapes.sort(
            key=lambda shape: (
                shape.turn if short else 0,
                shape.index not in self._policy.first or (shape.index in depth and not self._policy.ahead),
                not shape.involved,
                depth.get(shape.index, 0),
                shape.index not in self._policy.first,
                -self._strictness(shape),
                shape.index,
            )
        )
        return [(shape, by_shape[shape.index]) for shape in shapes]

    def _strictness(self, shape: Shape) -> int:
        """The most domains that a spread of the shape wants; such pods can only be the first in a domain."""
        groups = self.world.topology.groups
        wanted = [groups[index].id.min_domains for level in shape.levels[:1] for index in level.owned]
        return max(wanted, default=0)

    def _depths(self, indices: list[int]) -> dict[int, int]:
        """How long the chain of affinities is that a shape hangs on, where it does; cycles count once."""
        shapes = self.world.shapes
        groups = self.world.topology.groups
        wanted = {
            index: [
                group
                for level in shapes[index].levels[:1]
                for group in level.owned
                if groups[group].id.kind == AFFINITY and group not in shapes[index].matching
            ]
            for index in indices
        }
        wanted = {index: found for index, found in wanted.items() if found}
        providers: dict[int, list[int]] = {}
        for index in indices if wanted else ():
            for group in shapes[index].matching:
                providers.setdefault(group, []).append(index)
        depth: dict[int, int] = {}
        for _ in range(min(len(wanted), 8)):
            for index, found in wanted.items():
                others = (depth.get(other, 0) + 1 for group in found for other in providers.get(group, ()))
                depth[index] = min(max(others, default=0), 8)
        return depth

    def _place_all(self, shape: Shape, names: list[str]) -> bool:
        """Place as many pods of a shape as can be; those placed leave `names`. True iff none is left."""
        while names:
            placed = self._place(shape, names)
            if not placed:
                return False
            del names[:placed]
        return True

    def _place(self, shape: Shape, names: list[str]) -> int:
        """How many of the first pods found a place in one step, giving up as little as can be."""
        for stage in self._stages(shape):
            number, wanted = stage[0]
            self.world.work.spend(1)
            stance = self.judge.stance(shape, number)
            alone = stance.lonely or not self.judge.settled(stance)
            pods = 1 if alone else len(names)
            placed = 0
            if self._policy.even and stance.watched:
                wide = replace(stance, spreads=(*stance.spreads, *stance.watched))
                placed = self._fill(shape, wide, stage, names[:pods])
            placed = placed or self._fill(shape, stance, stage, names[:pods])
            if not placed and stance.near:
                placed = self._hosts.put((shape, number, wanted), names)
            if placed:
                return placed
        return 0

    def _stages(self, shape: Shape) -> Iterator[Stage]:
        steps = [
            (number, wanted) for number, level in enumerate(shape.levels) for wanted in level.alternatives
        ]
        if self._policy.plain:
            most = shape.levels[-1].lost if shape.levels else 0
            steps = [step for step in steps if shape.levels[step[0]].lost == most]
        for _, group in groupby(steps, key=lambda step: shape.levels[step[0]].owned):
            stage = list(group)
            if self.judge.stance(shape, stage[0][0]).near:
                yield from ([step] for step in stage)
            else:
                yield stage

    def _fill(self, shape: Shape, stance: Stance, stage: Stage, names: list[str]) -> int:
        """Share pods out over the slots there are; how many found one."""
        slots = self._survey.slots(shape, stance, stage, len(names))
        if not slots:
            return 0
        spreads = [self.world.topology.groups[index] for index in stance.spreads]
        if len(spreads) > 1:
            self.world.work.spend(len(slots) * len(names))
        uniform = all(index in self.world.uniform for index in stance.spreads)
        cheapest = (uniform or shape.index in self._policy.targets) and not self._policy.even
        placed = 0
        for slot, number in share_out(spreads, slots, len(names), self._used, cheapest=cheapest):
            some = names[placed : placed + number]
            placed += number
            self._survey.taken(shape, slot, number)
            if slot.row < 0:
                self._buy_for(shape, slot, some)
            else:
                self.world.nodes.place(slot.row, shape, number)
                units = [Unit(shape.index, slot.level, name) for name in some]
                self._existing.setdefault(slot.row, []).extend(units)
                if shape.involved:
                    ground = self.judge.node_ground(slot.row)
                    self.judge.count(shape, slot.level, self._node_domain(slot.row), number, ground)
        return placed

    def _buy_for(self, shape: Shape, slot: Slot, names: list[str]) -> None:
        key = (shape.index, slot.level, slot.wanted, slot.pins, slot.pools)
        item = self._items.get(key)
        if item is None:
            kinds = ((shape.index, slot.level),)
            item = Item(kinds, [], slot.wanted, slot.pins, slot.pools, shape.vector, shape.ports)
            self._items[key] = item
            self._used.add(slot.pins)
        item.bundles += zip(names)
        if self._rations:
            self._rations.take(slot.pools, shape.vector, len(names))
        if shape.involved:
            ground = self.judge.ground(slot.pools, slot.wanted, slot.pins)
            self.judge.count(shape, slot.level, lookup(slot.pins), len(names), ground)

    def _node_domain(self, row: int) -> DomainOf:
        return lambda key: self.world.nodes.domain(row, key)


def _pairs(waiting: list[_Waiting]) -> list[tuple[int, str]]:
    return [(shape.index, name) for shape, names in waiting for name in names]


_UNFAVOURED = 4  # times the price that a domain seems to cost which is not favoured
_LAST = 1 << 40  # what nodes cost in domains that are not favoured: more than any number of a node
_BEYOND = 1 << 49  # more than any domain seems to cost: added where more pods than are best would go
_RANK = 50  # bits of a slot's cost that are below the order of preference
# Levels that obey the same topology rules, each with one of its demands on labels; the first is preferred.
Stage = list[tuple[int, Requirements]]


class Survey:
    """Finds slots. Every slot is legal for one pod but for spreads that count the pods themselves."""

    def __init__(self, world: World, judge: Judge, policy: Policy) -> None:
        self._world = world
        self._policy = policy
        self._judge = judge
        self._placed: dict[tuple[int, int, Pins], int] = {}  # (shape, row, pins) -> pods, where targets count

    def taken(self, shape: Shape, slot: Slot, pods: int) -> None:
        """So many pods went there."""
        if shape.index in self._policy.targets:
            key = (shape.index, slot.row, () if slot.row >= 0 else slot.pins)
            self._placed[key] = self._placed.get(key, 0) + pods

    def slots(self, shape: Shape, stance: Stance, stage: Stage, pods: int) -> list[Slot]:
        """All of them where a spread must choose, else as many as the pods need, the preferred ones first."""
        found: list[Slot] = []
        aimed = shape.index in self._policy.targets
        rows: set[int] = set()
        pins: set[Pins] = set()
        room = rank = 0
        for number, wanted in stage:
            tiers = [] if stance.near else self._judge.pools(shape, number, wanted)
            for tier in ((), *tiers):
                if not stance.spreads and room >= pods and not aimed:
                    return found
                base = Slot(rank << _RANK, 0, number, wanted, (), tier)
                rank += 1
                if not tier and not self._world.nodes.nodes:
                    continue
                slots = (
                    self._on_new(shape, stance, base, pins)
                    if tier
                    else self._on_nodes(shape, stance, base, pods, rows)
                )
                fresh = list(self._aimed(shape, slots) if aimed else slots)
                pins.update([slot.pins for slot in fresh if tier])
                rows.update([slot.row for slot in fresh if not tier])
                found += fresh
                room += sum([slot.room for slot in fresh])
        return found

    def _on_new(self, shape: Shape, stance: Stance, base: Slot, known: set[Pins]) -> Iterator[Slot]:
        room = 1 if stance.lonely else UNLIMITED
        for place in self._world.places(base.pools, base.wanted, shape.vector, stance.keys):
            self._world.work.spend(1)
            if place.pins in known or not self._legal(shape, stance, place.pins):
                continue
            favoured = any(value == self._policy.favoured for _, value in place.pins)
            cost = int(place.estimate * (1 if favoured or not self._policy.favoured else _UNFAVOURED))
            yield Slot(base.cost + cost, room, base.level, base.wanted, place.pins, place.pools)

    def _aimed(self, shape: Shape, slots: Iterator[Slot]) -> Iterator[Slot]:
        """The slots, each as far as pods of the shape are best there, and dearer what is beyond that."""
        targets = self._policy.targets[shape.index]
        for slot in slots:
            pins = dict(slot.pins)
            best = sum(
                target.pods
                for target in targets
                if target.row == slot.row
                and all(pins.get(key, value) == value for key, value in target.domains)
            )
            best -= self._placed.get((shape.index, slot.row, () if slot.row >= 0 else slot.pins), 0)
            if best > 0:
                yield replace(slot, room=min(slot.room, best))
            if slot.room > best:
                rest = slot.room - max(0, best)
                yield replace(slot, cost=slot.cost + _BEYOND, room=rest, beyond=True)

    def _legal(self, shape: Shape, stance: Stance, pins: Pins) -> bool:
        if not shape.involved:
            return True
        domain_of = lookup(pins)
        groups = self._world.topology.groups
        if not all(domain_of(groups[index].id.key) for index in stance.spreads):
            return False
        return not self._judge.refused(shape, stance.steady, domain_of, skip_hosts=True)

    def _on_nodes(
        self, shape: Shape, stance: Stance, base: Slot, pods: int, known: set[int]
    ) -> Iterator[Slot]:
        world, rules = self._world, shape.levels[base.level].rules
        nodes = world.nodes
        spreads = [world.topology.groups[index].id.key for index in stance.spreads]
        room: dict[tuple[str, ...], int] = {}  # found so far, by the domains that must be chosen from
        needed = shape.vector
        apart = self._policy.apart and stance.near and self._judge.followers(shape).any()
        if self._policy.roomy and stance.near:
            needed = needed + self._judge.followers(shape)
        for row in nodes.candidates(base.wanted, rules, needed):
            world.work.spend(1)
            domains = tuple([nodes.domain(row, key) for key in spreads])
            enough = room.get(domains, 0) >= pods and shape.index not in self._policy.targets
            if enough or row in known or not nodes.accepts(row, shape):
                continue
            most = nodes.holds(row, shape)
            if apart:
                most = min(most, 0 if self._judge.anchored(shape, nodes.nodes[row].name) else 1)
            if shape.involved:
                if not all(domains) or not self._open(shape, stance, row):
                    continue
                most = min(most, self._judge.most_on_host(shape, stance, nodes.nodes[row].name))
            if most > 0:
                room[domains] = room.get(domains, 0) + most
                pins = tuple([(key, nodes.domain(row, key)) for key in stance.keys])
                most = 1 if stance.lonely else most
                favoured = self._policy.favoured
                last = bool(favoured) and all(value != favoured for _, value in pins)
                yield Slot(base.cost + row + last * _LAST, most, base.level, base.wanted, pins, row=row)

    def _open(self, shape: Shape, stance: Stance, row: int) -> bool:
        nodes = self._world.nodes
        return not self._judge.refused(
            shape, stance.steady, lambda key: nodes.domain(row, key), skip_hosts=False
        )


Pools = tuple[int, ...]


class Rations:
    """Counts what pods that are to be on new nodes ask for, by the pools that these may be of.

    Pools are full once that is more than their limits allow nodes for: some of the pods are refused for
    certain, whichever nodes are bought. So those that come later are better off in other pools.
    """

    def __init__(self, world: World, remaining: Mapping[int, Mapping[str, int]]) -> None:
        """`remaining`: what is left of the limits, per pool that has some."""
        self.full: set[int] = set()
        self._world = world
        self._remaining = remaining
        self._asked: dict[Pools, Floats] = {}
        self._most: dict[Pools, Floats | None] = {}

    def take(self, pools: Pools, requests: Amounts, bundles: int) -> None:
        """So many more bundles are to be on new nodes of some of the pools."""
        if pools not in self._most:
            self._most[pools] = self._held(pools)
            self._asked[pools] = np.zeros(len(requests))
        most = self._most[pools]
        if most is not None:
            self._asked[pools] += requests * bundles
            if (self._asked[pools] > most).any():
                self.full.update(pools)

    def _held(self, pools: Pools) -> Floats | None:
        """What nodes of all the pools hold together at most, (R,); None where that has no end."""
        if not all(pool in self._remaining for pool in pools):
            return None
        names = self._world.axis.names
        total = np.zeros(len(names))
        for pool in pools:
            left = self._remaining[pool]
            nodes = float(left.get(NODES, np.inf)) * self._world.tables[pool].room.max(axis=0, initial=0)
            total += np.minimum(nodes, [left.get(name, np.inf) for name in names])
        return total
