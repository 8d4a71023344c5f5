"""Pods that are left over once all others have their places get another chance, one at a time.

Domains are decided before nodes are bought, so what limits refuse or rules make impossible shows late. Here
each such pod is tried, with less and less of its preferences, on nodes that exist, on those that are bought
(which may become larger), and on one more node. It comes last, so no turn of another pod depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.model.requirement import Requirements
from dovetail.solve.demand.match import ports_conflict
from dovetail.solve.demand.shapes import Shape
from dovetail.solve.packing.bins import Bin, make_bin
from dovetail.solve.placing.items import Item, Unit
from dovetail.solve.purchase import Part, Purchase
from dovetail.solve.standing import Site, Standing
from dovetail.solve.supply.columns import Columns
from dovetail.solve.supply.world import Pins, lookup

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
