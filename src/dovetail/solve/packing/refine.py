"""A cheaper packing by column generation; what limits refuse of it is packed in the plain way."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.solve.packing.bins import loads_of, make_bin
from dovetail.solve.packing.compact import whole_nodes
from dovetail.solve.packing.generate import Generator, Purchase, Told
from dovetail.solve.packing.market import Market
from dovetail.solve.packing.pack import Packer, Packing, rank
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts
from dovetail.solve.supply.limits import Limits

_FEW = 64  # items; with more there are too many patterns to try them all
MANY_NODES = 100  # of so many, whole ones cost about what parts of nodes do
_PODS = 150  # bundles; with fewer the search for a proof goes through all loads
_LITTLE = 0.05  # of all bundles: packing them takes next to no time
_OPTIMAL = 1.0005  # times what any packing costs: near enough


@dataclass(frozen=True, slots=True)
class Refined:
    """A packing, what the items are worth (I,), about what any packing of all items costs at least, and what
    of that is proven."""

    packing: Packing
    worth: Floats
    cost: float
    told: Told | None = None


def refine(packer: Packer, start: Packing, limits: Limits) -> Refined:
    """A packing of all items within the limits; `start` itself where nothing cheaper was found.

    Reserved capacity is not looked at, so where there is some, `start` may well be the better one. `limits`
    are those before anything was bought, and are not changed.
    """
    goods = packer.unreserved
    if not len(goods.price):
        return Refined(start, np.zeros(len(packer.items)), 0.0)
    # Where rules tie pods together, whole nodes prove little: they are looked at last.
    tied = packer.visitors or any(shape.involved for shape in packer.world.shapes)
    idle = tied or len(start.bins) > MANY_NODES
    assembler = Assembler(packer, goods, limits, packer.demand)
    told = Told(goods)
    if not idle:
        enough = start.price if not start.left.any() else float("inf")
        found = whole_nodes(goods, packer.world.work, limit=enough)
        bought = [Purchase(load.counts, load.column, load.number) for load in found.plan]
        if (whole := assembler.whole(bought)) is not None:
            start = min(start, whole, key=rank)
        told = replace(told, rooms=found.bound)
    if start.price <= told.rooms * _OPTIMAL and not start.left.any():
        return Refined(start, np.zeros(len(packer.items)), told.rooms, told)
    generator = Generator(goods, packer.world.work)
    packing = min(start, assembler.run(generator.run(_patterns(start, packer)), generator.worth), key=rank)
    least = max(told.rooms, generator.cost)
    # Where no rule is about several of few pods, the search for a proof does the same and knows more ways.
    again = int(packer.demand.sum()) > _PODS or any(shape.involved for shape in packer.world.shapes)
    if again and len(packer.items) <= _FEW and not packing.left.any() and packing.price > least * _OPTIMAL:
        if tied:
            least = max(least, whole_nodes(goods, packer.world.work, pods=True).bound)
        if packing.price > least * _OPTIMAL:
            better = assembler.run(generator.whole(packing.price), generator.worth)
            packing = min(packing, better, key=rank)
    told = replace(told, worth=generator.worth, most=generator.most)
    return Refined(packing, generator.worth, least, told)


def _patterns(packing: Packing, packer: Packer) -> Amounts:
    """The different loads of a packing's nodes, (M, I)."""
    return loads_of(list(dict.fromkeys(made.counts for made in packing.bins)), len(packer.items))


class Assembler:
    """Makes nodes of patterns for a demand (I,), each checked against every rule."""

    def __init__(self, packer: Packer, goods: Market, limits: Limits, demand: Amounts) -> None:
        self._packer = packer
        self._goods = goods
        self._limits = limits
        self._demand = demand

    def run(self, bought: list[Purchase], worth: Floats) -> Packing:
        """The nodes; what a rule or a limit forbids is packed in the plain way, at worths (I,).

        When it is late and much is left, it stays left: there is a packing of all of it already.
        """
        packer = self._packer
        packing, limits = self._made(bought)
        rest = packing.left
        much = rest.sum() > _LITTLE * self._demand.sum()
        if rest.any() and not (much and packer.world.work.late):
            others = packer.pack(worth, packer.columns.price.astype(np.float64), limits, rest)
            return Packing([*packing.bins, *others.bins], others.left)
        return packing

    def whole(self, bought: list[Purchase]) -> Packing | None:
        """The nodes, if they are there and hold all items."""
        packing, _ = self._made(bought)
        return None if packing.left.any() else packing

    def _made(self, bought: list[Purchase]) -> tuple[Packing, Limits]:
        """The nodes that no rule and no limit forbids, with what they leave."""
        packer, limits = self._packer, self._limits.copy()
        rest = self._demand.copy()
        packing = Packing([], rest)
        for purchase in bought:
            column = int(self._goods.column[purchase.column])
            held = np.flatnonzero(purchase.counts).tolist()
            load = tuple((item, int(purchase.counts[item])) for item in held)
            # Without limits, one node is like the other.
            times = purchase.number if limits.any else 1
            for _ in range(times):
                made = make_bin(packer.world, packer.columns, limits, packer.items, (column, load))
                if made is None:
                    break
                copies = purchase.number // times
                packing.bins.extend([made] * copies)
                rest -= purchase.counts * copies
                limits.take(made)
        return Packing(packing.bins, rest), limits
