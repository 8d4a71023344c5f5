"""What topology rules mean for pods of one class, the counters that those pods change, and what spreads see.

By default a domain that only one more node would open holds a spread down like any empty one, and pods that
run already count against it. A plan that opens no such domain may look at the others alone, as the scheduler
does: then what runs there counts for nothing, and only its own pods are kept to `maxSkew` per domain while
one is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.api.core import Taint
from dovetail.model.arrays import UNLIMITED, Amounts
from dovetail.model.labels import ARCH, CAPACITY_TYPE, HOSTNAME, OS, ZONE
from dovetail.model.pod_rules import Rules
from dovetail.model.ports import HostPort
from dovetail.model.requirement import Requirements
from dovetail.solve.instance.instance import Instance, pinned
from dovetail.solve.instance.pod_classes import PodClass
from dovetail.solve.instance.topology import AFFINITY, ANTI, APART, SPREAD, DomainOf, Group, GroupKey, Pins

_FILTERED = frozenset({ZONE, CAPACITY_TYPE, ARCH, OS})
# What a spread looks at to tell whether a node counts: its labels and its taints.
Ground = tuple[Requirements, tuple[Taint, ...]]


@dataclass(frozen=True, slots=True)
class ClassRules:
    """The groups that one level of a pod class has to do with, sorted by what more pods of it change."""

    owned: tuple[int, ...]
    keys: tuple[str, ...]  # labels whose value must be known of a node; the hostname only where a spread asks
    spreads: tuple[int, ...] = ()  # owned and counting the pods themselves; over hostnames if all are known
    checked_once: tuple[int, ...] = ()  # the other owned groups: judged once for any number of pods
    self_repelling: bool = False  # the pods keep away from each other's zones or the like
    bootstraps: tuple[int, ...] = ()  # affinities of which the first of these pods decides where others go
    near: bool = False  # it matters which pods share a new node


class RuleChecker:
    """Judges and counts pods against the groups of an instance; knows which pools let a pod in."""

    def __init__(self, instance: Instance) -> None:
        self.closed: set[tuple[int, int]] = set()  # (pod class, pool) that turned out not to work
        self.full: set[int] = set()  # pools that are asked for more than they may buy
        self._instance = instance
        self._groups = instance.topology.groups
        self._near = frozenset(
            index
            for index, group in enumerate(self._groups)
            if group.id.kind == AFFINITY and group.id.key == HOSTNAME
        )
        # By ladder, level, demands on labels and ports: the pools that are open to such pods, per tier.
        self._open: dict[tuple[int, int, Requirements, tuple[HostPort, ...]], list[tuple[int, ...]]] = {}
        self._grounds: dict[tuple[int, Requirements, Pins], Ground] = {}
        self._stances: dict[tuple[tuple[int, ...], tuple[int, ...]], ClassRules] = {}

    def class_rules(self, pod_class: PodClass, number: int) -> ClassRules:
        """What the rules mean for the pod class at that level."""
        memo = pod_class.matching, pod_class.levels[number].owned
        known = self._stances.get(memo)
        if known is None:
            known = self._stances[memo] = self._class_rules(*memo)
        return known

    def pools(self, pod_class: PodClass, number: int, wanted: Requirements) -> list[tuple[int, ...]]:
        """Per tier, the pools that let the pod in."""
        memo = (pod_class.ladder, number, wanted, pod_class.ports)
        tiers = self._open.get(memo)
        if tiers is None:
            tiers = self._open[memo] = self._suiting(pod_class, pod_class.levels[number].rules, wanted)
        if not self.closed and not self.full:
            return tiers
        closed, index = self.closed, pod_class.index
        free = [
            [each for each in tier if each not in self.full and (index, each) not in closed] for tier in tiers
        ]
        return [tuple(tier) for tier in free if tier]

    def _suiting(self, pod_class: PodClass, rules: Rules, wanted: Requirements) -> list[tuple[int, ...]]:
        instance, ports = self._instance, pod_class.ports
        suits = {
            pool
            for pool in instance.buying
            if instance.suits(pool, wanted, rules) and instance.free_of_ports(pool, ports)
        }
        tiers = [tuple(pool for pool in tier if pool in suits) for tier in instance.tiers]
        return [tier for tier in tiers if tier]

    def refused(
        self, pod_class: PodClass, owned: tuple[int, ...], domain_of: DomainOf, *, skip_hosts: bool
    ) -> bool:
        """True iff one of the rules `owned`, or one about the pod class, forbids one more pod there."""
        first = self._instance.topology.first_refusal(
            owned, pod_class.matching, domain_of, skip_hosts=skip_hosts
        )
        return first is not None

    def settled(self, class_rules: ClassRules) -> bool:
        """True iff no pod has to go first to show the others where to go."""
        return all(any(self._groups[index].matched.values()) for index in class_rules.bootstraps)

    def most_on_host(self, pod_class: PodClass, class_rules: ClassRules, host: str) -> int:
        """How many more pods a node may take where one more is allowed, as far as rules on hostnames go."""
        most = UNLIMITED
        for index in class_rules.owned:
            group = self._groups[index]
            if group.id.key != HOSTNAME or index not in pod_class.matching or index in class_rules.spreads:
                continue
            if group.id.kind == SPREAD:
                most = min(most, group.id.max_skew - group.matched.get(host, 0))
            elif group.id.kind in (ANTI, APART) or not any(group.matched.values()):
                most = min(most, 1)
        return most

    def kept_apart(self, pod_class: PodClass, class_rules: ClassRules, host: str) -> bool:
        """True iff a pod on that node keeps such pods off it, or is what they keep away from."""
        for index in class_rules.owned:
            group = self._groups[index]
            if group.id.key == HOSTNAME and group.id.kind in (ANTI, APART) and group.matched.get(host):
                return True
        counting = (self._groups[index] for index in pod_class.matching)
        return any(group.id.key == HOSTNAME and not group.allows_matched(host) for group in counting)

    def followers(self, pod_class: PodClass) -> Amounts:
        """What all other pods ask for that have to share a host with such pods."""
        total = np.zeros_like(pod_class.vector)
        for other in self._instance.pod_classes:
            number = len(other.pods) - (other is pod_class)
            owned = other.levels[-1].owned if other.levels else ()
            if not self._near.isdisjoint(set(owned) & set(pod_class.matching)):
                total += number * other.vector
        return total

    def anchored(self, pod_class: PodClass, host: str) -> bool:
        """True iff a host has such a pod already that others may share it with."""
        return any(self._groups[at].matched.get(host, 0) for at in pod_class.matching if at in self._near)

    def count(self, pod_class: PodClass, number: int, domain_of: DomainOf, step: int, ground: Ground) -> None:
        """Register `step` pods with every group that counts or is owned by them; forget them if negative."""
        owned = pod_class.levels[number].owned
        counting, owning = frozenset(pod_class.matching), frozenset(owned)
        for index in dict.fromkeys((*pod_class.matching, *owned)):
            group = self._groups[index]
            matched = index in counting
            if matched and group.id.kind == SPREAD and index not in owning:
                matched = group.id.node_filter.accepts(*ground, self._instance.well_known)
            group.count(domain_of(group.id.key), step, matched=matched, owner=index in owning)

    def ground(self, pools: Sequence[int], wanted: Requirements, pins: Pins) -> Ground:
        """A new node, as a spread that may or may not count it sees it."""
        memo = (pools[0], wanted, pins)
        known = self._grounds.get(memo)
        if known is None:
            table = self._instance.tables[pools[0]]
            known = self._grounds[memo] = (table.base.add(*wanted, *pinned(pins)), table.pool.taints)
        return known

    def node_ground(self, row: int) -> Ground:
        """An existing node, likewise."""
        return self._instance.nodes.labels[row], self._instance.problem.nodes[row].taints

    def _class_rules(self, matching: tuple[int, ...], owned: tuple[int, ...]) -> ClassRules:
        groups = self._groups
        keys: set[str] = set()
        for index in (*matching, *owned):
            keys.add(groups[index].id.key)
            # Whether a node counts must be known as well as which domain it counts for.
            keys.update(key for key in groups[index].id.node_filter.labels() if key in _FILTERED)
        counting = frozenset(matching)
        own = [index for index in owned if index in counting]
        wide = [index for index in own if groups[index].id.key != HOSTNAME or groups[index].closed]
        spreads = tuple(index for index in wide if groups[index].id.kind == SPREAD)
        apart = frozenset(spreads)
        hosts = any(groups[index].id.key == HOSTNAME for index in spreads)
        return ClassRules(
            owned=owned,
            keys=tuple(sorted(keys if hosts else keys - {HOSTNAME})),
            spreads=spreads,
            checked_once=tuple(index for index in owned if index not in apart),
            self_repelling=any(groups[index].id.kind in (ANTI, APART) for index in wide),
            bootstraps=tuple(index for index in own if groups[index].id.kind == AFFINITY),
            near=not self._near.isdisjoint(matching) or not self._near.isdisjoint(owned),
        )


NEW_HOST = "a new node"
# Domains that a spread had not counted on, per spread.
Opened = dict[GroupKey, tuple[str, ...]]


def matters(instance: Instance) -> bool:
    """True iff pods that run already count against domains without nodes."""
    return any(
        any(instance.before[index][0].values()) and (_beyond(instance, index) or _open_host(instance, index))
        for index, _ in _spreads(instance)
        if instance.present.domains(index)
    )


def restart(instance: Instance, opened: Opened, *, seen: bool) -> None:
    """As if nothing had been placed. `seen`: spreads look at what nodes show to be there, and at `opened`."""
    instance.reset(opened)
    for index, group in _spreads(instance) if seen else ():
        there = dict(instance.present.domains(index))
        fresh = opened.get(group.id, ())
        if not there:
            continue
        if group.id.key != HOSTNAME:
            group.universe = {**there, **dict.fromkeys(fresh)}
            group.running = (
                instance.before[index][0] if _beyond(instance, index) - group.universe.keys() else None
            )
        elif _open_host(instance, index) and NEW_HOST not in fresh:
            group.closed, group.universe, group.running = True, there, instance.before[index][0]


def crowded(instance: Instance, bought: Iterable[Ground], left: Iterable[int]) -> Opened:
    """What must count as empty after all, as the counters stand: nodes were bought, pods of pod classes
    left.
    """
    grounds, waiting = list(bought), {group for index in left for group in _owned(instance, index)}
    found: Opened = {}
    for index, group in _spreads(instance):
        before = instance.before[index][0]
        ours = {name: count - before.get(name, 0) for name, count in group.matched.items()}
        too_many = max(ours.values(), default=0) > group.id.max_skew
        if group.id.key != HOSTNAME:
            missing = _beyond(instance, index) - group.universe.keys()
            if too_many and missing:
                found[group.id] = tuple(sorted(missing))
        elif _open_host(instance, index) and group.closed:
            ahead = any(ours[name] and group.matched[name] > group.id.max_skew for name in ours)
            counted = (group.id.node_filter.accepts(*each, instance.well_known) for each in grounds)
            if too_many or index in waiting or (ahead and any(counted)):
                found[group.id] = (NEW_HOST,)
    return found


def _spreads(instance: Instance) -> Iterator[tuple[int, Group]]:
    return ((index, group) for index, group in enumerate(instance.topology.groups) if group.id.kind == SPREAD)


def _owned(instance: Instance, pod_class: int) -> Iterator[int]:
    return (group for level in instance.pod_classes[pod_class].levels for group in level.owned)


def _beyond(instance: Instance, index: int) -> frozenset[str]:
    """Domains that only new nodes open; none of hosts."""
    if instance.topology.groups[index].id.key == HOSTNAME:
        return frozenset()
    return frozenset(instance.before[index][2]).difference(instance.present.domains(index))


def _open_host(instance: Instance, index: int) -> bool:
    """True iff it is about hosts, and one may be bought for its owners."""
    return instance.topology.groups[index].id.key == HOSTNAME and not instance.before[index][3]
