"""A cheaper packing by column generation, where nodes do not compete for limits or reservations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.solve.packing.bins import make_bin
from dovetail.solve.packing.generate import Generator, Purchase
from dovetail.solve.packing.market import market
from dovetail.solve.packing.pack import Packer, Packing
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts
from dovetail.solve.supply.limits import Limits


@dataclass(frozen=True, slots=True)
class Refined:
    """A packing, what the items are worth (I,), and what the plan costs in fractions of nodes."""

    packing: Packing
    worth: Floats
    cost: float


def refine(packer: Packer, start: Packing, limits: Limits) -> Refined:
    """A packing of all items, `start` itself where nothing cheaper was found. Needs `not limits.any`."""
    columns = packer.columns
    goods = market(
        packer.feasible & ~columns.reserved,
        packer.room,
        columns.price,
        packer.vectors,
        packer.conflict,
        packer.demand,
    )
    if not len(goods.price):
        return Refined(start, np.zeros(len(packer.items)), 0.0)
    generator = Generator(goods, packer.world.work)
    bought = [
        (purchase, int(goods.column[purchase.column])) for purchase in generator.run(_patterns(start, packer))
    ]
    packing = _assembled(packer, bought, generator.worth, limits)
    left, best = int(packing.left.sum()), int(start.left.sum())
    if (left, packing.price, len(packing.bins)) >= (best, start.price, len(start.bins)):
        packing = start
    return Refined(packing, generator.worth, generator.cost)


def _patterns(packing: Packing, packer: Packer) -> Amounts:
    """The different loads of a packing's nodes, (M, I)."""
    loads = list(dict.fromkeys(made.counts for made in packing.bins))
    counts = np.zeros((len(loads), len(packer.items)), dtype=np.int64)
    for row, load in enumerate(loads):
        for item, number in load:
            counts[row, item] = number
    return counts


def _assembled(packer: Packer, bought: list[tuple[Purchase, int]], worth: Floats, limits: Limits) -> Packing:
    """The nodes, each checked against every rule; what a rule forbids is packed in the plain way."""
    rest = packer.demand.copy()
    packing = Packing([], rest)
    for purchase, column in bought:
        held = np.flatnonzero(purchase.counts).tolist()
        load = tuple((item, int(purchase.counts[item])) for item in held)
        made = make_bin(packer.world, packer.columns, limits, packer.items, (column, load))
        if made is not None:
            packing.bins.extend([made] * purchase.number)
            rest -= purchase.counts * purchase.number
    if rest.any():
        others = packer.pack(worth, packer.columns.price.astype(np.float64), limits, rest)
        return Packing([*packing.bins, *others.bins], others.left)
    return packing
