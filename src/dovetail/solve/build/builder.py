"""Pods put into a plan one at a time, each by the rules of that moment, so whatever comes of it is legal.

Insertion: domains are decided before nodes are bought, so what limits refuse or rules make impossible shows
late. Each pod that is left over is tried, with less and less of its preferences, on nodes that exist, on
those that are bought (which may become larger), and on one more node.

Guided construction: an answer of the topology bound says which pods share which node and holds in the end,
but rules ask for an order in which pods come. Each pod is put into its place as often as that brings another
one in. Where pods remain there is no such plan. A move is the same with some pods that look for other places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import factorial

import numpy as np

from dovetail.model.arrays import ENDLESS
from dovetail.model.labels import HOSTNAME
from dovetail.model.ports import port_error
from dovetail.model.requirement import Requirements
from dovetail.solve.assign.items import Item, Unit
from dovetail.solve.assign.topology_rules import Opened
from dovetail.solve.bound.topology_model import TargetNode
from dovetail.solve.budget import LEAST, LITTLE
from dovetail.solve.build.plan_state import Part, PlannedNode, PlanState, Site
from dovetail.solve.instance.instance import Instance, lookup, pinned
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.instance.pod_classes import PodClass
from dovetail.solve.instance.topology import SPREAD, Pins
from dovetail.solve.pack.node_candidate import NodeCandidate, make_candidate
from dovetail.solve.tolerances import SEVERAL


@dataclass(frozen=True, slots=True)
class Attempt:
    """One pod with the demands of one level."""

    pod_class: PodClass
    number: int
    wanted: Requirements
    pod: str
    pools: tuple[int, ...] = ()  # where a node may be bought for it, the lightest first, if that is promised


@dataclass(frozen=True, slots=True)
class Offer:
    """A node as it would be with the pod on it."""

    made: NodeCandidate
    pins: Pins
    item: Item
    dearer: int  # nano-dollars per hour


@dataclass(frozen=True, slots=True)
class Guide:
    """What the next places must not contradict."""

    labels: Mapping[str, str] = field(default_factory=dict)  # that an answer has for the node
    # (row or site, pod): where pods have just left.
    rows: frozenset[tuple[int, str]] = frozenset()
    sites: frozenset[tuple[str, str]] = frozenset()


_FREE = Guide()


class PlanBuilder:
    """Puts pods into a plan. Invariant: what `plan_state` and `existing` hold is correct after every pod."""

    def __init__(
        self,
        plan_state: PlanState,
        columns: OfferingsTable,
        existing: Mapping[int, Sequence[Unit]],
        *,
        most: int = ENDLESS,
    ) -> None:
        """`most`: units of work until it is given up."""
        self.plan_state = plan_state
        self.instance = plan_state.instance
        self.existing = {row: list(units) for row, units in existing.items()}
        self.guide = _FREE
        self._columns = columns
        self._end = self.instance.work.used + most

    @property
    def bought(self) -> list[PlannedNode]:
        """The nodes to buy, as they are now."""
        return [site.planned for site in self.plan_state.sites]

    @property
    def over(self) -> bool:
        """True iff it has taken too long."""
        work = self.instance.work
        return work.time_over or work.used > self._end

    def insert(self, left: Sequence[tuple[int, str]], *, bought_first: bool = True) -> list[tuple[int, str]]:
        """Place what can be, until none can be any more; the rest.

        On a bought node before a new one if `bought_first`; else on whichever becomes the least dearer.
        """
        place_at = self._place_at if bought_first else self._place_cheapest
        work = self.instance.work
        enough = min(self._end, work.used + max(LEAST, int(LITTLE * work.rest)))
        waiting, before = list(left), len(left) + 1
        while len(waiting) < before:
            before = len(waiting)
            still: list[tuple[int, str]] = []
            hopeless: set[int] = set()  # pod classes
            for index, pod in waiting:
                pod_class = self.instance.pod_classes[index]
                if index in hopeless or work.used > enough or work.time_over:
                    still.append((index, pod))
                elif not self._place(pod_class, pod, place_at):
                    hopeless.add(index)
                    still.append((index, pod))
            waiting = still
        return waiting

    def shrink(self, site: Site) -> None:
        """Some of a node's pods were taken back: buy what is enough for the others."""
        made, limits = site.planned.made, self.plan_state.limits
        limits.give_back(made)
        items, counts = _pattern(site.planned.parts)
        for column in self._columns_of((made.pool,)):
            smaller = make_candidate(self.instance, self._columns, limits, items, (column, counts, None))
            if smaller is not None and smaller.price < site.planned.made.price:
                site.planned = PlannedNode(smaller, site.planned.parts)
        limits.take(site.planned.made)
        self.plan_state.settle(site)

    def _place(self, pod_class: PodClass, pod: str, place_at: Callable[[Attempt], bool]) -> bool:
        return any(
            place_at(Attempt(pod_class, number, wanted, pod))
            for number, level in enumerate(pod_class.levels)
            for wanted in level.alternatives
        )

    def _place_at(self, attempt: Attempt) -> bool:
        return self._on_node(attempt) or self._on_site(attempt) or self._on_new(attempt)

    def _place_cheapest(self, attempt: Attempt) -> bool:
        if self._on_node(attempt):
            return True
        grown, new = self._best_site(attempt), self._best_new(attempt)
        if grown is not None and (new is None or grown[0].dearer <= new.dearer):
            self.grow(attempt, grown[1], grown[0])
        elif new is not None:
            self.buy(attempt, new)
        return grown is not None or new is not None

    def _on_node(self, attempt: Attempt) -> bool:
        nodes, pod_class = self.instance.nodes, attempt.pod_class
        level = pod_class.levels[attempt.number]
        for row in nodes.candidates(attempt.wanted, level.rules, pod_class.vector):
            if self.put(attempt, row):
                return True
        return False

    def put(self, attempt: Attempt, row: int) -> bool:
        """Put the pod on an existing node that suits it, if there is capacity and no other pod objects."""
        nodes, checker, pod_class = self.instance.nodes, self.plan_state.checker, attempt.pod_class
        if (row, attempt.pod) in self.guide.rows:
            return False
        self.instance.work.spend(1)
        domain_of = self.plan_state.domain_of(row)
        owned = pod_class.levels[attempt.number].owned
        if not nodes.accepts(row, pod_class) or checker.refused(
            pod_class, owned, domain_of, skip_hosts=False
        ):
            return False
        nodes.place(row, pod_class)
        self.existing.setdefault(row, []).append(Unit(pod_class.index, attempt.number, attempt.pod))
        checker.count(pod_class, attempt.number, domain_of, 1, checker.node_ground(row))
        return True

    def _on_site(self, attempt: Attempt) -> bool:
        """Put the pod on the bought node that becomes the least dearer by it."""
        best = self._best_site(attempt)
        if best is not None:
            self.grow(attempt, best[1], best[0])
        return best is not None

    def _best_site(self, attempt: Attempt) -> tuple[Offer, Site] | None:
        offers = [
            (offer.dearer, position, offer)
            for position, site in self._open_sites(attempt)
            if not self.instance.work.time_over and (offer := self.grown(attempt, site)) is not None
        ]
        if not offers:
            return None
        _, position, offer = min(offers, key=lambda each: each[:2])
        return offer, self.plan_state.sites[position]

    def _open_sites(self, attempt: Attempt) -> Iterator[tuple[int, Site]]:
        """Bought nodes without those that a glance at rules between pods tells to be closed to the pod."""
        checker, pod_class, groups = self.plan_state.checker, attempt.pod_class, self.instance.topology.groups
        owned, matching = pod_class.levels[attempt.number].owned, pod_class.matching
        keys = checker.class_rules(pod_class, attempt.number).keys
        pools, wide = tuple(range(len(self.instance.tables))), tuple(key for key in keys if key != HOSTNAME)
        places = [place.pins for place in self.instance.places(pools, attempt.wanted, pod_class.vector, wide)]
        known = all(value for pins in places for _, value in pins)  # else pods there may have settled it
        if known and all(checker.refused(pod_class, owned, lookup(pins), skip_hosts=True) for pins in places):
            return
        mine = [index for index in owned if groups[index].id.key == HOSTNAME]
        foes = [groups[index] for index in matching if groups[index].id.key == HOSTNAME]
        foes = [group for group in foes if any(group.owners.values())]
        for position, site in enumerate(self.plan_state.sites):
            agreed = all(groups[at].allows_owner(site.name, itself=at in matching) for at in mine)
            if agreed and all(group.allows_matched(site.name) for group in foes):
                yield position, site

    def grow(self, attempt: Attempt, site: Site, offer: Offer) -> None:
        self.plan_state.limits.give_back(site.planned.made)
        site.planned = PlannedNode(offer.made, (*site.planned.parts, (offer.item, [(attempt.pod,)])))
        self._settle(site, offer)

    def grown(self, attempt: Attempt, site: Site) -> Offer | None:
        """The bought node with the pod on it, None if it cannot be there."""
        if (site.name, attempt.pod) in self.guide.sites:
            return None
        made, pod_class = site.planned.made, attempt.pod_class
        self.instance.work.spend(1)
        taken = [port for item, _ in site.planned.parts for port in item.ports]
        if pod_class.ports and port_error(pod_class.ports, taken):
            return None
        # An empty intersection would read as "the label must be absent".
        if not all(item.wanted.overlaps(attempt.wanted) for item, _ in site.planned.parts):
            return None
        demands = Requirements.of((*site.demands(), *attempt.wanted))
        both = Requirements.of((*demands, *pinned(site.pins)))
        rules = pod_class.levels[attempt.number].rules
        if not self.instance.suits_pinned(made.pool, demands, site.pins, rules):
            return None
        if not self.instance.free_of_ports(made.pool, pod_class.ports):
            return None
        limits = self.plan_state.limits
        limits.give_back(made)
        found = self.cheapest(attempt, (made.pool,), (both, site))
        limits.take(made)
        return found

    def _on_new(self, attempt: Attempt) -> bool:
        """Buy one more node for the pod."""
        offer = self._best_new(attempt)
        if offer is not None:
            self.buy(attempt, offer)
        return offer is not None

    def _best_new(self, attempt: Attempt) -> Offer | None:
        """From the heaviest pools that have one."""
        for pools in self.plan_state.checker.pools(attempt.pod_class, attempt.number, attempt.wanted):
            offer = self.cheapest(attempt, pools, (attempt.wanted, None))
            if offer is not None:
                return offer
        return None

    def buy(self, attempt: Attempt, offer: Offer) -> Site:
        made = PlannedNode(offer.made, ((offer.item, [(attempt.pod,)]),))
        site = self.plan_state.site(made, offer.pins)
        self._settle(site, offer)
        return site

    def _settle(self, site: Site, offer: Offer) -> None:
        plan_state, made = self.plan_state, offer.made
        site.pins = offer.pins
        plan_state.limits.take(made)
        plan_state.add(site, offer.item, 1)
        plan_state.settle(site)

    def cheapest(
        self, attempt: Attempt, pools: tuple[int, ...], where: tuple[Requirements, Site | None]
    ) -> Offer | None:
        """The cheapest node that a site may become with the pod on it, or that may be bought for the pod."""
        both, site = where
        parts: tuple[Part, ...] = site.planned.parts if site else ()
        price = site.planned.made.price if site else 0
        # To a node that is there for others, pods of heavier pools may come.
        owned = self.owned(attempt) if site else attempt.pools
        best: Offer | None = None
        for place_pools, pins in self._places(attempt, pools, both, site):
            pod_class = attempt.pod_class
            kinds = ((pod_class.index, attempt.number),)
            item = Item(
                kinds, [(attempt.pod,)], attempt.wanted, pins, place_pools, pod_class.vector, pod_class.ports
            )
            items, counts = _pattern((*parts, (item, item.bundles)))
            for column in self._columns_of(place_pools):
                made = make_candidate(
                    self.instance, self._columns, self.plan_state.limits, items, (column, counts, None)
                )
                if made is not None and (best is None or made.price - price < best.dearer):
                    mine = replace(item, pools=owned or (made.pool,))
                    best = Offer(made, pins, mine, made.price - price)
        return best

    def owned(self, attempt: Attempt) -> tuple[int, ...]:
        """Where a node may be bought for the pod: if nothing is promised, from the heaviest that have one."""
        if attempt.pools or len(self.instance.tiers) == 1:
            return attempt.pools or self.instance.tiers[0]
        for pools in self.plan_state.checker.pools(attempt.pod_class, attempt.number, attempt.wanted):
            if any(
                self.instance.columns(pool, attempt.wanted, attempt.pod_class.vector).any() for pool in pools
            ):
                return pools
        return ()

    def _places(
        self, attempt: Attempt, pools: tuple[int, ...], both: Requirements, site: Site | None
    ) -> Iterator[tuple[tuple[int, ...], Pins]]:
        """Legal ways to pin the labels that the pod's rules look at, with the pools that allow them."""
        instance, plan_state, pod_class = self.instance, self.plan_state, attempt.pod_class
        class_rules = plan_state.checker.class_rules(pod_class, attempt.number)
        known = dict(site.pins) if site else {}
        keys = tuple(key for key in class_rules.keys if key not in known and key != HOSTNAME)
        name = site.name if site else plan_state.next_name()
        vector = pod_class.vector + site.planned.made.vector if site else pod_class.vector
        for place in instance.places(pools, both, vector, keys):
            instance.work.spend(1)
            pins = tuple(sorted((*known.items(), *place.pins)))
            domain_of = lookup((*pins, (HOSTNAME, name)))
            if plan_state.checker.refused(pod_class, class_rules.owned, domain_of, skip_hosts=False):
                continue
            if site is None and plan_state.opens_too_much(pins, attempt.wanted, place.pools[0]):
                continue
            if all(self.guide.labels.get(key, value) == value for key, value in pins):
                yield place.pools, pins

    def _columns_of(self, pools: tuple[int, ...]) -> Iterator[int]:
        """A column per pool, and one per reservation that is left there: a node's type is picked by price."""
        columns, left = self._columns, self.plan_state.limits.reservations
        for pool in pools:
            mine = columns.pool == pool
            yield from np.flatnonzero(mine & ~columns.reserved)[:1].tolist()
            seen: set[str] = set()
            for column in np.flatnonzero(mine & columns.reserved).tolist():
                name = columns.reservation[column]
                if name not in seen and left.get(name, 0) > 0:
                    seen.add(name)
                    yield column


