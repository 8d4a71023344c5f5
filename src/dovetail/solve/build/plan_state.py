"""Planned nodes with their pods, and the counters once they stand.

Each pod counts on its own node, and open is what can still be bought.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.model.requirement import Requirements
from dovetail.model.spread import NodeFilter
from dovetail.solve.assign.items import Item, Unit
from dovetail.solve.assign.topology_rules import Opened, RuleChecker, restart
from dovetail.solve.bound.scope import Placement
from dovetail.solve.instance.instance import Instance, expanded, lookup
from dovetail.solve.instance.limits import Limits
from dovetail.solve.instance.pod_classes import PodClass
from dovetail.solve.instance.topology import SPREAD, DomainOf, Group, Pins
from dovetail.solve.pack.node_candidate import NodeCandidate

# Some bundles of an item.
Part = tuple[Item, list[tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node to buy, and what it was bought for. The bundles count as `parts`, whatever `made` says."""

    made: NodeCandidate
    parts: tuple[Part, ...]

    def pods(self) -> tuple[str, ...]:
        """All pods on it, sorted."""
        return tuple(sorted([pod for _, bundles in self.parts for bundle in bundles for pod in bundle]))

    def units(self) -> Iterator[tuple[Item, Unit]]:
        """Every pod on it, with what it was bought for as."""
        for item, bundles in self.parts:
            for bundle in bundles:
                for unit in item.units(bundle):
                    yield item, unit

    def placements(self) -> Iterator[Placement]:
        """Its pods by pod class and level, with the pools that a node could be bought from for them."""
        self_repelling = all(self.made.pool not in item.pools for item, _ in self.parts)
        for item, bundles in self.parts:
            # Where no pod is left that the pool was right for, it has to be right for all.
            pools = (self.made.pool,) if self_repelling else item.pools
            for (pod_class, level), pods in zip(item.kinds, zip(*bundles, strict=True), strict=True):
                yield Placement(pod_class, level, pools, pods, self.made.pool)

    def without(self, gone: Collection[str], pod_classes: Sequence[PodClass]) -> PlannedNode | None:
        """The node without some of its pods; None if it is empty then."""
        if all(map(frozenset(gone).isdisjoint, (bundle for _, bundles in self.parts for bundle in bundles))):
            return self
        units = list(self.units())
        leaving = [pod_classes[unit.pod_class].vector for _, unit in units if unit.pod in gone]
        if len(leaving) == len(units):
            return None
        parts: list[Part] = [
            (replace(item, kinds=((unit.pod_class, unit.level),)), [(unit.pod,)])
            for item, unit in units
            if unit.pod not in gone
        ]
        vector = self.made.vector - sum(leaving[1:], leaving[0])
        return PlannedNode(replace(self.made, vector=vector), tuple(parts))


@dataclass(slots=True)
class Site:
    """A node that is bought, by the name that it has until the plan is written."""

    name: str
    planned: PlannedNode
    pins: Pins

    @property
    def domain_of(self) -> DomainOf:
        """Where its pods count: all labels that rules about them look at are pinned."""
        return lookup((*self.pins, (HOSTNAME, self.name)))

    def demands(self) -> Requirements:
        """What its pods demand of it, without the pins that its pool's offerings have anyway."""
        different = dict.fromkeys(item.wanted for item, _ in self.planned.parts)
        return Requirements.of(each for wanted in different for each in wanted)


