"""First half of a solve: existing nodes are filled, and every other pod gets its domains on new ones.

Pods of a shape are taken together, as many at once as the topology counters allow without a second look.
Which new node a pod lands on is decided later, by price.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from dovetail.model.requirement import Requirements
from dovetail.solve.demand.shapes import Shape
from dovetail.solve.demand.topology import AFFINITY, DomainOf
from dovetail.solve.placing.even import Seat
from dovetail.solve.placing.hosts import Hosts
from dovetail.solve.placing.items import Assignment, Item, Unit
from dovetail.solve.placing.judge import Judge, Stance
from dovetail.solve.placing.policy import Policy
from dovetail.solve.placing.rations import Rations
from dovetail.solve.placing.slots import Slot, share_out
from dovetail.solve.placing.survey import Stage, Survey
from dovetail.solve.supply.world import Pins, World, lookup

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
