"""New nodes under construction, for pods that want to be near each other on one node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from dovetail.model.arrays import UNLIMITED, Amounts, Floats
from dovetail.model.labels import HOSTNAME
from dovetail.model.matching import ports_conflict
from dovetail.model.ports import HostPort
from dovetail.model.requirement import Requirements
from dovetail.solve.assign.items import Item, Unit
from dovetail.solve.assign.strategies import Scatter, Strategy
from dovetail.solve.assign.topology_rules import ClassRules, RuleChecker
from dovetail.solve.budget import LITTLE
from dovetail.solve.instance.instance import Instance, lookup, pinned
from dovetail.solve.instance.pod_classes import PodClass
from dovetail.solve.instance.topology import AFFINITY, Group, Pins

_Ask = tuple[PodClass, int, Requirements]  # a pod class, a level of it, and its demands on labels there
_Key = tuple[int, int, Requirements, int]  # a pod class, a level, its demands, for which affinity


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

    def __init__(
        self, instance: Instance, checker: RuleChecker, strategy: Strategy, scatter: Scatter | None
    ) -> None:
        self._instance = instance
        self._checker = checker
        self._apart = strategy.apart
        self._scatter = scatter
        self._made = 0
        # By part: pods that no chain of affinities ties together are no bundle. One bundle for all was a node
        # of $20.32 for 79 of 587 pods, where the plan costs 39.00 without and 52.72 with it.
        self._hosts: dict[int, dict[str, _Host]] = {}
        self._open: dict[tuple[_Key, int], tuple[dict[str, None], int]] = {}
        self._affinities: dict[int, tuple[int, Amounts]] = {}  # per group

    def items(self) -> list[Item]:
        """What is on the nodes, to be bought as it is; the nodes are closed by that."""
        items = []
        for host in (host for hosts in self._hosts.values() for host in hosts.values()):
            kinds, bundle = tuple(unit[:2] for unit in host.units), tuple(unit.pod for unit in host.units)
            where = host.wanted, host.pins, host.pools
            items.append(Item(kinds, [bundle], *where, host.vector, host.ports, host.name))
        self._hosts, self._open = {}, {}
        return items

    def put(self, ask: _Ask, names: list[str]) -> int:
        """Put the first of these pods on one node, as many as can be; how many that was."""
        pod_class, number, wanted = ask
        class_rules = self._checker.class_rules(pod_class, number)
        spare = self._spare(pod_class, class_rules)
        shares = self._shares(pod_class, class_rules)
        names = names[: min(shares.values(), default=len(names))]
        groups, part = self._instance.topology.groups, self._parts.get(pod_class.index, -1)
        hosts = self._hosts.setdefault(part, {})
        # Nodes do not outgrow the sizes that are good for pods that come to others, while there are more.
        for within in (*(index for index in class_rules.owned if _of_hosts(groups[index])), -1):
            open_ = self._likely(hosts, (pod_class.index, number, wanted, within), class_rules)
            for name in tuple(open_):
                if any(groups[index].matched.get(name, 0) >= share for index, share in shares.items()):
                    continue
                placed = self._join(hosts[name], ask, names, spare, within)
                if placed:
                    return placed
                if placed is None and not spare.any():
                    del open_[name]
        for pools in self._checker.pools(pod_class, number, wanted):
            host = _Host(f"new-{self._made}", [], Requirements(), (), pools, np.zeros_like(spare), ())
            placed = self._join(host, ask, names, spare) or self._join(host, ask, names, np.zeros_like(spare))
            if placed:
                self._made += 1
                hosts[host.name] = host
                return placed
        return 0

    def _spare(self, pod_class: PodClass, class_rules: ClassRules) -> Amounts:
        """Room that a node must have besides the first pod: of those that have to follow it there."""
        spare = np.zeros_like(pod_class.vector)
        groups = self._instance.topology.groups
        for index in class_rules.bootstraps:
            if groups[index].id.key == HOSTNAME and not any(groups[index].matched.values()):
                near = self._concerned[index]
                followers = [other for other in near if other.levels and index in other.levels[0].owned]
                all_of_them = sum((len(other.pods) * other.vector for other in followers), -pod_class.vector)
                spare = np.maximum(spare, all_of_them)
        return spare

    @cached_property
    def _concerned(self) -> dict[int, list[PodClass]]:
        """Per group the pod classes that it counts or that own it."""
        found: dict[int, list[PodClass]] = {}
        for pod_class in self._instance.pod_classes:
            owned = pod_class.levels[0].owned if pod_class.levels else ()
            for index in dict.fromkeys((*pod_class.matching, *owned)):
                found.setdefault(index, []).append(pod_class)
        return found

    @cached_property
    def _parts(self) -> dict[int, int]:
        """Per pod class the first of those that affinities to pods on the same node tie it to."""
        parts: dict[int, set[int]] = {}
        for group, near in self._concerned.items():
            if _of_hosts(self._instance.topology.groups[group]):
                tied = {each for one in near for each in parts.get(one.index, (one.index,))}
                parts.update(dict.fromkeys(tied, tied))
        return {index: min(tied) for index, tied in parts.items()}

    def _shares(self, pod_class: PodClass, class_rules: ClassRules) -> dict[int, int]:
        """Per affinity to these pods, how many of them a node should take, so that others find capacity
        there.
        """
        groups, owned = self._instance.topology.groups, class_rules.owned
        mine = [index for index in pod_class.matching if index not in owned and _of_hosts(groups[index])]
        apart = mine and self._apart and self._checker.followers(pod_class).any()
        return {index: 1 if apart else self._evenly(index)[0] for index in mine}

    def _evenly(self, index: int) -> tuple[int, Amounts]:
        """How many pods of an affinity each of the nodes for all of its pods takes, and capacities (N, R) of
        types that hold them for about as little as any; the largest may cost many times as much.
        """
        if index not in self._affinities:
            near, (capacity, price) = self._concerned[index], self._sizes
            total = np.sum([len(other.pods) * other.vector for other in near], axis=0)
            parts = np.max(total / np.maximum(capacity, 1), axis=1, initial=0.0)
            cost = parts * price
            good = cost <= cost.min(initial=np.inf) * (1 + LITTLE)
            pods = sum(len(other.pods) for other in near if index in other.matching)
            share = max(1, int(pods // np.ceil(parts[good].min(initial=UNLIMITED))))
            self._affinities[index] = share, capacity[good]
        return self._affinities[index]

    @cached_property
    def _sizes(self) -> tuple[Amounts, Floats]:
        """The capacity of each type (N, R), and what the cheapest costs that is sold of it, if any, (N,)."""
        tables = self._instance.tables
        if not tables:
            return self._instance.nodes.capacity[:0], np.zeros(0)
        price = [np.full(len(table.types), np.inf) for table in tables]
        for least, table in zip(price, tables, strict=True):
            np.minimum.at(least, table.column_type, table.price)
        return np.concatenate([table.capacity for table in tables]), np.concatenate(price)

    def _likely(self, mine: dict[str, _Host], key: _Key, class_rules: ClassRules) -> dict[str, None]:
        """Of these nodes those that can still take such a pod, where those are that it wants to be near."""
        groups = self._instance.topology.groups
        hosts = (index for index in class_rules.owned if _of_hosts(groups[index]))
        near = next((index for index in hosts if any(groups[index].matched.values())), -1)
        known = mine if near < 0 else groups[near].matched  # both only grow until the nodes are closed
        open_, seen = self._open.get((key, near), ({}, 0))
        fresh = [name for name in islice(reversed(known), len(known) - seen) if name in mine]
        open_.update(dict.fromkeys(reversed(fresh)))
        self._open[key, near] = open_, len(known)
        return open_

    def _join(self, host: _Host, ask: _Ask, names: list[str], spare: Amounts, within: int = -1) -> int | None:
        """Add pods to a node, pinning what their rules look at; how many. None: none ever can.

        `spare` must be left on it for others that will follow. It is not to outgrow all sizes that are good
        for the pods of the affinity `within`.
        """
        instance, checker, (pod_class, number, wanted) = self._instance, self._checker, ask
        class_rules = checker.class_rules(pod_class, number)
        # Pods only come to a node, they do not leave it.
        if ports_conflict(pod_class.ports, host.ports) or checker.kept_apart(
            pod_class, class_rules, host.name
        ):
            return None
        if not host.wanted.overlaps(wanted):
            return None
        known = dict(host.pins)
        keys = tuple(key for key in class_rules.keys if key not in known)
        if not keys:
            domain_of = lookup((*host.pins, (HOSTNAME, host.name)))
            if checker.refused(pod_class, class_rules.owned, domain_of, skip_hosts=False):
                instance.work.spend(1)
                return 0
        demands = wanted.add(*host.wanted)  # a pin is no demand: the pool's offerings have it
        both = demands.add(*pinned(host.pins))
        rules = pod_class.levels[number].rules
        pools = tuple(pool for pool in host.pools if instance.suits_pinned(pool, demands, host.pins, rules))
        count = self._most(host, pod_class, class_rules, len(names))
        while True:
            vector = host.vector + count * pod_class.vector
            small = within < 0 or np.all(vector <= self._evenly(within)[1], axis=1).any()
            places = instance.places(pools, both, vector + spare, keys) if small else []
            if self._scatter and not host.units:
                crowd = {place.pins: self._scatter.crowd(pod_class, lookup(place.pins)) for place in places}
                places = sorted(places, key=lambda place: crowd[place.pins])
            for place in places:
                instance.work.spend(1)
                domain_of = lookup((*host.pins, *place.pins, (HOSTNAME, host.name)))
                if checker.refused(pod_class, class_rules.owned, domain_of, skip_hosts=False):
                    continue
                host.pins = tuple(sorted((*host.pins, *place.pins)))
                host.pools, host.vector, host.ports = place.pools, vector, (*host.ports, *pod_class.ports)
                host.wanted = demands
                host.units += [Unit(pod_class.index, number, name) for name in names[:count]]
                ground = checker.ground(host.pools, host.wanted, host.pins)
                checker.count(pod_class, number, domain_of, count, ground)
                if self._scatter:
                    self._scatter.placed(pod_class, domain_of, count)
                return count
            if count == 1:
                return 0 if places else None
            count //= 2

    def _most(self, host: _Host, pod_class: PodClass, class_rules: ClassRules, pods: int) -> int:
        alone = pod_class.ports or class_rules.spreads or class_rules.self_repelling
        if alone or not self._checker.settled(class_rules):
            return 1
        return max(1, min(pods, self._checker.most_on_host(pod_class, class_rules, host.name)))


def _of_hosts(group: Group) -> bool:
    """True iff it is an affinity to pods on the same node."""
    return group.id.kind == AFFINITY and group.id.key == HOSTNAME
