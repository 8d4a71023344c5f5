"""The assigner: existing nodes are filled, and every other pod gets its domains on new ones.

Pods of a class are taken together, as many at once as the topology counters allow without a second look.
Which new node a pod lands on is decided later, by price.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby

import numpy as np

from dovetail.model.arrays import UNLIMITED, Amounts, Floats
from dovetail.model.requirement import Requirements
from dovetail.solve.assign.colocation import Hosts
from dovetail.solve.assign.items import Assignment, Item, Unit
from dovetail.solve.assign.spread_quotas import Seat, Slot, share_out
from dovetail.solve.assign.strategies import Scatter, Strategy
from dovetail.solve.assign.topology_rules import ClassRules, RuleChecker
from dovetail.solve.instance.instance import Instance, lookup
from dovetail.solve.instance.pod_classes import PodClass
from dovetail.solve.instance.pool_table import NODES
from dovetail.solve.instance.topology import AFFINITY, DomainOf, Pins
from dovetail.solve.tolerances import FEW, SEVERAL

_Waiting = tuple[PodClass, list[str]]
_ItemKey = tuple[int, int, Requirements, Pins, tuple[int, ...]]


class Assigner:
    """Places the pods of an instance. Invariant: topology counters hold every pod that has a place."""

    def __init__(self, instance: Instance, strategy: Strategy) -> None:
        self.instance = instance
        self.checker = RuleChecker(instance)
        self._strategy = strategy
        self._scatter = Scatter(instance) if strategy.scattered else None
        self._survey = Survey(instance, self.checker, strategy, self._scatter)
        self._used: set[Pins] = set()  # of items
        self._hosts = Hosts(instance, self.checker, strategy, self._scatter)
        self._items: dict[_ItemKey, Item] = {}
        self._existing: dict[int, list[Unit]] = {}
        self._limit_quotas: LimitQuotas | None = None

    def run(self, pods: Iterable[tuple[int, str]], limit_quotas: LimitQuotas | None = None) -> Assignment:
        """Place (pod class, pod) pairs; those that fail are tried again while others make progress."""
        self._items, self._existing = {}, {}
        self._limit_quotas, self.checker.full = limit_quotas, limit_quotas.full if limit_quotas else set()
        waiting = self._in_order(pods)
        not_attempted: list[_Waiting] = []
        while waiting and not not_attempted:
            before = sum(len(names) for _, names in waiting)
            waiting, not_attempted = self._in_turn(waiting)
            stuck = sum(len(names) for _, names in waiting) == before or not self.instance.work.left
            if stuck or all(not pod_class.involved for pod_class, _ in waiting):
                break
        items = [*self._items.values(), *self._hosts.items()]
        return Assignment(self._existing, items, _pairs(waiting), _pairs(not_attempted))

    def _in_turn(self, waiting: list[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
        """Place what can be; those with pods that fail, and those that there is no time for."""
        begun, got, of_all = 0, 0, len(self.instance.pod_classes)
        over = self.instance.work.clock.turns(sum(len(names) for _, names in waiting) / max(1, len(waiting)))
        failed: list[_Waiting] = []
        least = 0 if self.checker.closed else FEW  # once pools refused some it is not the first go
        for number, (pod_class, names) in enumerate(waiting):
            of, placed = len(names), -1
            while names and placed:
                tried = 1 - len(names) / of  # of the pods of the class
                stepwise = number < least or tried > 0
                late = over((number + tried) / len(waiting), (got + tried) / of_all, stepwise)
                if late and begun + of - len(names) >= least:
                    return failed, waiting[number:]
                placed = self._place(pod_class, names)
                del names[:placed]
            if names:
                failed.append((pod_class, names))
            begun += of
            got += len(names) < of
        return failed, []

    def forget(self, item: Item, kind: tuple[int, int], number: int) -> None:
        """Take so many pods of one kind out of the counters: no node could be bought for them."""
        ground = self.checker.ground(item.pools, item.wanted, item.pins)
        domain_of = lookup(item.place)
        self.checker.count(self.instance.pod_classes[kind[0]], kind[1], domain_of, -number, ground)

    def seat(self, row: int, unit: Unit) -> Seat:
        """The place of a pod on an existing node."""
        domain_of, ground = self._node_domain(row), self.checker.node_ground(row)
        pod_class = self.instance.pod_classes[unit.pod_class]
        return Seat(unit, domain_of, lambda: self.checker.count(pod_class, unit.level, domain_of, -1, ground))

    def _in_order(self, pods: Iterable[tuple[int, str]]) -> list[_Waiting]:
        """Classes that others want to be near first, then those with rules, then the rest; large first."""
        by_class: dict[int, list[str]] = {}
        for pod_class, name in pods:
            by_class.setdefault(pod_class, []).append(name)
        depth = self._depths(list(by_class))
        short = self.instance.work.short
        pod_classes = [self.instance.pod_classes[index] for index in sorted(by_class)]
        pod_classes.sort(
            key=lambda pod_class: (
                pod_class.turn if short else 0,
                pod_class.index not in self._strategy.first
                or (pod_class.index in depth and not self._strategy.ahead),
                not pod_class.involved,
                depth.get(pod_class.index, 0),
                pod_class.index not in self._strategy.first,
                -self._strictness(pod_class),
                pod_class.index,
            )
        )
        return [(pod_class, by_class[pod_class.index]) for pod_class in pod_classes]

    def _strictness(self, pod_class: PodClass) -> int:
        """The most domains that a spread of the pod class wants; such pods can only be the first in a
        domain.
        """
        groups = self.instance.topology.groups
        wanted = [groups[index].id.min_domains for level in pod_class.levels[:1] for index in level.owned]
        return max(wanted, default=0)

    def _depths(self, indices: list[int]) -> dict[int, int]:
        """How long the chain of affinities is that a pod class hangs on, where it does; cycles count once."""
        pod_classes = self.instance.pod_classes
        groups = self.instance.topology.groups
        wanted = {
            index: [
                group
                for level in pod_classes[index].levels[:1]
                for group in level.owned
                if groups[group].id.kind == AFFINITY and group not in pod_classes[index].matching
            ]
            for index in indices
        }
        wanted = {index: found for index, found in wanted.items() if found}
        providers: dict[int, list[int]] = {}
        for index in indices if wanted else ():
            for group in pod_classes[index].matching:
                providers.setdefault(group, []).append(index)
        depth: dict[int, int] = {}
        for _ in range(min(len(wanted), 8)):
            for index, found in wanted.items():
                others = (depth.get(other, 0) + 1 for group in found for other in providers.get(group, ()))
                depth[index] = min(max(others, default=0), 8)
        return depth

    def _place(self, pod_class: PodClass, names: list[str]) -> int:
        """How many of the first pods found a place in one step, giving up as little as can be."""
        for stage in self._stages(pod_class):
            number, wanted = stage[0]
            self.instance.work.spend(1)
            class_rules = self.checker.class_rules(pod_class, number)
            alone = class_rules.self_repelling or not self.checker.settled(class_rules)
            pods = 1 if alone else len(names)
            if self._scatter and self._scatter.leads(pod_class):
                pods = min(pods, 1 + len(names) // SEVERAL)
            placed = self._fill(pod_class, class_rules, stage, names[:pods])
            if not placed and class_rules.near:
                placed = self._hosts.put((pod_class, number, wanted), names)
            if placed:
                return placed
        return 0

    def _stages(self, pod_class: PodClass) -> Iterator[Stage]:
        steps = [
            (number, wanted) for number, level in enumerate(pod_class.levels) for wanted in level.alternatives
        ]
        if self._strategy.plain:
            most = pod_class.levels[-1].lost if pod_class.levels else 0
            steps = [step for step in steps if pod_class.levels[step[0]].lost == most]
        for _, group in groupby(steps, key=lambda step: pod_class.levels[step[0]].owned):
            stage = list(group)
            near = self.checker.class_rules(pod_class, stage[0][0]).near
            yield from ([step] for step in stage) if near else (stage,)

    def _fill(self, pod_class: PodClass, class_rules: ClassRules, stage: Stage, names: list[str]) -> int:
        """Share pods out over the slots there are; how many found one."""
        slots = self._survey.slots(pod_class, class_rules, stage, len(names))
        if not slots:
            return 0
        spreads = [self.instance.topology.groups[index] for index in class_rules.spreads]
        if len(spreads) > 1:
            self.instance.work.spend(len(slots) * len(names))
        uniform = all(index in self.instance.uniform for index in class_rules.spreads)
        cheapest = uniform or pod_class.index in self._strategy.targets
        placed = 0
        for slot, number in share_out(spreads, slots, len(names), self._used, cheapest=cheapest):
            some = names[placed : placed + number]
            placed += number
            self._survey.taken(pod_class, slot, number)
            if self._scatter:
                self._scatter.placed(pod_class, lookup(slot.pins), number)
            if slot.row < 0:
                self._buy_for(pod_class, slot, some)
            else:
                self.instance.nodes.place(slot.row, pod_class, number)
                units = [Unit(pod_class.index, slot.level, name) for name in some]
                self._existing.setdefault(slot.row, []).extend(units)
                if pod_class.involved:
                    ground = self.checker.node_ground(slot.row)
                    self.checker.count(pod_class, slot.level, self._node_domain(slot.row), number, ground)
        return placed

    def _buy_for(self, pod_class: PodClass, slot: Slot, names: list[str]) -> None:
        key = (pod_class.index, slot.level, slot.wanted, slot.pins, slot.pools)
        item = self._items.get(key)
        if item is None:
            kinds = ((pod_class.index, slot.level),)
            item = Item(kinds, [], slot.wanted, slot.pins, slot.pools, pod_class.vector, pod_class.ports)
            self._items[key] = item
            self._used.add(slot.pins)
        item.bundles += zip(names)
        if self._limit_quotas:
            self._limit_quotas.take(slot.pools, pod_class.vector, len(names))
        if pod_class.involved:
            ground = self.checker.ground(slot.pools, slot.wanted, slot.pins)
            self.checker.count(pod_class, slot.level, lookup(slot.pins), len(names), ground)

    def _node_domain(self, row: int) -> DomainOf:
        return lambda key: self.instance.nodes.domain(row, key)


def _pairs(waiting: list[_Waiting]) -> list[tuple[int, str]]:
    return [(pod_class.index, name) for pod_class, names in waiting for name in names]


_RANK = 50  # bits of a slot's cost that are below the order of preference
_CROWD = _RANK + 10  # bits of a slot's cost that are below how crowded its domain is
_UNFAVOURED = 4  # times the price that a domain seems to cost which is not favoured
_BEYOND = 1 << (_RANK - 1)  # more than any domain seems to cost: added where more pods than are best would go
# Levels that obey the same topology rules, each with one of its demands on labels; the first is preferred.
Stage = list[tuple[int, Requirements]]


class Survey:
    """Finds slots. Every slot is legal for one pod but for spreads that count the pods themselves."""

    def __init__(
        self, instance: Instance, checker: RuleChecker, strategy: Strategy, scatter: Scatter | None
    ) -> None:
        self._instance = instance
        self._strategy = strategy
        self._scatter = scatter
        self._checker = checker
        # (pod class, row, pins) -> pods, where targets count.
        self._placed: dict[tuple[int, int, Pins], int] = {}

    def taken(self, pod_class: PodClass, slot: Slot, pods: int) -> None:
        """So many pods went there."""
        if pod_class.index in self._strategy.targets:
            key = (pod_class.index, slot.row, () if slot.row >= 0 else slot.pins)
            self._placed[key] = self._placed.get(key, 0) + pods

    def slots(self, pod_class: PodClass, class_rules: ClassRules, stage: Stage, pods: int) -> list[Slot]:
        """All of them where a spread must choose, else as many as the pods need, the preferred ones first."""
        found: list[Slot] = []
        aimed = pod_class.index in self._strategy.targets
        rows: set[int] = set()
        pins: set[Pins] = set()
        capacity = rank = 0
        for number, wanted in stage:
            tiers = [] if class_rules.near else self._checker.pools(pod_class, number, wanted)
            for tier in ((), *tiers):
                if not class_rules.spreads and capacity >= pods and not aimed:
                    return found
                base = Slot(rank << _RANK, 0, number, wanted, (), tier)
                rank += 1
                if not tier and not self._instance.nodes.nodes:
                    continue
                slots = (
                    self._on_new(pod_class, class_rules, base, pins)
                    if tier
                    else self._on_nodes(pod_class, class_rules, base, pods, rows)
                )
                fresh = list(self._aimed(pod_class, slots) if aimed else slots)
                pins.update([slot.pins for slot in fresh if tier])
                rows.update([slot.row for slot in fresh if not tier])
                found += fresh
                capacity += sum([slot.capacity for slot in fresh])
        return found

    def _on_new(
        self, pod_class: PodClass, class_rules: ClassRules, base: Slot, known: set[Pins]
    ) -> Iterator[Slot]:
        capacity = 1 if class_rules.self_repelling else UNLIMITED
        for place in self._instance.places(base.pools, base.wanted, pod_class.vector, class_rules.keys):
            self._instance.work.spend(1)
            if place.pins in known or not self._legal(pod_class, class_rules, place.pins):
                continue
            favoured = any(value == self._strategy.favoured for _, value in place.pins)
            cost = int(place.estimate * (1 if favoured or not self._strategy.favoured else _UNFAVOURED))
            cost += base.cost + self._crowd(pod_class, place.pins)
            yield Slot(cost, capacity, base.level, base.wanted, place.pins, place.pools)

    def _crowd(self, pod_class: PodClass, pins: Pins) -> int:
        return self._scatter.crowd(pod_class, lookup(pins)) << _CROWD if self._scatter else 0

    def _aimed(self, pod_class: PodClass, slots: Iterator[Slot]) -> Iterator[Slot]:
        """The slots, each as far as pods of the pod class are best there, and dearer what is beyond that."""
        targets = self._strategy.targets[pod_class.index]
        for slot in slots:
            pins = dict(slot.pins)
            best = sum(
                target.pods
                for target in targets
                if target.row == slot.row
                and all(pins.get(key, value) == value for key, value in target.domains)
            )
            best -= self._placed.get((pod_class.index, slot.row, () if slot.row >= 0 else slot.pins), 0)
            if best > 0:
                yield replace(slot, capacity=min(slot.capacity, best))
            if slot.capacity > best:
                rest = slot.capacity - max(0, best)
                yield replace(slot, cost=slot.cost + _BEYOND, capacity=rest, beyond=True)

    def _legal(self, pod_class: PodClass, class_rules: ClassRules, pins: Pins) -> bool:
        if not pod_class.involved:
            return True
        domain_of = lookup(pins)
        groups = self._instance.topology.groups
        if not all(domain_of(groups[index].id.key) for index in class_rules.spreads):
            return False
        return not self._checker.refused(pod_class, class_rules.checked_once, domain_of, skip_hosts=True)

    def _on_nodes(
        self, pod_class: PodClass, class_rules: ClassRules, base: Slot, pods: int, known: set[int]
    ) -> Iterator[Slot]:
        instance, rules = self._instance, pod_class.levels[base.level].rules
        nodes = instance.nodes
        spreads = [nodes.column(instance.topology.groups[index].id.key) for index in class_rules.spreads]
        capacity: dict[tuple[str, ...], int] = {}  # found so far, by the domains that must be chosen from
        needed = pod_class.vector
        apart = self._strategy.apart and class_rules.near and self._checker.followers(pod_class).any()
        if self._strategy.roomy and class_rules.near:
            needed = needed + self._checker.followers(pod_class)
        for row in nodes.candidates(base.wanted, rules, needed):
            instance.work.spend(1)
            domains = tuple([column[row] for column in spreads])
            enough = capacity.get(domains, 0) >= pods and pod_class.index not in self._strategy.targets
            if enough or row in known or not nodes.accepts(row, pod_class):
                continue
            most = nodes.holds(row, pod_class)
            if apart:
                most = min(most, 0 if self._checker.anchored(pod_class, nodes.nodes[row].name) else 1)
            if pod_class.involved:
                if not all(domains) or not self._open(pod_class, class_rules, row):
                    continue
                most = min(most, self._checker.most_on_host(pod_class, class_rules, nodes.nodes[row].name))
            if most > 0:
                capacity[domains] = capacity.get(domains, 0) + most
                pins = tuple([(key, nodes.domain(row, key)) for key in class_rules.keys])
                most = 1 if class_rules.self_repelling else most
                favoured = self._strategy.favoured
                last = bool(favoured) and all(value != favoured for _, value in pins)
                cost = base.cost + row + last * UNLIMITED + self._crowd(pod_class, pins)
                yield Slot(cost, most, base.level, base.wanted, pins, row=row)

    def _open(self, pod_class: PodClass, class_rules: ClassRules, row: int) -> bool:
        nodes = self._instance.nodes
        return not self._checker.refused(
            pod_class, class_rules.checked_once, lambda key: nodes.domain(row, key), skip_hosts=False
        )


Pools = tuple[int, ...]


class LimitQuotas:
    """Counts what pods that are to be on new nodes ask for, by the pools that these may be of.

    Pools are full once that is more than their limits allow nodes for: some of the pods are refused for
    certain, whichever nodes are bought. So those that come later are better off in other pools.
    """

    def __init__(self, instance: Instance, remaining: Mapping[int, Mapping[str, int]]) -> None:
        """`remaining`: what is left of the limits, per pool that has some."""
        self.full: set[int] = set()
        self._instance = instance
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
        names = self._instance.axis.names
        total = np.zeros(len(names))
        for pool in pools:
            left = self._remaining[pool]
            held = np.array([left.get(name, np.inf) for name in names])
            if NODES in left:
                held = np.minimum(
                    held, left[NODES] * self._instance.tables[pool].capacity.max(axis=0, initial=0)
                )
            total += held
        return total
