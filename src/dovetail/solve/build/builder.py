"""Pods put into a plan one at a time, each by the rules of that moment, so whatever comes of it is legal.

Insertion: domains are decided before nodes are bought, so what limits refuse or rules make impossible shows
late. Each pod that is left over is tried, with less and less of its preferences, on nodes that exist, on
those that are bought (which may become larger), and on one more node.

Guided construction: an answer of the topology bound says which pods share which node and holds in the end,
but rules ask for an order in which pods come. Each pod is put into its place as often as that brings another
one in. Where pods remain there is no such plan. A move is the same with some pods that look for other places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.model.requirement import Requirements
from dovetail.solve.assign.items import Item, Unit
from dovetail.solve.assign.topology_rules import Opened
from dovetail.solve.bound.topology_model import Berth
from dovetail.solve.build.plan_state import Part, Purchase, Site, Standing
from dovetail.solve.instance.instance import World, lookup
from dovetail.solve.instance.matching import ports_conflict
from dovetail.solve.instance.offerings import Columns
from dovetail.solve.instance.pod_classes import Shape
from dovetail.solve.instance.topology import SPREAD, Pins
from dovetail.solve.pack.node_candidate import Bin, make_bin

_SHARE = 0.3  # of the work that is left
_LEAST = 10_000  # units that are spent in any case, unless the time is over: nobody is left out to save money
ENDLESS = 1 << 62  # units of work


@dataclass(frozen=True, slots=True)
class Attempt:
    """One pod with the demands of one level."""

    shape: Shape
    number: int
    wanted: Requirements
    pod: str
    pools: tuple[int, ...] = ()  # where a node may be bought for it, the lightest first, if that is promised


@dataclass(frozen=True, slots=True)
class Offer:
    """A node as it would be with the pod on it."""

    made: Bin
    pins: Pins
    item: Item
    dearer: int  # nano-dollars per hour


class Latecomers:
    """Invariant: the plan in `standing` and `existing` is correct after every pod."""

    def __init__(self, standing: Standing, columns: Columns, existing: Mapping[int, Sequence[Unit]]) -> None:
        self._standing = standing
        self._world = standing.world
        self._columns = columns
        self.existing = {row: list(units) for row, units in existing.items()}
        self._end = ENDLESS  # units of work that may have been used when it is given up

    def run(self, left: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Place what can be, until nobody can be any more; the rest."""
        work = self._world.work
        enough = min(self._end, work.used + max(_LEAST, int(_SHARE * work.rest)))
        waiting, before = list(left), len(left) + 1
        while len(waiting) < before:
            before = len(waiting)
            still: list[tuple[int, str]] = []
            hopeless: set[int] = set()  # shapes
            for index, pod in waiting:
                shape = self._world.shapes[index]
                if index in hopeless or work.used > enough or work.late:
                    still.append((index, pod))
                elif not self._place(shape, pod):
                    hopeless.add(index)
                    still.append((index, pod))
            waiting = still
        return waiting

    def shrink(self, site: Site) -> None:
        """Some of a node's pods were taken back: buy what is enough for the others."""
        made, limits = site.purchase.made, self._standing.limits
        limits.give_back(made)
        items, counts = _load(site.purchase.parts)
        for column in self._columns_of((made.pool,)):
            smaller = make_bin(self._world, self._columns, limits, items, (column, counts))
            if smaller is not None and smaller.price < site.purchase.made.price:
                site.purchase = Purchase(smaller, site.purchase.parts)
        limits.take(site.purchase.made)
        self._standing.settle(site)

    def _place(self, shape: Shape, pod: str) -> bool:
        for number, level in enumerate(shape.levels):
            for wanted in level.alternatives:
                attempt = Attempt(shape, number, wanted, pod)
                if self._place_at(attempt):
                    return True
        return False

    def _place_at(self, attempt: Attempt) -> bool:
        return self._on_node(attempt) or self._on_site(attempt) or self._on_new(attempt)

    def _on_node(self, attempt: Attempt) -> bool:
        nodes, shape = self._world.nodes, attempt.shape
        level = shape.levels[attempt.number]
        for row in nodes.candidates(attempt.wanted, level.rules, shape.vector):
            if self._put(attempt, row):
                return True
        return False

    def _put(self, attempt: Attempt, row: int) -> bool:
        """Put the pod on an existing node that suits it, if there is room and no other pod objects."""
        nodes, judge, shape = self._world.nodes, self._standing.judge, attempt.shape
        self._world.work.spend(1)
        domain_of = self._standing.domain_of(row)
        owned = shape.levels[attempt.number].owned
        if not nodes.accepts(row, shape) or judge.refused(shape, owned, domain_of, skip_hosts=False):
            return False
        nodes.place(row, shape)
        self.existing.setdefault(row, []).append(Unit(shape.index, attempt.number, attempt.pod))
        judge.count(shape, attempt.number, domain_of, 1, judge.node_ground(row))
        return True

    def _on_site(self, attempt: Attempt) -> bool:
        """Put the pod on the bought node that becomes the least dearer by it."""
        best = self._best_site(attempt)
        if best is not None:
            self._grow(attempt, best[1], best[0])
        return best is not None

    def _best_site(self, attempt: Attempt) -> tuple[Offer, Site] | None:
        offers = [
            (offer.dearer, position, offer)
            for position, site in enumerate(self._standing.sites)
            if (offer := self._grown(attempt, site)) is not None
        ]
        if not offers:
            return None
        _, position, offer = min(offers, key=lambda each: each[:2])
        return offer, self._standing.sites[position]

    def _grow(self, attempt: Attempt, site: Site, offer: Offer) -> None:
        limits = self._standing.limits
        limits.give_back(site.purchase.made)
        site.purchase = Purchase(offer.made, (*site.purchase.parts, (offer.item, [(attempt.pod,)])))
        self._settle(site, offer)

    def _grown(self, attempt: Attempt, site: Site) -> Offer | None:
        """The bought node with the pod on it, None if it cannot be there."""
        made, shape = site.purchase.made, attempt.shape
        self._world.work.spend(1)
        taken = [port for item, _ in site.purchase.parts for port in item.ports]
        if shape.ports and ports_conflict(shape.ports, tuple(taken)):
            return None
        both = Requirements.of((*site.wanted(), *attempt.wanted))
        rules = shape.levels[attempt.number].rules
        if not self._world.suits(made.pool, both, rules):
            return None
        if not self._world.free_of_ports(made.pool, shape.ports):
            return None
        limits = self._standing.limits
        limits.give_back(made)
        found = self._cheapest(attempt, (made.pool,), (both, site))
        limits.take(made)
        return found

    def _on_new(self, attempt: Attempt) -> bool:
        """Buy one more node for the pod."""
        offer = self._best_new(attempt)
        if offer is not None:
            self._buy(attempt, offer)
        return offer is not None

    def _best_new(self, attempt: Attempt) -> Offer | None:
        """From the heaviest pools that have one."""
        for pools in self._standing.judge.pools(attempt.shape, attempt.number, attempt.wanted):
            offer = self._cheapest(attempt, pools, (attempt.wanted, None))
            if offer is not None:
                return offer
        return None

    def _buy(self, attempt: Attempt, offer: Offer) -> Site:
        made = Purchase(offer.made, ((offer.item, [(attempt.pod,)]),))
        site = self._standing.site(made, offer.pins)
        self._settle(site, offer)
        return site

    def _settle(self, site: Site, offer: Offer) -> None:
        standing, made = self._standing, offer.made
        site.pins = offer.pins
        standing.limits.take(made)
        standing.add(site, offer.item, 1)
        standing.settle(site)

    def _cheapest(
        self, attempt: Attempt, pools: tuple[int, ...], where: tuple[Requirements, Site | None]
    ) -> Offer | None:
        """The cheapest node that a site may become with the pod on it, or that may be bought for the pod."""
        both, site = where
        parts: tuple[Part, ...] = site.purchase.parts if site else ()
        price = site.purchase.made.price if site else 0
        # To a node that is there for others, pods of heavier pools may come.
        owned = self._owned(attempt) if site else attempt.pools
        best: Offer | None = None
        for place_pools, pins in self._places(attempt, pools, both, site):
            shape = attempt.shape
            kinds = ((shape.index, attempt.number),)
            item = Item(kinds, [(attempt.pod,)], attempt.wanted, pins, place_pools, shape.vector, shape.ports)
            items, counts = _load((*parts, (item, item.bundles)))
            for column in self._columns_of(place_pools):
                made = make_bin(self._world, self._columns, self._standing.limits, items, (column, counts))
                if made is not None and (best is None or made.price - price < best.dearer):
                    mine = replace(item, pools=owned or (made.pool,))
                    best = Offer(made, pins, mine, made.price - price)
        return best

    def _owned(self, attempt: Attempt) -> tuple[int, ...]:
        """Where a node may be bought for the pod: if nothing is promised, from the heaviest that have one."""
        if attempt.pools or len(self._world.tiers) == 1:
            return attempt.pools or self._world.tiers[0]
        for pools in self._standing.judge.pools(attempt.shape, attempt.number, attempt.wanted):
            if any(self._world.columns(pool, attempt.wanted, attempt.shape.vector).any() for pool in pools):
                return pools
        return ()

    def _places(
        self, attempt: Attempt, pools: tuple[int, ...], both: Requirements, site: Site | None
    ) -> Iterator[tuple[tuple[int, ...], Pins]]:
        """Legal ways to pin the labels that the pod's rules look at, with the pools that allow them."""
        world, standing, shape = self._world, self._standing, attempt.shape
        stance = standing.judge.stance(shape, attempt.number)
        known = dict(site.pins) if site else {}
        keys = tuple(key for key in stance.keys if key not in known and key != HOSTNAME)
        name = site.name if site else standing.next_name()
        vector = shape.vector + site.purchase.made.vector if site else shape.vector
        for place in world.places(pools, both, vector, keys):
            world.work.spend(1)
            pins = tuple(sorted((*known.items(), *place.pins)))
            domain_of = lookup((*pins, (HOSTNAME, name)))
            if standing.judge.refused(shape, stance.owned, domain_of, skip_hosts=False):
                continue
            if site is None and standing.opens_too_much(pins, attempt.wanted, place.pools[0]):
                continue
            yield place.pools, pins

    def _columns_of(self, pools: tuple[int, ...]) -> Iterator[int]:
        """A column per pool, and one per reservation that is left there: a node's type is picked by price."""
        columns, left = self._columns, self._standing.limits.reservations
        for pool in pools:
            mine = columns.pool == pool
            yield from np.flatnonzero(mine & ~columns.reserved)[:1].tolist()
            seen: set[str] = set()
            for column in np.flatnonzero(mine & columns.reserved).tolist():
                name = columns.reservation[column]
                if name not in seen and left.get(name, 0) > 0:
                    seen.add(name)
                    yield column


