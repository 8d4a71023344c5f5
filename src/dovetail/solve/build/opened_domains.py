"""Domains that nodes for other pods open: a spread must count them as soon as such a node is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.model.arrays import Amounts
from dovetail.model.labels import HOSTNAME
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.spread import NodeFilter
from dovetail.solve.assign.items import Unit
from dovetail.solve.assign.topology_rules import Opened, crowded
from dovetail.solve.build.plan_state import PlannedNode
from dovetail.solve.instance.instance import Instance, pinned
from dovetail.solve.instance.topology import SPREAD, Group
from dovetail.solve.pack.node_candidate import NodeCandidate, narrowed

_NONE: frozenset[str] = frozenset()


def merged(one: Opened, other: Opened) -> Opened:
    """The domains of both."""
    keys = dict.fromkeys((*one, *other))
    return {key: tuple(sorted({*one.get(key, ()), *other.get(key, ())})) for key in keys}


class OpenedDomains:
    """Looks for such domains among nodes, as the topology counters stand."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._outside: dict[tuple[int, int], frozenset[str]] = {}
        self._sold: dict[tuple[str, int], frozenset[str]] = {}  # values that a pool's nodes may have
        self._counts: dict[tuple[NodeFilter, int, Requirements], bool] = {}  # by filter, pool and labels
        self._strained = [
            (index, group)
            for index, group in enumerate(instance.topology.groups)
            if group.id.kind == SPREAD
            and group.id.key != HOSTNAME
            and max(group.matched.values(), default=0) > group.id.max_skew
            and any(self._all_outside((index, group), table.index) for table in instance.tables)
        ]

    def surprises(self, bought: Sequence[PlannedNode]) -> Opened:
        """Domains that nodes may open and that break a spread."""
        made = [planned.made for planned, _ in _alike(bought)]
        found: Opened = {}
        for index, group in self._strained:
            fresh: set[str] = set()
            for each in made:
                fresh |= self._fresh((index, group), each.pool, each.requirements, each.vector)[0]
            if fresh:
                found[group.id] = tuple(sorted(fresh))
        return found

    def overtaken(self, existing: Mapping[int, Sequence[Unit]], bought: Sequence[PlannedNode]) -> Opened:
        """Domains that the plan's nodes open although pods stand too far ahead of them, in any order.

        Pods placed while such a domain had no node did not look at it. The last pod of a spread in a
        domain has all others of the spread there beside it, and no domain ever holds more than in the end:
        where that is too much, no order of the pods keeps the rule.
        """
        found: Opened = {}
        some = {id(planned.made): planned.made for planned in bought}.values()
        different = {(made.pool, id(made.requirements), id(made.types)): made for made in some}.values()
        opened_by: dict[tuple[str, NodeFilter], frozenset[str]] = {}
        for index, owned in sorted(self._spread_pods(existing, bought).items()):
            group = self._instance.topology.groups[index]
            before = self._instance.before[index][0]
            ahead = max(before.get(domain, 0) + pods for domain, pods in owned.items())
            if ahead <= group.id.max_skew:
                continue
            seen = group.id.key, group.id.node_filter
            if seen not in opened_by:
                opened_by[seen] = frozenset(self._lies_in(group, made) for made in different) - {""}
            opened = opened_by[seen]
            there = {*self._instance.present.domains(index), *opened}
            least = 0
            if there and len(there) >= group.id.min_domains:
                least = min(group.matched.get(domain, 0) for domain in there)
            if ahead - least > group.id.max_skew:
                found[group.id] = tuple(sorted(opened))
        return found

    def _spread_pods(
        self, existing: Mapping[int, Sequence[Unit]], bought: Sequence[PlannedNode]
    ) -> dict[int, Counter[str]]:
        """Per spread over more than a node, the domains of the plan's pods that it counts and that have to
        keep it, and how many. Takes as long as these pods have such spreads."""
        groups = self._instance.topology.groups
        known: dict[tuple[int, int], list[int]] = {}

        def kept(pod_class: int, level: int) -> list[int]:
            found = known.get((pod_class, level))
            if found is None:
                one = self._instance.pod_classes[pod_class]
                both = sorted(set(one.matching).intersection(one.levels[level].owned))
                wide = [index for index in both if groups[index].id.key != HOSTNAME]
                found = known[pod_class, level] = [index for index in wide if groups[index].id.kind == SPREAD]
            return found

        total: dict[int, Counter[str]] = {}
        for row, units in existing.items():
            for one in units:
                for index in kept(one.pod_class, one.level):
                    domain = self._instance.nodes.domain(row, groups[index].id.key)
                    total.setdefault(index, Counter())[domain] += 1
        for item, bundles in (part for planned in bought for part in planned.parts):
            pins = dict(item.pins)
            for kind in item.kinds if bundles else ():
                for index in kept(*kind):
                    total.setdefault(index, Counter())[pins.get(groups[index].id.key, "")] += len(bundles)
        return total

    def _lies_in(self, group: Group, made: NodeCandidate) -> str:
        """The domain of a bought node that the spread counts, as far as it is certain; else ''."""
        instance, table = self._instance, self._instance.tables[made.pool]
        memo = group.id.node_filter, made.pool, made.requirements
        counts = self._counts.get(memo)
        if counts is None:
            seat = table.base.add(*made.requirements)
            counts = group.id.node_filter.accepts(seat, table.pool.taints, instance.well_known)
            self._counts[memo] = counts
        key = group.id.key
        return instance.certain_value(key, made.pool, made.requirements, made.types) if counts else ""

    def unseen(
        self, bought: Sequence[PlannedNode], left: Sequence[tuple[int, str]], *, named: bool
    ) -> Opened:
        """What counts as empty after all, if spreads only looked at nodes; `left`: (pod class, pod) pairs.

        `named`: they looked at those that are bought as well, each by its name.
        """
        tables = self._instance.tables
        grounds = [
            (tables[made.pool].base.add(*made.requirements), tables[made.pool].pool.taints)
            for made in (planned.made for planned, _ in _alike(bought))
        ]
        return crowded(self._instance, [] if named else grounds, (pod_class for pod_class, _ in left))

    def kept_out(self, bought: list[PlannedNode]) -> list[PlannedNode]:
        """The nodes, kept out of domains that would break a spread where the cloud may still choose."""
        better = dict(enumerate(bought))
        for first, positions in _alike(bought):
            made = first.made
            for spread in self._strained:
                made = self._kept_out(spread, made) or made
            if made is not first.made:
                better.update((each, PlannedNode(made, bought[each].parts)) for each in positions)
        return list(better.values())

    def _kept_out(self, spread: tuple[int, Group], made: NodeCandidate) -> NodeCandidate | None:
        fresh, every = self._fresh(spread, made.pool, made.requirements, made.vector)
        if not fresh or fresh == every:
            return None
        return narrowed(self._instance, made, Requirement.new(spread[1].id.key, "NotIn", sorted(fresh)))

    def _all_outside(self, spread: tuple[int, Group], pool: int) -> frozenset[str]:
        """The domains of a pool that the spread does not count on."""
        index, group = spread
        known = self._outside.get((index, pool))
        if known is None:
            every = self._sold.get((group.id.key, pool))
            if every is None:
                table = self._instance.tables[pool]
                values = table.domains(group.id.key)
                every = frozenset([values[column] for column in np.flatnonzero(table.own).tolist()])
                self._sold[group.id.key, pool] = every
            known = self._outside[index, pool] = frozenset(every - group.universe.keys() - {""})
        return known

    def _fresh(
        self, spread: tuple[int, Group], pool: int, requirements: Requirements, vector: Amounts
    ) -> tuple[frozenset[str], frozenset[str]]:
        """The domains outside the spread that a node may come up in, and all that it may, if it counts."""
        group, outside = spread[1], self._all_outside(spread, pool)
        wanted = requirements.by_key.get(group.id.key)
        if not outside or (wanted and not wanted.complement and wanted.values.isdisjoint(outside)):
            return _NONE, _NONE
        instance, table = self._instance, self._instance.tables[pool]
        seat = table.base.add(*requirements)

        def counts(labels: Requirements) -> bool:
            return group.id.node_filter.accepts(labels, table.pool.taints, instance.well_known)

        if not counts(seat):
            return _NONE, _NONE
        values = table.domains(group.id.key)
        mask = instance.columns(pool, requirements, vector)
        every = frozenset(values[column] for column in np.flatnonzero(mask).tolist()) - {""}
        # A node that would count elsewhere may not count in one of these.
        there = {value: seat.add(*pinned(((group.id.key, value),))) for value in every & outside}
        return frozenset(value for value, labels in there.items() if counts(labels)), every


def _alike(bought: Sequence[PlannedNode]) -> list[tuple[PlannedNode, list[int]]]:
    """The nodes, once each where alike ones follow one another, with the positions of all of them."""
    found: list[tuple[PlannedNode, list[int]]] = []
    for position, planned in enumerate(bought):
        if found and planned.made.alike(found[-1][0].made):
            found[-1][1].append(position)
        else:
            found.append((planned, [position]))
    return found
