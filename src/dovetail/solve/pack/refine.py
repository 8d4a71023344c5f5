"""The whole packing anew by column generation; what limits refuse of it is packed in the plain way."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.model.arrays import Amounts, Floats, share
from dovetail.solve.budget import CELLS, SOME, SolveBudget
from dovetail.solve.colgen.compact_mip import whole_nodes
from dovetail.solve.colgen.generation import Generator, MarketProof, PlannedNode
from dovetail.solve.colgen.pattern_mip import few_patterns
from dovetail.solve.colgen.pricing_instance import PricingInstance
from dovetail.solve.instance.limits import Limits
from dovetail.solve.pack.greedy import Packer, Packing, rank
from dovetail.solve.pack.node_candidate import counts_of, patterns_of
from dovetail.solve.tolerances import FEW, GOOD, MANY, PASSES

# Of so many nodes, whole ones cost about what parts of nodes do; of no more bundles, the search for a proof
# goes through all patterns.
MANY_NODES = 100


@dataclass(frozen=True, slots=True)
class Refined:
    """A packing, what the items are worth (I,), about what any packing of all items costs at least, and what
    of that is proven."""

    packing: Packing
    dual_values: Floats
    cost: float
    market: MarketProof | None = None


def refine(packer: Packer, start: Packing, limits: Limits, begun: list[Generator]) -> Refined:
    """A packing of all items within the limits; `start` itself where nothing cheaper was found.

    Reserved capacity is not looked at, so where there is some, `start` may well be the better one. `limits`
    are those before anything was bought, and are not changed. A search for the same market goes on where one
    of those that were `begun` was left, and joins them.
    """
    pricing = packer.unreserved
    if not len(pricing.price):
        return Refined(start, np.zeros(len(packer.items)), 0.0)
    # Where rules tie pods together, whole nodes prove little: they are looked at last.
    involved = any(pod_class.involved for pod_class in packer.instance.pod_classes)
    tied = packer.visitors or involved
    few = not tied and few_patterns(pricing)
    idle = tied or few or len(start.candidates) > MANY_NODES
    assembler = Assembler(packer, pricing, limits, packer.demand)
    market = MarketProof(pricing)
    if not idle:
        enough = start.price if not start.left.any() else float("inf")
        found = whole_nodes(pricing, packer.instance.work, limit=enough)
        bought = [PlannedNode(pattern.counts, pattern.column, pattern.number) for pattern in found.plan]
        start = min(start, assembler.whole(bought) or start, key=rank)
        market = replace(market, capacities=found.bound)
    if start.price <= market.capacities * GOOD and not start.left.any():
        return Refined(start, np.zeros(len(packer.items)), market.capacities, market)
    # The different patterns of its nodes, (M, I).
    seeds = patterns_of(list(dict.fromkeys(made.counts for made in start.candidates)), len(packer.items))
    coarse = pricing.coarse(len(packer.instance.axis.names)) if len(packer.items) > MANY else None
    if coarse is not None:
        merged, item = coarse
        totals = np.zeros((len(seeds), len(merged.demand)), dtype=np.int64)
        np.add.at(totals.T, item, seeds.T)
        generator = _resumed(begun, merged, packer.instance.work)
        bought = _in_items(pricing, item, generator.run(totals), packer.instance.work)
        values = generator.dual_values[item]
        return Refined(min(start, assembler.run(bought, values), key=rank), values, generator.cost, market)
    generator = _resumed(begun, pricing, packer.instance.work)
    packing = min(start, assembler.run(generator.run(seeds), generator.dual_values), key=rank)
    least = max(market.capacities, generator.cost)
    # Where no rule is about several of few pods, the search for a proof does the same and knows more ways.
    # But few patterns take next to no time, and leave nothing to local search.
    again = few or int(packer.demand.sum()) > MANY_NODES or involved
    if again and len(packer.items) <= FEW and not packing.left.any() and packing.price > least * GOOD:
        if tied:
            least = max(least, whole_nodes(pricing, packer.instance.work, pods=True).bound)
        if packing.price > least * GOOD and (few or generator.ended):
            bought, bound = generator.whole(packing.price)
            least = max(least, bound)
            packing = min(packing, assembler.run(bought, generator.dual_values), key=rank)
    market = replace(market, dual_values=generator.dual_values, most=generator.most)
    return Refined(packing, generator.dual_values, least, market)


def _resumed(begun: list[Generator], pricing: PricingInstance, work: SolveBudget) -> Generator:
    found = next((each for each in begun if each.pricing.alike(pricing)), None) or Generator(pricing, work)
    begun[:] = [found, *(each for each in begun if each is not found)][:PASSES]
    return found


def _in_items(
    pricing: PricingInstance, cell: Amounts, bought: list[PlannedNode], work: SolveBudget
) -> list[PlannedNode]:
    """The nodes of a coarse market as nodes of this one; `cell` (I,): which item of that market each is.

    Items that keep off most others come first, each where it shuts out least of what is to come. One that
    finds no place takes that of another of its kind, which finds one. What finds none at all is left over,
    as is what there is no work for.
    """
    nodes = [planned.counts for planned in bought for _ in range(planned.number)]
    slots = np.array(nodes, dtype=np.int64).reshape(len(nodes), int(cell.max()) + 1)  # that are open
    apart = pricing.conflict | ~share(pricing.feasible.T, pricing.feasible)
    counts = np.zeros((len(slots), len(apart)), dtype=np.int64)
    blocked = np.zeros(counts.shape, dtype=np.int64)  # how many keep an item off a node
    left = pricing.demand.copy()

    def put(node: int, item: int, copies: int = 1) -> None:
        counts[node, item] += copies
        blocked[node] += copies * apart[item]
        slots[node, cell[item]] -= copies
        left[item] -= copies

    for item in np.argsort(-(apart @ left), kind="stable").tolist():
        free = np.flatnonzero((slots[:, cell[item]] > 0) & (blocked[:, item] == 0))
        work.spend((len(slots) + len(free) * len(left)) // CELLS)
        if not work.left:
            break
        shut = (blocked[free] == 0) @ (apart[item] * left)
        for node in free[np.argsort(shut, kind="stable")].tolist():
            most = min(int(left[item]), int(slots[node, cell[item]]))
            put(node, item, min(most, 1) if apart[item, item] else most)
    for item in np.repeat(np.arange(len(left)), left).tolist():
        mates = np.flatnonzero(cell == cell[item])
        work.spend(counts.shape[0] * len(mates) // CELLS)
        if not work.left:
            break
        # Nodes that one mate alone keeps it off, and others that would have the mate.
        there = (counts[:, mates] > 0) & (blocked[:, item, None] == apart[mates, item])
        ends = (blocked[:, mates] == 0) & (slots[:, cell[item], None] > 0) & ~there
        pairs = np.flatnonzero(there.any(axis=0) & ends.any(axis=0))
        if len(pairs):
            node, end = int(there[:, pairs[0]].argmax()), int(ends[:, pairs[0]].argmax())
            put(node, mates[pairs[0]], -1)
            put(node, item)
            put(end, mates[pairs[0]])
    columns = pricing.cheapest(counts, owned=True).tolist()
    return [PlannedNode(each, at, 1) for each, at in zip(counts, columns, strict=True) if at >= 0]


class Assembler:
    """Makes nodes of patterns for a demand (I,), each checked against every rule."""

    def __init__(self, packer: Packer, pricing: PricingInstance, limits: Limits, demand: Amounts) -> None:
        self._packer = packer
        self._pricing = pricing
        self._limits = limits
        self._demand = demand

    def run(self, bought: list[PlannedNode], dual_values: Floats) -> Packing:
        """The nodes; what a rule or a limit forbids is packed in the plain way, at dual values (I,).

        When it is late and much is left, it stays left: there is a packing of all of it already.
        """
        packer = self._packer
        packing, limits = self._made(bought)
        rest = packing.left
        much = rest.sum() > SOME * self._demand.sum()
        if rest.any() and not (much and packer.instance.work.time_over):
            others = packer.pack(dual_values, packer.columns.price.astype(np.float64), limits, rest)
            return Packing([*packing.candidates, *others.candidates], others.left)
        return packing

    def whole(self, bought: list[PlannedNode]) -> Packing | None:
        """The nodes, if they are there and hold all items."""
        packing, _ = self._made(bought)
        return None if packing.left.any() else packing

    def _made(self, bought: list[PlannedNode]) -> tuple[Packing, Limits]:
        """The nodes that no rule and no limit forbids, with what they leave."""
        packer, limits = self._packer, self._limits.copy()
        rest = self._demand.copy()
        packing = Packing([], rest)
        for planned in bought:
            trial = int(self._pricing.column[planned.column]), counts_of(planned.counts), None
            packing.candidates += packer.bought(trial, planned.number, rest, limits)
        return Packing(packing.candidates, rest), limits