def _load(parts: Sequence[Part]) -> tuple[list[Item], tuple[tuple[int, int], ...]]:
    """The items of a node, and how many bundles of each."""
    items = [item for item, _ in parts]
    return items, tuple((index, len(bundles)) for index, (_, bundles) in enumerate(parts))


_FEW_SHAPES = 4  # all their orders are tried


def turns_of(berths: Sequence[Berth]) -> Iterator[tuple[int, ...]]:
    """Orders of shapes that are worth a try: all where there are few shapes."""
    shapes = sorted({shape for berth in berths for shape, *_ in berth.pods})
    if len(shapes) <= _FEW_SHAPES:
        yield from permutations(shapes)
    else:
        yield from (tuple(shapes), tuple(reversed(shapes)))


def opened_by(world: World, berths: Sequence[Berth]) -> Opened:
    """Domains that new nodes of an answer open for spreads that pods there obey."""
    found: Opened = {}
    for berth in berths:
        domains = dict(berth.domains) if berth.row < 0 else {}
        owned = {index for shape, level, _ in berth.pods for index in world.shapes[shape].levels[level].owned}
        for index in sorted(owned):
            one = world.topology.groups[index].id
            # What turns out not to be opened must not count as one of so many domains.
            if one.kind == SPREAD and one.min_domains < 2 and one.key in domains:
                found[one] = tuple(sorted({*found.get(one, ()), domains[one.key]}))
    return found