def _pattern(parts: Sequence[Part]) -> tuple[list[Item], tuple[tuple[int, int], ...]]:
    """The items of a node, and how many bundles of each."""
    items = [item for item, _ in parts]
    return items, tuple((index, len(bundles)) for index, (_, bundles) in enumerate(parts))


def turns_of(instance: Instance, target_nodes: Sequence[TargetNode]) -> Iterator[tuple[int, ...]]:
    """Orders of pod classes that are worth a try: all where there are few pod classes. First those with a
    spread that counts only others, which may stand unevenly once these are there."""
    groups, classes = instance.topology.groups, instance.pod_classes

    def settles(index: int) -> bool:
        counted = set(classes[index].levels[0].owned).difference(classes[index].matching)
        return any(groups[group].id.kind == SPREAD for group in counted)

    pods = {pod_class for target_node in target_nodes for pod_class, *_ in target_node.pods}
    order = sorted(pods, key=lambda index: (not settles(index), index))
    every = factorial(len(order)) <= SEVERAL
    yield from permutations(order) if every else (tuple(order), tuple(reversed(order)))


def opened_by(instance: Instance, target_nodes: Sequence[TargetNode]) -> Opened:
    """Domains that new nodes of an answer open for spreads that pods there obey."""
    found: Opened = {}
    for target_node in target_nodes:
        domains = dict(target_node.domains) if target_node.row < 0 else {}
        owned = {
            index
            for pod_class, level, _ in target_node.pods
            for index in instance.pod_classes[pod_class].levels[level].owned
        }
        for index in sorted(owned):
            one = instance.topology.groups[index].id
            # What turns out not to be opened must not count as one of so many domains.
            if one.kind == SPREAD and one.min_domains < 2 and one.key in domains:
                found[one] = tuple(sorted({*found.get(one, ()), domains[one.key]}))
    return found


