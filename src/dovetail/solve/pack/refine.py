"""The whole packing anew by column generation; what limits refuse of it is packed in the plain way."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.solve.budget import SOME
from dovetail.solve.colgen.compact_mip import whole_nodes
from dovetail.solve.colgen.generation import Generator, MarketProof, PlannedNode
from dovetail.solve.colgen.pricing_instance import PricingInstance
from dovetail.solve.instance.arrays import Amounts, Floats
from dovetail.solve.instance.limits import Limits
from dovetail.solve.pack.greedy import Packer, Packing, rank
from dovetail.solve.pack.node_candidate import counts_of, patterns_of
from dovetail.solve.tolerances import FEW, GOOD

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


def refine(packer: Packer, start: Packing, limits: Limits) -> Refined:
    """A packing of all items within the limits; `start` itself where nothing cheaper was found.

    Reserved capacity is not looked at, so where there is some, `start` may well be the better one. `limits`
    are those before anything was bought, and are not changed.
    """
    pricing = packer.unreserved
    if not len(pricing.price):
        return Refined(start, np.zeros(len(packer.items)), 0.0)
    # Where rules tie pods together, whole nodes prove little: they are looked at last.
    tied = packer.visitors or any(pod_class.involved for pod_class in packer.instance.pod_classes)
    idle = tied or len(start.candidates) > MANY_NODES
    assembler = Assembler(packer, pricing, limits, packer.demand)
    market = MarketProof(pricing)
    if not idle:
        enough = start.price if not start.left.any() else float("inf")
        found = whole_nodes(pricing, packer.instance.work, limit=enough)
        bought = [PlannedNode(pattern.counts, pattern.column, pattern.number) for pattern in found.plan]
        if (whole := assembler.whole(bought)) is not None:
            start = min(start, whole, key=rank)
        market = replace(market, capacities=found.bound)
    if start.price <= market.capacities * GOOD and not start.left.any():
        return Refined(start, np.zeros(len(packer.items)), market.capacities, market)
    generator = Generator(pricing, packer.instance.work)
    packing = min(
        start, assembler.run(generator.run(_patterns(start, packer)), generator.dual_values), key=rank
    )
    least = max(market.capacities, generator.cost)
    # Where no rule is about several of few pods, the search for a proof does the same and knows more ways.
    again = int(packer.demand.sum()) > MANY_NODES or any(
        pod_class.involved for pod_class in packer.instance.pod_classes
    )
    if again and len(packer.items) <= FEW and not packing.left.any() and packing.price > least * GOOD:
        if tied:
            least = max(least, whole_nodes(pricing, packer.instance.work, pods=True).bound)
        if packing.price > least * GOOD:
            better = assembler.run(generator.whole(packing.price), generator.dual_values)
            packing = min(packing, better, key=rank)
    market = replace(market, dual_values=generator.dual_values, most=generator.most)
    return Refined(packing, generator.dual_values, least, market)


def _patterns(packing: Packing, packer: Packer) -> Amounts:
    """The different patterns of a packing's nodes, (M, I)."""
    return patterns_of(list(dict.fromkeys(made.counts for made in packing.candidates)), len(packer.items))


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
            column = int(self._pricing.column[planned.column])
            pattern = counts_of(planned.counts)
            # Without limits, one node is like the other.
            times = planned.number if limits.any else 1
            for _ in range(times):
                made = packer.made(limits, column, pattern)
                if made is None:
                    break
                copies = planned.number // times
                packing.candidates.extend([made] * copies)
                rest -= planned.counts * copies
                limits.take(made)
        return Packing(packing.candidates, rest), limits