class Follower(Latecomers):
    """Starts from no plan at all."""

    def __init__(
        self, standing: Standing, columns: Columns, berths: Sequence[Berth], *, most: int = ENDLESS
    ) -> None:
        """`most`: units of work until it is given up."""
        super().__init__(standing, columns, {})
        self._end = self._world.work.used + most
        self._berths = berths
        self._pools = {
            pod: pools
            for berth in berths
            for (*_, pods), pools in zip(berth.pods, berth.owned, strict=False)
            for pod in pods
        }
        self._sites: dict[int, Site] = {}  # per berth, once it is bought
        self._aim: dict[str, str] | None = None  # labels that the next place must not contradict
        self._patient = True  # nodes are bought for pods of their pool: visitors wait for those

    @property
    def over(self) -> bool:
        """True iff it has taken too long."""
        work = self._world.work
        return work.late or work.used > self._end

    def seated(self, turns: Sequence[int] = ()) -> list[tuple[int, int, int, str]]:
        """Place all pods of the answer; (berth, shape, level, pod) of those who have no place as it wants it.

        `turns`: shapes in the order in which they come, where that is not any.
        """
        waiting = [
            (number, shape, level, pod)
            for number, berth in enumerate(self._berths)
            for shape, level, pods in berth.pods
            for pod in pods
        ]
        place = {shape: index for index, shape in enumerate(turns)}
        # Spreads that look at nodes alone must see the new ones before they let more pods onto the others.
        seen = self._standing.seen
        waiting.sort(key=lambda each: (seen and self._berths[each[0]].row >= 0, place.get(each[1], 0)))
        while waiting and not self.over:
            rest = [each for each in waiting if self.over or not self._seat(*each)]
            if len(rest) == len(waiting) and not self._patient:
                break
            self._patient = self._patient and len(rest) < len(waiting)
            waiting = rest
        self._aim = None
        return waiting

    def _seat(self, number: int, index: int, level: int, pod: str) -> bool:
        berth, shape = self._berths[number], self._world.shapes[index]
        for wanted in shape.levels[level].alternatives:
            attempt = Attempt(shape, level, wanted, pod, self._pools.get(pod, ()))
            if self._at_row(attempt, berth.row) if berth.row >= 0 else self._at_site(attempt, number):
                return True
        return False

    def _at_row(self, attempt: Attempt, row: int) -> bool:
        rules = attempt.shape.levels[attempt.number].rules
        rows = self._world.nodes.candidates(attempt.wanted, rules, attempt.shape.vector)
        return row in rows and self._put(attempt, row)

    def _at_site(self, attempt: Attempt, number: int) -> bool:
        berth, site = self._berths[number], self._sites.get(number)
        self._aim = dict(berth.domains)
        if site is not None:
            offer = self._grown(attempt, site)
            if offer is not None:
                self._grow(attempt, site, offer)
            return offer is not None
        if self._patient and berth.pool not in self._owned(attempt):
            return False
        offer = self._cheapest(attempt, (berth.pool,), (attempt.wanted, None))
        if offer is not None:
            self._sites[number] = self._buy(attempt, offer)
        return offer is not None

    def _places(
        self, attempt: Attempt, pools: tuple[int, ...], both: Requirements, site: Site | None
    ) -> Iterator[tuple[tuple[int, ...], Pins]]:
        """Only those with the labels that the answer has."""
        for place_pools, pins in super()._places(attempt, pools, both, site):
            if self._aim is None or all(self._aim.get(key, value) == value for key, value in pins):
                yield place_pools, pins