class PlanState:
    """Invariant: counters hold all pods that have a place; spreads look at what is there or still open."""

    def __init__(self, instance: Instance, limits: Limits, opened: Opened, *, seen: bool = False) -> None:
        """`seen`: spreads look at no other domains than those of nodes, and those `opened`."""
        self.instance = instance
        self.seen = seen
        self._known = opened if seen else None
        self.limits = limits
        self.sites: list[Site] = []
        restart(instance, opened, seen=seen)
        self.checker = RuleChecker(instance)
        self._spreads = [
            (index, group) for index, group in enumerate(instance.topology.groups) if group.id.kind == SPREAD
        ]
        # Spreads over the same label that count the same nodes are looked at together.
        self._alike: dict[str, dict[NodeFilter, list[int]]] = {}
        for index, group in self._spreads:
            self._alike.setdefault(group.id.key, {}).setdefault(group.id.node_filter, []).append(index)
        self._owners = self._by_spread(instance.pod_classes)
        # Domains of nodes that count, per spread: there, whatever may be bought. Alike ones share them.
        self._there = {
            index: there
            for filters in self._alike.values()
            for spreads in filters.values()
            for there in [dict(instance.present.domains(spreads[0]))]
            for index in spreads
        }
        self._allowed: list[bytes] = []  # columns, per pool, at the last look

    def count(self, existing: Mapping[int, Sequence[Unit]], bought: Iterable[PlannedNode]) -> None:
        """Count what has a place, and look what may still be bought."""
        instance = self.instance
        for row, units in existing.items():
            for unit in units:
                pod_class = instance.pod_classes[unit.pod_class]
                instance.nodes.place(row, pod_class)
                self.checker.count(
                    pod_class, unit.level, self.domain_of(row), 1, self.checker.node_ground(row)
                )
        for planned in bought:
            pins = {pin for item, _ in planned.parts for pin in item.pins}
            site = self.site(planned, tuple(sorted(pins)))
            for item, bundles in planned.parts:
                self.add(site, item, len(bundles))
            self._note(site)
        self.refresh()

    def domain_of(self, row: int) -> DomainOf:
        """The domains of a node that exists."""
        return lambda key: self.instance.nodes.domain(row, key)

    def site(self, planned: PlannedNode, pins: Pins) -> Site:
        """One more bought node, whose pods are not counted yet."""
        site = Site(self.next_name(), planned, pins)
        self.sites.append(site)
        return site

    def next_name(self) -> str:
        """The host name that the next site will have."""
        return f"bought-{len(self.sites)}"

    def add(self, site: Site, item: Item, bundles: int) -> None:
        """Count so many bundles on a bought node."""
        ground = self.checker.ground((site.planned.made.pool,), item.wanted, site.pins)
        domain_of = site.domain_of
        for pod_class, level in item.kinds:
            self.checker.count(self.instance.pod_classes[pod_class], level, domain_of, bundles, ground)

    def settle(self, site: Site) -> None:
        """A site is new or became another node: look which domains are there, and which are still open."""
        self._note(site)
        self.refresh()

    def refresh(self) -> None:
        """Put the universes right. The judge is a new one: rules over hosts may have closed."""
        allowed = [self.limits.open(table.index).tobytes() for table in self.instance.tables]
        fresh = allowed != self._allowed
        self._allowed = allowed
        for index, group in self._spreads:
            there = self._there[index]
            host = group.id.key == HOSTNAME
            if fresh:
                found = self._beyond(index, group)
                if host:
                    group.closed = bool(there) and not found
                else:
                    group.universe = {**there, **{domain: None for domain in found if domain}}
            elif not host:
                group.universe.update(there)
            if host and group.closed:  # an open one's hosts are no matter
                group.universe = dict(there)
        self.checker = RuleChecker(self.instance)

    def _beyond(self, index: int, group: Group) -> list[str]:
        """The domains that one more node could open."""
        if self._known is not None and self._there[index]:
            return sorted(self._known.get(group.id, ()))
        key = group.id.key
        return sorted({domain for pod_class in self._owners[index] for domain in self._open(pod_class, key)})

    def opens_too_much(self, pins: Pins, wanted: Requirements, pool: int) -> bool:
        """True iff a new node would be an empty domain of a spread whose pods stand too far ahead of it."""
        ground = self.checker.ground((pool,), wanted, pins)
        domain_of = lookup((*pins, (HOSTNAME, self.next_name())))
        for index, group in self._spreads:
            domain = domain_of(group.id.key)
            if not domain or domain in group.universe or (group.id.key == HOSTNAME and not group.closed):
                continue
            # Hosts where none of these pods was added are no matter.
            before = self.instance.before[index][0] if group.id.key == HOSTNAME else {}
            ours = (count for name, count in group.matched.items() if count != before.get(name))
            ahead = max(ours, default=0) > group.id.max_skew
            if ahead and group.id.node_filter.accepts(*ground, self.instance.well_known):
                return True
        return False

    def _by_spread(self, pod_classes: Iterable[PodClass]) -> dict[int, list[PodClass]]:
        """Whose pods are spread, per spread."""
        owners: dict[int, list[PodClass]] = {index: [] for index, _ in self._spreads}
        for pod_class in pod_classes:
            for index in dict.fromkeys(index for level in pod_class.levels for index in level.owned):
                if index in owners:
                    owners[index].append(pod_class)
        return owners

    def _note(self, site: Site) -> None:
        """Its domains are there for the spreads that count it, as far as it is certain which these are."""
        made, instance = site.planned.made, self.instance
        domain_of, ground = site.domain_of, self.checker.ground((made.pool,), made.requirements, ())
        for key, filters in self._alike.items():
            domain = domain_of(key)
            if not domain:
                domain = instance.certain_value(key, made.pool, made.requirements, made.types)
            for node_filter, spreads in filters.items() if domain else ():
                if node_filter.accepts(*ground, instance.well_known):
                    self._there[spreads[0]].setdefault(domain)
                elif key == HOSTNAME:
                    # A site that may be anywhere counts until it turns out to be where it does not.
                    self._there[spreads[0]].pop(domain, None)

    def _open(self, pod_class: PodClass, key: str) -> Iterator[str]:
        """Domains that the limits still allow a node in for such a pod; '' where the value is not known."""
        instance = self.instance
        for table in instance.tables if pod_class.levels else ():
            still = self.limits.open(table.index)
            for wanted in pod_class.required if still.any() else ():
                if not instance.suits(table.index, wanted, pod_class.levels[-1].rules):
                    continue
                mask = instance.columns(table.index, wanted, pod_class.vector) & still
                codes, values = table.combinations((key,))
                both = table.base.add(*wanted)
                for code in np.unique(codes[mask]).tolist():
                    yield from (pins[0][1] for pins in expanded(((key, values[code][0]),), both))
