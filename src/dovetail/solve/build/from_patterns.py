"""A plan made anew of patterns that the search for a proof came upon, on existing nodes and on new ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dovetail.model.arrays import Amounts
from dovetail.model.requirement import Requirements
from dovetail.solve.assign.items import Item, Unit
from dovetail.solve.bound.scope import Origin, Scope, lets_in
from dovetail.solve.build.plan_state import Part, PlannedNode
from dovetail.solve.colgen.pattern_mip import Pattern
from dovetail.solve.colgen.pricing_instance import PricingInstance
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.limits import Limits, diverse_room
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.instance.pod_classes import Level
from dovetail.solve.pack.node_candidate import make_candidate

_ItemKey = tuple[int, int, Requirements, tuple[int, ...]]


@dataclass(slots=True)
class PlanFromPatterns:
    """Where the pods of a scope go: existing nodes by row, nodes to buy, and what they leave of limits."""

    limits: Limits
    existing: dict[int, list[Unit]] = field(default_factory=dict)
    bought: list[PlannedNode] = field(default_factory=list)

    @property
    def price(self) -> int:
        """Nano-dollars per hour of the nodes to buy."""
        return sum(planned.made.price for planned in self.bought)


@dataclass(slots=True)
class _Node:
    """One node or free capacity while it is filled: `left` (R,) is its capacity, `counts` (S,) its pods."""

    column: int  # of the scope; of its free capacities if `free`
    free: bool
    left: Amounts
    counts: Amounts


def plan_from_patterns(
    supply: tuple[Instance, OfferingsTable, Limits], scope: Scope, patterns: Sequence[Pattern], price: int
) -> PlanFromPatterns | None:
    """The patterns as nodes that cost less than `price`; None where a rule that they do not know of forbids
    one.

    For pods that no rule between pods is about. The limits are those before anything was bought, and are not
    changed.
    """
    instance, columns, start = supply
    origin = scope.origin
    if origin is None or any(instance.pod_classes[pod_class].involved for pod_class, _ in origin.kinds):
        return None
    nodes = _filled(instance, columns, scope, patterns)
    made = None if nodes is None else _Maker(instance, columns, scope, origin).run(nodes, start.copy())
    return made if made is not None and made.price < price else None


def _filled(
    instance: Instance, columns: OfferingsTable, scope: Scope, patterns: Sequence[Pattern]
) -> list[_Node] | None:
    """The nodes with every pod on one; None where one finds no capacity."""
    origin, rest, nodes = scope.origin, scope.demand, []
    assert origin is not None
    column, vectors = origin.sites.column[origin.site], scope.vectors[:, : len(instance.axis.names)]
    capacity = np.maximum(diverse_room(instance, columns, vectors, column), 0)[column]
    for pattern in patterns:
        for _ in range(pattern.number):
            most = (scope.free if pattern.free else capacity)[pattern.column]
            counts = np.minimum(pattern.counts, rest)
            left = most - counts @ scope.vectors[:, : len(most)]
            held = np.flatnonzero(counts)
            clash = np.triu(scope.conflict[np.ix_(held, held)], 1).any()
            if (left < 0).any() or clash or (np.diagonal(scope.conflict) & (counts > 1)).any():
                return None
            rest = rest - counts
            nodes.append(_Node(pattern.column, pattern.free, left, counts))
    # Pods that the proof takes for worthless are in no pattern.
    for kind in np.flatnonzero(rest).tolist():
        for node in nodes:
            allowed = (scope.allowed if node.free else scope.feasible)[kind, node.column]
            while rest[kind] and allowed and _fits(scope, node, kind):
                node.counts[kind] += 1
                node.left -= scope.vectors[kind, : len(node.left)]
                rest[kind] -= 1
    return None if rest.any() else nodes


def _fits(scope: Scope, node: _Node, kind: int) -> bool:
    need = scope.vectors[kind, : len(node.left)]
    return bool((need <= node.left).all()) and not (scope.conflict[kind] & (node.counts > 0)).any()


class _Maker:
    """Turns filled nodes into purchases, each checked against every rule of a node."""

    def __init__(self, instance: Instance, columns: OfferingsTable, scope: Scope, origin: Origin) -> None:
        self._instance, self._columns, self._scope, self._origin = instance, columns, scope, origin
        self._given = [0] * len(scope.pods)
        self._items: list[Item] = []
        self._known: dict[_ItemKey, int] = {}

    def run(self, nodes: list[_Node], limits: Limits) -> PlanFromPatterns | None:
        """All of them; None as soon as one cannot be made."""
        result = PlanFromPatterns(limits)
        for node in nodes:
            if node.free and self._origin.reserved[node.column] < 0:
                units = list(self._seated(node))
                if len(units) < node.counts.sum():
                    return None
                result.existing.setdefault(node.column, []).extend(units)
                continue
            planned = self._planned(node, limits) if node.counts.any() else None
            if planned is not None:
                limits.take(planned.made)
                result.bought.append(planned)
            elif node.counts.any():
                return None
        return result

    def _levels(self, kind: int) -> list[tuple[int, Level]]:
        """The levels that keep the promises. Where limits void them, nothing is given up to save money."""
        index, last = self._origin.kinds[kind]
        levels = self._instance.pod_classes[index].levels
        most = levels[0].lost if self._scope.limits is not None else levels[last].lost
        return [(number, level) for number, level in enumerate(levels[: last + 1]) if level.lost <= most]

    def _taken(self, kind: int, number: int) -> tuple[str, ...]:
        start = self._given[kind]
        self._given[kind] += number
        return self._scope.pods[kind][start : start + number]

    def _seated(self, node: _Node) -> Iterator[Unit]:
        """The pods of an existing node that it takes, by their names."""
        nodes = self._instance.nodes
        for kind in np.flatnonzero(node.counts).tolist():
            index = self._origin.kinds[kind][0]
            pod_class = self._instance.pod_classes[index]
            if pod_class.ports or pod_class.volumes:
                return
            for number, level in self._levels(kind):
                if any(nodes.feasible(wanted, level.rules)[node.column] for wanted in level.alternatives):
                    for pod in self._taken(kind, int(node.counts[kind])):
                        yield Unit(index, number, pod)
                    break

    def _planned(self, node: _Node, limits: Limits) -> PlannedNode | None:
        origin, columns = self._origin, self._columns
        held = np.flatnonzero(node.counts)
        place = node.column if node.free else self._owned(node, held)
        if place is None:
            return None
        site = int(origin.site[place]) if not node.free else -1
        column = int(origin.reserved[place] if node.free else origin.sites.column[site])
        pattern: list[tuple[int, int]] = []
        parts: list[Part] = []
        for kind in held.tolist():
            item = self._item(kind, column, site)
            if item is None:
                return None
            pattern.append((item, int(node.counts[kind])))
            parts.append((self._items[item], [(pod,) for pod in self._taken(kind, int(node.counts[kind]))]))
        made = make_candidate(self._instance, columns, limits, self._items, (column, tuple(pattern), None))
        return None if made is None else PlannedNode(made, tuple(parts))

    def _owned(self, node: _Node, held: Amounts) -> int | None:
        """Where a node for these kinds is bought: as the pattern says, or at the cheapest for one's sake.

        Patterns may be of more pods than there are; one that is left with guests alone is none's there.
        """
        if self._origin.own[held, node.column].any():
            return node.column
        found = int(self._pricing.cheapest(node.counts[None], owned=True)[0])
        return int(self._pricing.column[found]) if found >= 0 else None

    @cached_property
    def _pricing(self) -> PricingInstance:
        return self._scope.pricing_instance()

    def _item(self, kind: int, column: int, site: int) -> int | None:
        """What a kind is bought for on a column: as the first of its levels that the node will do for."""
        instance, columns, sites = self._instance, self._columns, self._origin.sites
        index = self._origin.kinds[kind][0]
        pod_class, pool = instance.pod_classes[index], int(columns.pool[column])
        state = sites.states[pool][int(sites.state[site])] if site >= 0 else ()
        for number, level in self._levels(kind):
            for wanted in level.alternatives:
                if not lets_in(state, wanted) or not instance.suits(pool, wanted, level.rules):
                    continue
                if instance.columns(pool, wanted, pod_class.vector)[columns.column[column]]:
                    return self._numbered((index, number, wanted, self._pools(kind, pool)))
        return None

    def _pools(self, kind: int, pool: int) -> tuple[int, ...]:
        """The pools that a node is bought from for the kind: the best of those that the proof allows it."""
        names = self._scope.pools[kind]
        own = [table.index for table in self._instance.tables if table.pool.name in names]
        tiers = [tuple(each for each in tier if each in own) for tier in self._instance.tiers]
        usable = [tier for tier in tiers if tier]
        return next((tier for tier in usable if pool in tier), usable[-1])

    def _numbered(self, key: _ItemKey) -> int:
        if key not in self._known:
            index, level, wanted, pools = key
            pod_class = self._instance.pod_classes[index]
            self._known[key] = len(self._items)
            self._items.append(
                Item(((index, level),), [], wanted, (), pools, pod_class.vector, pod_class.ports)
            )
        return self._known[key]
