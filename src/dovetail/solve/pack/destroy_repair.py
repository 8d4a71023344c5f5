"""A few nodes at a time are packed anew as well as can be, and the whole packing by column generation.

What limits refuse of it is packed in the plain way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import numpy as np

from dovetail.base.streams import stream
from dovetail.solve.budget import LITTLE, SOME
from dovetail.solve.colgen.compact_mip import whole_nodes
from dovetail.solve.colgen.generation import Generator, MarketProof, PlannedNode
from dovetail.solve.colgen.pricing_instance import PricingInstance
from dovetail.solve.instance.arrays import Amounts, Floats
from dovetail.solve.instance.limits import Limits
from dovetail.solve.pack.greedy import Packer, Packing, rank
from dovetail.solve.pack.node_candidate import NodeCandidate, loads_of, make_candidate
from dovetail.solve.tolerances import FEW, GOOD, OPTIMAL, TRIES

_SIZES = (2, 3, 3, 4, 4, 5)  # nodes in a group, as likely as they stand here
_GROUP = 60_000  # units of work for a group
_ANY = 0.02  # of a mean node's price: so wasteful every node counts at least


def regrouped(packer: Packer, packing: Packing, start: Limits, dual_values: Floats, bound: float) -> Packing:
    """The packing, or a cheaper one; `dual_values` (I,) tells which nodes waste money. `start` is not
    changed.

    `bound` is a price that cannot be beaten. Reserved nodes stay as they are.
    """
    work = packer.instance.work
    suited = 1 < len(packing.candidates) <= MANY_NODES and len(packer.items) <= FEW and not packing.left.any()
    if not suited or packing.price <= bound * GOOD or not work.left:
        return packing
    regrouping = _Regrouping(packer, start, dual_values)
    draw, part = stream(0, "solve", "regroup"), work.part(LITTLE)
    idle = 0
    while part.left and packing.price > bound * GOOD and idle < TRIES * len(packing.candidates):
        with work.sparing(1 - min(1.0, _GROUP / max(1, work.rest)), of_time=0.0):
            better = regrouping.tried(packing, draw)
        idle = 0 if better else idle + 1
        packing = better or packing
    return packing


class _Regrouping:
    """Groups of one packer's nodes."""

    def __init__(self, packer: Packer, start: Limits, dual_values: Floats) -> None:
        self._packer, self._start, self._dual_values = packer, start, dual_values

    def tried(self, packing: Packing, draw: Random) -> Packing | None:
        """The packing with one group packed anew, for less; None if that was not found."""
        chosen = self._chosen(packing.candidates, draw)
        kept = [made for index, made in enumerate(packing.candidates) if index not in chosen]
        group = [packing.candidates[index] for index in sorted(chosen)]
        anew = self._anew(group, self._start.after(kept)) if len(group) > 1 else None
        return replace(packing, candidates=[*kept, *anew.candidates]) if anew else None

    def _chosen(self, candidates: list[NodeCandidate], draw: Random) -> set[int]:
        """Positions, those of wasteful nodes more likely."""
        patterns = self._patterns(candidates)
        price = np.array([made.price for made in candidates], dtype=np.float64)
        weight = np.maximum(price - patterns @ self._dual_values, 0.0) + _ANY * price.mean()
        weight[[bool(made.reservation) for made in candidates]] = 0.0
        size = min(draw.choice(_SIZES), int(np.count_nonzero(weight)))
        chosen: set[int] = set()
        while len(chosen) < size:
            chosen.update(draw.choices(range(len(candidates)), weight.tolist()))
        return chosen

    def _anew(self, group: list[NodeCandidate], limits: Limits) -> Packing | None:
        """Nodes for all that the group holds, for less; None if none were found."""
        packer, patterns = self._packer, self._patterns(group)
        demand, price = patterns.sum(axis=0), sum(made.price for made in group)
        every = packer.unreserved
        pricing = replace(every.only(np.flatnonzero(every.price < price)), demand=demand)
        generator = Generator(pricing, packer.instance.work)
        generator.search(patterns)
        if not packer.instance.work.left or generator.bound > price * OPTIMAL:
            return None
        bought = generator.whole(price)
        if not bought:
            return None
        packing = Assembler(packer, pricing, limits, demand).run(bought, generator.dual_values)
        return None if packing.left.any() or packing.price >= price else packing

    def _patterns(self, candidates: list[NodeCandidate]) -> Amounts:
        return loads_of([made.counts for made in candidates], len(self._packer.items))


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
    return loads_of(list(dict.fromkeys(made.counts for made in packing.candidates)), len(packer.items))


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
            held = np.flatnonzero(planned.counts).tolist()
            pattern = tuple((item, int(planned.counts[item])) for item in held)
            # Without limits, one node is like the other.
            times = planned.number if limits.any else 1
            for _ in range(times):
                made = make_candidate(
                    packer.instance, packer.columns, limits, packer.items, (column, pattern)
                )
                if made is None:
                    break
                copies = planned.number // times
                packing.candidates.extend([made] * copies)
                rest -= planned.counts * copies
                limits.take(made)
        return Packing(packing.candidates, rest), limits