@dataclass(frozen=True, slots=True)
class Move:
    """Nodes with the pods that stay, and (shape, pod) pairs that look for places, in their order."""

    berths: tuple[Berth, ...]
    loose: tuple[tuple[int, str], ...] = ()
    turns: tuple[int, ...] = ()  # shapes in the order in which those who stay are seated, where it matters
    # (berth, pod) and (row, pod): where pods do not go back to unless there is no other place.
    left: frozenset[tuple[int, str]] = frozenset()
    left_rows: frozenset[tuple[int, str]] = frozenset()
    most: int = ENDLESS  # units of work; one that takes more is given up


def berths_of(existing: Mapping[int, Sequence[Unit]], bought: Sequence[Purchase]) -> Iterator[Berth]:
    """The nodes of a plan that it puts pods on."""
    for row, units in existing.items():
        yield Berth(_grouped(units), row=row)
    for purchase in bought:
        pins = {pin for item, _ in purchase.parts for pin in item.pins}
        units = [unit for _, unit in purchase.units()]
        yield Berth(_grouped(units), pool=purchase.made.pool, domains=tuple(sorted(pins)))


def _grouped(units: Sequence[Unit]) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
    """Pods of a node by shape and level."""
    found: dict[tuple[int, int], list[str]] = {}
    for unit in units:
        found.setdefault((unit.shape, unit.level), []).append(unit.pod)
    return tuple((shape, level, tuple(pods)) for (shape, level), pods in found.items())


class Mover(Follower):
    """Makes one move; pods that look for places go where they cost least."""

    def __init__(self, standing: Standing, columns: Columns, move: Move) -> None:
        super().__init__(standing, columns, move.berths, most=move.most)
        self._move = move
        self._barred = False
        self._numbers: dict[str, int] = {}  # site -> berth

    def run_all(self, others: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Put everybody in a place, these last; who found none."""
        driven_out = [(index, pod) for _, index, _, pod in self.seated(self._move.turns)]
        if self.over:
            return [*self._move.loose, *driven_out, *others]
        self._numbers = {site.name: number for number, site in self._sites.items()}
        self._barred = True
        waiting = self.run([*self._move.loose, *driven_out])
        self._barred = False
        return self.run([*waiting, *others])

    def _place_at(self, attempt: Attempt) -> bool:
        """On an existing node, or where a bought or a new one becomes the least dearer."""
        if self._on_node(attempt):
            return True
        grown, new = self._best_site(attempt), self._best_new(attempt)
        if grown is not None and (new is None or grown[0].dearer <= new.dearer):
            self._grow(attempt, grown[1], grown[0])
        elif new is not None:
            self._buy(attempt, new)
        return grown is not None or new is not None

    def _put(self, attempt: Attempt, row: int) -> bool:
        barred = self._barred and (row, attempt.pod) in self._move.left_rows
        return not barred and super()._put(attempt, row)

    def _grown(self, attempt: Attempt, site: Site) -> Offer | None:
        number = self._numbers.get(site.name, -1)
        barred = self._barred and (number, attempt.pod) in self._move.left
        return None if barred else super()._grown(attempt, site)
