"""The greedy packer: nodes of the best value first; first fit for the rest once time is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from dovetail.model.arrays import BLOCK, Amounts, Floats, Mask, distinct, holding, share
from dovetail.solve.budget import CELLS, LITTLE, SWEEP
from dovetail.solve.colgen.patterns import fill
from dovetail.solve.colgen.pricing_instance import PricingInstance, pricing_instance, undominated
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.limits import Limits, diverse_room
from dovetail.solve.instance.offerings import Ground, OfferingsTable, thinned
from dovetail.solve.pack.aggregation import (
    CoarseClasses,
    Counts,
    Crowds,
    ItemClasses,
    Kind,
    NodeCountWeights,
    SubstitutableClasses,
)
from dovetail.solve.pack.node_candidate import NodeCandidate, Trial, counts_of, ground_of, make_candidate
from dovetail.solve.tolerances import ALIKE, FEW, LARGE, MANY, PASSES, SEVERAL


def first_fit(stock: Stock, charge: Floats, left: Amounts, limits: Limits) -> list[NodeCandidate]:
    """Nodes for as much of `left` (I,) as can be; it and `limits` are used up. `charge` (C,): as for a pack.

    Takes time by lots times nodes, whatever the number of pods. Ends where there is time for no more.
    """
    candidates: list[NodeCandidate] = []
    late = stock.closing(LITTLE)  # of what buying took: to hand pods out, beside writing the plan down
    for _ in range(PASSES):
        usable = stock.sold[limits.allowed()[stock.sold]]
        if not left.any() or not len(usable) or late(stock.placed(left)):
            break
        nodes = _Nodes(stock, (usable, charge[usable]), left)
        before = len(candidates)
        for trial, number in nodes.patterns():
            if not late(stock.placed(left)):
                candidates += stock.bought(trial, number, left, limits)
        if len(candidates) == before:
            break
    allowed = limits.allowed()
    rest = np.flatnonzero(left)
    for lot in rest[(stock.feasible[rest] & allowed).any(axis=1)].tolist():
        if late(stock.placed(left)):
            break
        for column in stock.ways(lot, allowed):
            alone = stock.bought((column, ((lot, 1),), None), int(left[lot]), left, limits)
            if alone:
                candidates += alone
                allowed = limits.allowed()
            if not left[lot]:
                break
    return candidates


_BUYING = 1.5  # times what it took to share lots out among nodes: to buy these, and to hand pods out


class _Nodes:
    """Nodes in the order in which they are opened. Limits are left to what buys them."""

    def __init__(self, stock: Stock, sold: tuple[Amounts, Floats], left: Amounts) -> None:
        """`sold`: columns (W,), the cheapest first, and what a node of each is charged (W,)."""
        self._stock, self._hasty = stock, stock.instance.work.clock.hasty
        self._usable, self._charge = sold
        self._capacity = stock.capacity[self._usable]
        self._per_room = np.ascontiguousarray(1.0 / np.maximum(self._capacity, 1).T)  # (R, W)
        self._feasible = np.take(stock.feasible, self._usable, axis=1)
        self._conflict = stock.item_classes.conflict
        self._clashing: list[bool] = np.asarray(self._conflict.any(axis=1)).tolist()  # per kind
        self._closing = np.packbits(self._conflict, axis=1)  # a bit per kind
        self._to_come = left @ stock.vectors  # (R,) what lots ask for that have no place yet
        self._size = 0
        most = int(left.sum())  # nodes; what is not used of these arrays takes no memory
        self._column: Amounts = np.zeros(most, dtype=np.int64)  # position in usable
        self._free: Amounts = np.zeros((stock.vectors.shape[1], most), dtype=np.int64)
        self._closed = np.zeros((self._closing.shape[1], most), dtype=np.uint8)  # to kinds
        self._taken: list[tuple[Amounts, int, Amounts]] = []  # nodes, lot, numbers
        self._placed = 0
        share = np.max(stock.vectors / np.maximum(self._to_come, 1), axis=1, initial=0.0)
        wanted = (left > 0) & self._feasible.any(axis=1)
        late = stock.closing(_BUYING)
        for lot in np.lexsort((np.arange(len(share)), -share)).tolist():
            if wanted[lot] and not late(self._placed / most):
                self._place(lot, int(left[lot]))

    def patterns(self) -> Iterator[tuple[Trial, int]]:
        """Patterns, each on the cheapest column that holds it, and how many nodes have them."""
        if not self._taken:
            return
        node = np.concatenate([nodes for nodes, _, _ in self._taken])
        lot = np.repeat([lot for _, lot, _ in self._taken], [len(nodes) for nodes, _, _ in self._taken])
        number = np.concatenate([numbers for _, _, numbers in self._taken])
        order = np.lexsort((lot, node))
        node, lot, number = node[order], lot[order], number[order]
        starts = np.searchsorted(node, np.arange(self._size + 1)).tolist()
        pairs = list(zip(lot.tolist(), number.tolist(), strict=True))
        alike: dict[Counts, list[int]] = {}
        for row, (start, end) in enumerate(pairwise(starts)):
            alike.setdefault(tuple(pairs[start:end]), []).append(row)
        stock, first = self._stock, np.array([rows[0] for rows in alike.values()])
        of: list[int] = stock.item_classes.kind.tolist()
        used = self._capacity[self._column[first]] - self._free[:, first].T
        kinds = [tuple(dict.fromkeys([of[lot] for lot, _ in pattern])) for pattern in alike]
        columns, requests = self._cheapest(used, kinds), used[:, : stock.items[0].vector.size]
        grounds: dict[tuple[int, tuple[int, ...]], Ground] = {}  # kinds are compared sooner than demands
        for column, (counts, rows), key, vector in zip(columns, alike.items(), kinds, requests, strict=True):
            where = int(stock.columns.pool[column]), key
            if where not in grounds:
                grounds[where] = ground_of(stock.instance, stock.columns, stock.items, column, counts)
            yield (column, counts, (grounds[where], vector)), len(rows)

    def _place(self, lot: int, number: int) -> None:
        stock, size = self._stock, self._size
        need, kind = stock.vectors[lot][:, None], int(stock.item_classes.kind[lot])
        single = bool(self._conflict[kind, kind])
        fits: Mask = (self._free[:, :size] >= need).all(axis=0)
        fits &= self._feasible[lot, self._column[:size]]
        if self._clashing[kind]:
            fits &= self._closed[kind // 8, :size] & (128 >> kind % 8) == 0
        nodes = fits.nonzero()[0][:number]
        if len(nodes):
            room = np.where(need > 0, self._free[:, nodes] // np.maximum(need, 1), number).min(axis=0)
            copies = np.ones_like(nodes) if single else room
            before = np.cumsum(copies) - copies
            nodes = nodes[before < number]
            copies = np.minimum(copies, number - before)[: len(nodes)]
            self._put(nodes, lot, copies)
            number -= int(copies.sum())
        if number:
            self._open(lot, number, single=single)

    def _open(self, lot: int, number: int, *, single: bool) -> None:
        """Place the rest of a lot on new nodes. `single`: a node takes one bundle."""
        # As many nodes as all that is to come would need, or as these alone: the cheapest in sum.
        together = (self._per_room * self._to_come[:, None]).max(axis=0, initial=number if single else 1)
        cost: Floats = np.where(self._feasible[lot], self._charge * together, np.inf)
        best = int(cost.argmin())
        if cost[best] == np.inf:
            return
        if self._hasty:  # fewer nodes, larger and as cheap, are bought and written down sooner
            best = int(np.flatnonzero(cost <= cost[best] * ALIKE)[-1])
        room = zip(self._capacity[best].tolist(), self._stock.vectors[lot].tolist(), strict=True)
        each = 1 if single else min(number, *(most // amount for most, amount in room if amount))
        nodes = np.arange(self._size, self._size - (-number // each))
        self._size += len(nodes)
        self._column[nodes] = best
        self._free[:, nodes] = self._capacity[best][:, None]
        counts = np.full(len(nodes), each)
        counts[-1] = number - each * (len(nodes) - 1)
        self._put(nodes, lot, counts)

    def _put(self, nodes: Amounts, lot: int, number: Amounts) -> None:
        need, kind = self._stock.vectors[lot], self._stock.item_classes.kind[lot]
        self._free[:, nodes] -= need[:, None] * number
        if self._clashing[kind]:
            self._closed[:, nodes] |= self._closing[kind, :, None]
        self._placed += int(number.sum())
        self._to_come -= need * int(number.sum())
        self._taken.append((nodes, lot, number))

    def _cheapest(self, used: Amounts, kinds: list[tuple[int, ...]]) -> list[int]:
        """The cheapest column that holds so much (N, R) of these kinds, (N,)."""
        number = {each: index for index, each in enumerate(dict.fromkeys(kinds))}
        sold = self._stock.unsuited[:, self._usable]
        unsuited = np.array([sold[list(each)].any(axis=0) for each in number])
        of, found = np.array([number[each] for each in kinds]), list[int]()
        for first in range(0, len(used), BLOCK):
            held = holding(used[first : first + BLOCK], self._capacity) & ~unsuited[of[first : first + BLOCK]]
            found += self._usable[held.argmax(axis=1)].tolist()
        return found


class Stock:
    """I items, which are lots here, and C columns of R resources.

    `feasible` and `guests` (I, C), `vectors` (I, R), `capacity` (C, R); of the columns `offered` are worth a
    look at all, `kept` those to fill again and again, `sold` those without reservations, the cheapest first.
    """

    def __init__(self, instance: Instance, columns: OfferingsTable, item_classes: ItemClasses) -> None:
        self.instance = instance
        self.columns = columns
        self.cut = False  # True iff nodes were not bought for want of time
        self.item_classes = item_classes
        self.items = item_classes.items
        self.demand = np.array([len(item.bundles) for item in item_classes.items], dtype=np.int64)
        amounts = np.array([item.vector for item in item_classes.items])
        instance.work.spend(len(amounts) * len(columns.price) // CELLS)
        suited = self._suited(item_classes.kinds, guests=False)
        # Nodes of other pools, bought anyway, may take an item too; none is bought there for its sake.
        welcome = self._suited(item_classes.kinds, guests=True)
        more = bool((welcome != suited).any())
        self.unsuited = ~suited  # (K, C)
        self.vectors: Amounts = np.concatenate([amounts, item_classes.takes[item_classes.kind]], axis=1)
        drawing = instance.commons.draws.any(axis=1)
        protected = columns.reserved | np.isin(columns.pool, sorted(instance.tight)) | drawing
        self.scarce = bool(protected.any())
        some: Amounts = np.arange(len(columns.price))
        # What another one beats for all kinds need not be held against many items.
        rough = len(amounts) > CROWD or instance.work.short
        if rough:
            both = np.concatenate([suited, welcome]) if more else suited
            some = undominated(both, columns.capacity, columns.price, protected)
        capacity = np.maximum(diverse_room(instance, columns, amounts, some), 0)
        rows = np.tile(item_classes.has, (len(capacity), 1))
        self.capacity: Amounts = np.concatenate([capacity, rows], axis=1)
        self.feasible = np.zeros((len(amounts), len(columns.price)), dtype=np.bool_)
        self.guests = np.zeros_like(self.feasible) if more else self.feasible
        let_in = [(self.feasible, suited[:, some]), (self.guests, welcome[:, some])][: 1 + more]
        for start in range(0, len(amounts), BLOCK):
            block = slice(start, start + BLOCK)
            holds, kind = columns.holds(amounts[block], some), item_classes.kind[block]
            for found, suits in let_in:
                found[block, some] = holds & suits[kind]
        self.visitors = more and bool((self.guests & ~self.feasible).any())
        if rough:
            self.offered = some[self.feasible[:, some].any(axis=0)]
        else:
            self.offered = undominated(self.cells.feasible, self.capacity, columns.price, protected)
        free = self.offered[~columns.reserved[self.offered]]
        self.sold: Amounts = free[np.argsort(columns.price[free], kind="stable")]
        self._sold_price = columns.price[self.sold]

    @cached_property
    def cells(self) -> CoarseClasses:
        """The items by cell, for patterns: first fit alone needs none."""
        return CoarseClasses(self.vectors, self.item_classes.kind, self.feasible, self.capacity)

    @cached_property
    def kept(self) -> Amounts:
        """Those of `offered` that are filled again and again."""
        if self.scarce and len(self.offered) * len(self.cells.vectors) <= LARGE:
            return self.offered
        reserved = self.columns.reserved[self.offered]
        some = thinned(self.offered[~reserved], self.cells.feasible, self.columns.price)
        return np.union1d(some, self.offered[reserved])

    @cached_property
    def conflict(self) -> Mask:
        """Which items cannot share a node, (I, I); the diagonal: at most one bundle per node."""
        kind = self.item_classes.kind
        return self.item_classes.conflict[np.ix_(kind, kind)]

    @cached_property
    def unreserved(self) -> PricingInstance:
        """All that is for sale but reserved capacity; a node is bought only for what `feasible` lets in."""
        guests, own = self.guests & ~self.columns.reserved, self.feasible & ~self.columns.reserved
        what = self.capacity, self.columns.price, self.vectors, self.conflict, self.demand
        return pricing_instance(guests, *what, own=own)

    def closing(self, times: float = 0.0) -> Callable[[float], bool]:
        """See SolveBudget. For few lots there is always time: nodes for them take next to none."""
        late = self.instance.work.closing(times)

        def over(share: float) -> bool:
            found = len(self.items) > FEW and late(share)
            self.cut |= found
            return found

        return over

    def placed(self, left: Amounts) -> float:
        """The share of all bundles that are not left (I,)."""
        return 1 - float(left.sum()) / max(1, int(self.demand.sum()))

    def least_costs(self) -> Floats:
        """What a bundle costs on its best column, by its share of the scarcest resource there, (I,)."""
        least = np.full(len(self.items), np.inf)
        needs = self.vectors.T.astype(np.float64)
        kept = self.kept[np.argsort(self.columns.price[self.kept], kind="stable")]
        unlike = distinct(np.hstack([self.capacity[kept], np.packbits(self.feasible[:, kept].T, axis=1)]))
        for column in kept[unlike].tolist():
            share = (needs / np.maximum(self.capacity[column], 1)[:, None]).max(axis=0, initial=0.0)
            cost = np.where(self.feasible[:, column], share * self.columns.price[column], np.inf)
            np.minimum(least, cost, out=least)
        return np.where(np.isfinite(least), least, 0.0)

    def cheapest(self, patterns: Amounts, most: float = np.inf) -> tuple[Amounts, Floats]:
        """The cheapest column for each pattern (N, I), and its price: infinite where none up to `most` holds
        it.

        Limits and reservations are left out.
        """
        wanted = np.flatnonzero(patterns.any(axis=0))
        patterns = patterns[:, wanted]
        columns = self.sold[: max(1, int(np.searchsorted(self._sold_price, most, side="right")))]
        held = self.held(patterns, self.vectors[wanted], self.item_classes.kind[wanted], columns)
        if self.item_classes.conflict.any():
            conflict, present = self.conflict_among(wanted), patterns > 0
            apart = share(present, np.triu(conflict, 1))
            broken = (apart & present) | ((patterns > 1) & np.diagonal(conflict))
            held &= ~broken.any(axis=1, keepdims=True)
        best = held.argmax(axis=1)
        price = np.where(held.any(axis=1), self.columns.price[columns[best]], np.inf)
        return columns[best], price.astype(np.float64)

    def held(self, patterns: Amounts, vectors: Amounts, kind: Amounts, columns: Amounts) -> Mask:
        """Which columns hold which patterns (N, W) of W things with such requests and kinds, (N, columns).

        Whether a pod fits alone somewhere, but for its size, is a matter of its class.
        """
        present = patterns > 0
        kinds, of = np.unique(kind, return_inverse=True)
        if 2 * len(kinds) < len(kind):
            member = of.reshape(-1)[:, None] == np.arange(len(kinds))
            present, kind = share(present, member), kinds
        result: Mask = ~share(present, self.unsuited[np.ix_(kind, columns)])
        # Exact: below 2**53.
        used = (patterns.astype(np.float64) @ vectors.astype(np.float64)).astype(np.int64)
        return result & holding(used, self.capacity[columns])

    def conflict_among(self, items: Amounts) -> Mask:
        """Which of these items cannot share a node."""
        kind = self.item_classes.kind[items]
        return self.item_classes.conflict[np.ix_(kind, kind)]

    def _suited(self, kinds: Sequence[Kind], *, guests: bool) -> Mask:
        """Columns that each kind may be on, whatever their capacity, (K, C)."""
        instance, rows = self.instance, []
        for kind in kinds:
            pools = kind.guests if guests else kind.pools
            free = [pool for pool in pools if instance.free_of_ports(pool, kind.ports)]
            rows.append(self.columns.suits(kind.wanted, free))
        return np.array(rows, dtype=np.bool_)

    def made(
        self, limits: Limits, column: int, counts: Counts, known: tuple[Ground, Amounts] | None = None
    ) -> NodeCandidate | None:
        """The node for so many of each item, None when some rule forbids it."""
        return make_candidate(self.instance, self.columns, limits, self.items, (column, counts, known))

    @staticmethod
    def buy(
        made: NodeCandidate, number: int, left: Amounts, limits: Limits, candidates: list[NodeCandidate]
    ) -> None:
        candidates.extend([made] * number)
        limits.take(made, number)
        for index, count in made.counts:
            left[index] -= number * count

    def ways(self, item: int, allowed: Mask) -> list[int]:
        """Of the columns that are allowed (C,) and hold the item, the cheapest per pool and reservation."""
        columns, found = self.columns, dict[tuple[int, str], int]()
        where = np.flatnonzero(self.feasible[item] & allowed)
        for column in where[np.argsort(columns.price[where], kind="stable")].tolist():
            found.setdefault((int(columns.pool[column]), columns.reservation[column]), column)
        return list(found.values())

    def bought(self, trial: Trial, number: int, left: Amounts, limits: Limits) -> list[NodeCandidate]:
        """At most so many nodes of one pattern, which is left so often; fewer where a rule or limit
        forbids.
        """
        candidates: list[NodeCandidate] = []
        while len(candidates) < number:
            made = self.made(limits, *trial)
            if made is None:
                break
            alike = limits.times(made, number - len(candidates))
            self.buy(made, alike, left, limits, candidates)
        return candidates


# Items; beyond it column generation does not come to an end.
CROWD = 1_000
# Bundles left, so that one node is bought at a time: with 300, the first plan of 1,500 pods on a region's
# ordinary types costs 3.7 % more.
_FEW = 400
_STALE = 1.05  # a pattern so much dearer than the best of all columns makes all be filled again
# Times the share of pods that are written down: so much is kept for what follows, two thirds for the proof.
_PATTERNS = 4.5
# Where items can stand in for others many patterns are as good, and a step takes them all.
_AS_GOOD_TWINS = 1.08
_LOSS = 0.03  # of a node's price, that a pattern with others in it may be worth less


@dataclass(slots=True)
class Packing:
    """Nodes to buy, and how many bundles of each item found none."""

    candidates: list[NodeCandidate]
    left: Amounts  # (I,)

    @property
    def price(self) -> int:
        return sum(item.price for item in self.candidates)


def rank(packing: Packing) -> tuple[int, int, int]:
    """The best packing has the least: first of pods left over, then of money, then of nodes."""
    return int(packing.left.sum()), packing.price, len(packing.candidates)


@dataclass(frozen=True, slots=True)
class _Option:
    rate: float  # cost per worth
    column: int  # the cheapest that holds the pattern
    target: int  # the column that was filled
    counts: Counts  # by cell


class Packer(Stock):
    """Packs a fixed list of lots, as often as asked, under different values. Items are lots here."""

    @property
    def crowded(self) -> bool:
        """True iff there are too many items for patterns of them, or to tell them apart: first fit is as good
        as those then, and takes much less."""
        return len(self.items) > CROWD or not self.cells.trivial

    def roughly(self, limits: Limits) -> bool:
        """True iff all is first fit: there are too many items for patterns, or no time for any."""
        work = self.instance.work
        if limits.tight:
            return work.time_over
        late = work.time_over and work.closing(otherwise=True)(_PATTERNS)
        return work.clock.short or late or self.crowded

    @cached_property
    def _crowds(self) -> Crowds:
        return Crowds(self.item_classes)

    @cached_property
    def _clash(self) -> Mask:
        return self.item_classes.conflict[np.ix_(self.cells.kind, self.cells.kind)]

    @cached_property
    def _substitutes(self) -> SubstitutableClasses | None:
        """None where too few nodes are bought to save any steps, or where patterns are not of items."""
        if int(self.demand.sum()) < _FEW or self.visitors or not self.cells.trivial:
            return None
        kind, conflict = self.item_classes.kind, self.item_classes.conflict
        substitutes = SubstitutableClasses(self.vectors, kind, self.feasible, conflict)
        return substitutes if substitutes.any else None

    def pack(self, values: Floats, charge: Floats, limits: Limits, demand: Amounts | None = None) -> Packing:
        """Greedily buy the nodes whose pods are worth most for what they are charged, until nothing is left.

        `values` (I,) is the worth of a bundle, `charge` (C,) usually the price. `limits` is used up.
        `demand` (I,) is all bundles if not given.
        """
        left = (self.demand if demand is None else demand).copy()
        candidates: list[NodeCandidate] = []
        work, late = self.instance.work, self.instance.work.closing(otherwise=True)
        if self.roughly(limits):
            return Packing(first_fit(self, charge, left, limits), left)
        active, rate, hurried = self.kept, 0.0, False
        stale = _STALE if len(self.cells.kind) <= MANY else np.inf
        start = None if limits.tight else limits.copy(), left.copy()
        anew = self._anew(charge, start) if len(self.items) > MANY or work.time_over else None
        while left.any():
            if work.time_over and (anew is None or late(_PATTERNS)):
                hurried = True
                break
            node_count_weights = self._node_count_weights(values, left)
            usable = active[limits.allowed()[active]] if limits.tight else active
            options = self._options(usable, (values, charge), node_count_weights, left)
            dear = bool(options) and options[0].rate > rate * stale
            if active is not self.kept and (dear or not options):
                if not options or work.left or work.frugal:
                    active = self.kept
                    continue
                if work.slice_over:
                    hurried = True
                    break
            before = int(left.sum())
            if not self._take(options, node_count_weights, left, limits, candidates):
                self._give_up(left, limits, candidates)
            if int(left.sum()) == before:
                break
            if active is self.kept and options:
                active = np.array(sorted({option.target for option in options}), dtype=np.int64)
                rate = options[0].rate
        if hurried and anew is None:
            # The best patterns are bought first, so what they leave over may be dear by itself.
            candidates.extend(first_fit(self, charge, left, limits))
            anew = self._anew(charge, start)
        begun = Packing(candidates, left)
        return min(begun, anew, key=rank) if anew else begun

    def _anew(self, charge: Floats, start: tuple[Limits | None, Amounts]) -> Packing | None:
        """All of it first fit, which tells little where limits refuse nodes."""
        return None if start[0] is None else Packing(first_fit(self, charge, start[1], start[0]), start[1])

    def _node_count_weights(self, values: Floats, left: Amounts) -> NodeCountWeights:
        by_kind = np.bincount(self.item_classes.kind, left, minlength=len(self.item_classes.kinds)).astype(
            np.int64
        )
        return self._crowds.node_count_weights(by_kind, float(values @ left))

    def _options(
        self,
        usable: Amounts,
        prices: tuple[Floats, Floats],
        node_count_weights: NodeCountWeights,
        left: Amounts,
    ) -> list[_Option]:
        """Patterns of one node each, the cheapest per worth first."""
        if not len(usable):
            return []
        cells, charge = self.cells, prices[1]
        total = cells.total(left)
        dual_values = self._dual_values(np.maximum(prices[0], 1e-9), left, total)
        wanted = np.flatnonzero(total)
        usable = self._within(usable, charge, node_count_weights, wanted)
        # Where limits keep all that is for sale many hold the same: 24,768 of a region make 58 patterns.
        feasible = cells.feasible[np.ix_(wanted, usable)].T
        unlike = distinct(np.hstack([self.capacity[usable], np.packbits(feasible, axis=1)]))
        worth = (dual_values + node_count_weights.pull[cells.kind])[wanted]
        items = cells.vectors[wanted], worth, total[wanted], self._clash[np.ix_(wanted, wanted)]
        largest = self._substitutes is None  # where many patterns are as good, these are not the best
        filled = fill(self.capacity[usable[unlike]], feasible[unlike], *items, largest=largest)
        picks = int(np.max(np.count_nonzero(filled, axis=1), initial=0))
        self.instance.work.spend((2 + picks) * (SWEEP // 5 + filled.size // CELLS))
        rows = distinct(filled)
        target, filled = usable[unlike[rows % len(unlike)]], filled[rows]
        column, price = self._cheapest(filled, wanted, charge, usable)
        value = filled @ (dual_values + node_count_weights.credit[cells.kind])[wanted]
        rate = np.where(value > 0, (price + 1e-3) / np.maximum(value, 1e-30), np.inf)
        rank = np.round(np.minimum(rate, 1e30) / max(float(rate.min()), 1e-30), 2)
        order = np.lexsort((-value, rank))  # at about equal rates the larger: fewer nodes
        order = order[np.isfinite(rate[order])][:SEVERAL]
        patterns = _patterns(filled[order], wanted)
        each = rate[order].tolist(), column[order].tolist(), target[order].tolist(), patterns
        return [_Option(*one) for one in zip(*each, strict=True)]

    def _dual_values(self, values: Floats, left: Amounts, total: Amounts) -> Floats:
        """The mean worth per cell (G,) of what is left of it."""
        summed = np.bincount(self.cells.cell, values * left, minlength=len(total))
        mean: Floats = summed / np.maximum(total, 1)
        return mean

    def _within(
        self, usable: Amounts, charge: Floats, node_count_weights: NodeCountWeights, wanted: Amounts
    ) -> Amounts:
        """Columns no dearer than the pace allows, and the cheapest for each that sets the pace."""
        fine = charge[usable] <= node_count_weights.price
        if fine.all():
            return usable
        order = np.argsort(charge[usable], kind="stable")
        paid = wanted[node_count_weights.credit[self.cells.kind[wanted]] > 0]
        held = self.cells.feasible[np.ix_(paid, usable[order])]
        fine[order[held.argmax(axis=1)[held.any(axis=1)]]] = True
        return usable[fine] if fine.any() else usable

    def _cheapest(
        self, filled: Amounts, wanted: Amounts, charge: Floats, usable: Amounts
    ) -> tuple[Amounts, Floats]:
        """Per pattern (N, W) the cheapest column that holds it and what that is charged."""
        columns = usable
        if not self.scarce:  # smaller ones than those that were filled, whatever was thinned out
            columns = self.offered[charge[self.offered] <= float(np.max(charge[usable], initial=0.0))]
        columns = columns[np.argsort(charge[columns], kind="stable")]
        held = self.held(filled, self.cells.vectors[wanted], self.cells.kind[wanted], columns)
        best = held.argmax(axis=1)
        price = np.where(held.any(axis=1), charge[columns[best]], np.inf)
        return columns[best], price

    def _take(
        self,
        options: list[_Option],
        node_count_weights: NodeCountWeights,
        left: Amounts,
        limits: Limits,
        candidates: list[NodeCandidate],
    ) -> bool:
        """Buy the best options and those as good as long as there is demand; False if nothing can be."""
        bought, few = False, int(left.sum()) < (FEW if self._substitutes else _FEW)
        total = self.cells.total(left).tolist()
        as_good = _AS_GOOD_TWINS if self._substitutes else ALIKE
        for option in options:
            if bought and (few or limits.tight or option.rate > options[0].rate * as_good):
                break
            if all(total[cell] >= count for cell, count in option.counts):
                bought |= self._repeat(option, left, limits, candidates)
                total = self.cells.total(left).tolist()
            if bought and self._substitutes and not limits.tight:
                self._repeat_alike(option, node_count_weights, left, limits, candidates)
                total = left.tolist()
        return bought or self._take_less(options, left, limits, candidates)

    def _repeat(
        self, option: _Option, left: Amounts, limits: Limits, candidates: list[NodeCandidate]
    ) -> bool:
        """Buy an option as often as there is demand for it and limits allow."""
        total = self.cells.total(left)
        number = min(int(total[cell]) // count for cell, count in option.counts)
        done = 0
        while done < number:
            # Filling up may have taken what the option was to be repeated with.
            total = self.cells.total(left)
            if any(int(total[cell]) < count for cell, count in option.counts):
                break
            pattern = self._pattern(option, left)
            made = self.made(limits, option.column, pattern)
            if made is None:
                break
            alike = min(number - done, *(int(left[lot]) // count for lot, count in pattern))
            alike = limits.times(made, alike)
            if alike < 1:
                break
            self.buy(made, alike, left, limits, candidates)
            done += alike
        return done > 0

    def _repeat_alike(
        self,
        option: _Option,
        node_count_weights: NodeCountWeights,
        left: Amounts,
        limits: Limits,
        candidates: list[NodeCandidate],
    ) -> None:
        """Buy the option again and again with others in place of those that have run out."""
        assert self._substitutes is not None
        credit = node_count_weights.credit[self.cells.kind].tolist()
        most = sum(credit[cell] * count for cell, count in option.counts)
        dearest = int(self.columns.price[option.column])
        while True:
            pattern = self._substitutes.pattern(option.counts, option.column, left.tolist())
            lost = most - sum(credit[item] * count for item, count in pattern)
            if not pattern or lost > dearest * _LOSS:
                break
            made = self.made(limits, option.column, pattern)
            if made is None or lost > made.price * _LOSS:
                break
            number = min(int(left[item]) // count for item, count in pattern)
            if number < 1:
                break
            self.buy(made, limits.times(made, number), left, limits, candidates)

    def _pattern(self, option: _Option, left: Amounts) -> Counts:
        """The option in lots."""
        return option.counts if self.cells.trivial else counts_of(self.cells.drawn(option.counts, left))

    def _take_less(
        self, options: list[_Option], left: Amounts, limits: Limits, candidates: list[NodeCandidate]
    ) -> bool:
        """Buy the first option that the rules of a node allow once some pods are taken out."""
        for option in options:
            trial = dict(self._pattern(option, left))
            while sum(trial.values()) > 1:
                largest = max(trial, key=lambda index: (trial[index], index))
                trial[largest] -= max(1, trial[largest] // 4)
                if not trial[largest]:
                    del trial[largest]
                made = self.made(limits, option.column, tuple(sorted(trial.items())))
                if made is not None:
                    self.buy(made, 1, left, limits, candidates)
                    return True
        return False

    def _give_up(self, left: Amounts, limits: Limits, candidates: list[NodeCandidate]) -> None:
        """Try each item alone, until one is placed."""
        allowed = limits.allowed()
        for index in np.flatnonzero(left).tolist():
            for column in self.ways(index, allowed):
                found = self.bought((column, ((index, 1),), None), 1, left, limits)
                candidates += found
                if found:
                    return


def _patterns(filled: Amounts, items: Amounts) -> Iterator[Counts]:
    """Each row's (N, W) counts of the items (W,)."""
    row, place = np.nonzero(filled)
    pairs = list(zip(items[place].tolist(), filled[row, place].tolist(), strict=True))
    ends = np.searchsorted(row, np.arange(len(filled) + 1)).tolist()
    return (tuple(pairs[start:end]) for start, end in pairwise(ends))