@dataclass(frozen=True, slots=True)
class Move:
    """Nodes with the pods that stay, and (pod class, pod) pairs that look for places, in their order."""

    target_nodes: tuple[TargetNode, ...]
    loose: tuple[tuple[int, str], ...] = ()
    turns: tuple[int, ...] = ()  # pod classes in the order in which those that stay are placed
    # (target node, pod) and (row, pod): where pods do not go back to unless there is no other place.
    left: frozenset[tuple[int, str]] = frozenset()
    left_rows: frozenset[tuple[int, str]] = frozenset()
    most: int = ENDLESS  # units of work; one that takes more is given up


class Construction:
    """Follows an answer, or makes one move: pods of target nodes first, each as the answer wants it."""

    def __init__(self, builder: PlanBuilder, move: Move) -> None:
        self._builder, self._move = builder, move
        self._instance = builder.instance
        self._pools = {
            pod: pools
            for target_node in move.target_nodes
            for (*_, pods), pools in zip(target_node.pods, target_node.owned, strict=False)
            for pod in pods
        }
        self._sites: dict[int, Site] = {}  # per target node, once it is bought
        self._patient = True  # nodes are bought for pods of their pool: visitors wait for those

    def run(self, others: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Put every pod in a place, these last; those without one."""
        builder, move = self._builder, self._move
        driven_out = [(index, pod) for _, index, _, pod in self._seated()]
        if builder.over:
            return [*move.loose, *driven_out, *others]
        left = frozenset((self._sites[at].name, pod) for at, pod in move.left if at in self._sites)
        builder.guide = Guide(rows=move.left_rows, sites=left)
        waiting = builder.insert([*move.loose, *driven_out], bought_first=False)
        builder.guide = _FREE
        return builder.insert([*waiting, *others], bought_first=False)

    def _seated(self) -> list[tuple[int, int, int, str]]:
        """Place all pods of the target nodes; (target node, pod class, level, pod) of those without a place
        as the answer wants it."""
        nodes, builder = self._move.target_nodes, self._builder
        waiting = [
            (number, pod_class, level, pod)
            for number, target_node in enumerate(nodes)
            for pod_class, level, pods in target_node.pods
            for pod in pods
        ]
        place = {pod_class: index for index, pod_class in enumerate(self._move.turns)}
        # Spreads that look at nodes alone must see the new ones before they let more pods onto the others.
        seen = builder.plan_state.seen
        waiting.sort(key=lambda each: (seen and nodes[each[0]].row >= 0, place.get(each[1], 0)))
        while waiting and not builder.over:
            rest = [each for each in waiting if builder.over or not self._seat(*each)]
            if len(rest) == len(waiting) and not self._patient:
                break
            self._patient = self._patient and len(rest) < len(waiting)
            waiting = rest
        return waiting

    def _seat(self, number: int, index: int, level: int, pod: str) -> bool:
        row, pod_class = self._move.target_nodes[number].row, self._instance.pod_classes[index]
        # What may be given up need not be: the answer may have it where another required term lets it in.
        for at in (level, *range(level)):
            for wanted in pod_class.levels[at].alternatives:
                attempt = Attempt(pod_class, at, wanted, pod, self._pools.get(pod, ()))
                if self._at_row(attempt, row) if row >= 0 else self._at_site(attempt, number):
                    return True
        return False

    def _at_row(self, attempt: Attempt, row: int) -> bool:
        rules = attempt.pod_class.levels[attempt.number].rules
        rows = self._instance.nodes.candidates(attempt.wanted, rules, attempt.pod_class.vector)
        return row in rows and self._builder.put(attempt, row)

    def _at_site(self, attempt: Attempt, number: int) -> bool:
        builder, target_node, site = self._builder, self._move.target_nodes[number], self._sites.get(number)
        builder.guide = Guide(labels=dict(target_node.domains))
        if site is not None:
            offer = builder.grown(attempt, site)
            if offer is not None:
                builder.grow(attempt, site, offer)
            return offer is not None
        if self._patient and target_node.pool not in builder.owned(attempt):
            return False
        offer = builder.cheapest(attempt, (target_node.pool,), (attempt.wanted, None))
        if offer is not None:
            self._sites[number] = builder.buy(attempt, offer)
        return offer is not None


def target_nodes_of(
    existing: Mapping[int, Sequence[Unit]], bought: Sequence[PlannedNode]
) -> Iterator[TargetNode]:
    """The nodes of a plan that it puts pods on."""
    for row, units in existing.items():
        yield TargetNode(_grouped(units), row=row)
    for planned in bought:
        pins = {pin for item, _ in planned.parts for pin in item.pins}
        units = [unit for _, unit in planned.units()]
        yield TargetNode(_grouped(units), pool=planned.made.pool, domains=tuple(sorted(pins)))


def _grouped(units: Sequence[Unit]) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
    """Pods of a node by pod class and level."""
    found: dict[tuple[int, int], list[str]] = {}
    for unit in units:
        found.setdefault((unit.pod_class, unit.level), []).append(unit.pod)
    return tuple((pod_class, level, tuple(pods)) for (pod_class, level), pods in found.items())
