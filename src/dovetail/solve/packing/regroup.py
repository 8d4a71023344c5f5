"""Making a packing cheaper: a few nodes at a time are packed anew, as well as can be."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

from dovetail.base.streams import stream
from dovetail.solve.packing.bins import Bin, loads_of
from dovetail.solve.packing.generate import Generator
from dovetail.solve.packing.pack import Packer, Packing
from dovetail.solve.packing.refine import MANY_NODES, Assembler
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts
from dovetail.solve.supply.limits import Limits

_FEW = 64  # items; with more, a group takes too long
_SIZES = (2, 3, 3, 4, 4, 5)  # nodes in a group, as likely as they stand here
_SHARE = 0.3  # of the work left
_GROUP = 60_000  # units of work for a group
_PATIENCE = 8  # groups per node that may gain nothing, one after the other
_ENOUGH = 1.002  # times the bound: no use in looking further
_ANY = 0.02  # of a mean node's price: so wasteful every node counts at least
_OPTIMAL = 0.9999  # share of a group's price: what must be paid is not worth another search


def regrouped(packer: Packer, packing: Packing, start: Limits, worth: Floats, bound: float) -> Packing:
    """The packing, or a cheaper one; `worth` (I,) tells which nodes waste money. `start` is not changed.

    `bound` is a price that cannot be beaten. Reserved nodes stay as they are.
    """
    work = packer.world.work
    suited = 1 < len(packing.bins) <= MANY_NODES and len(packer.items) <= _FEW and not packing.left.any()
    if not suited or packing.price <= bound * _ENOUGH or not work.left:
        return packing
    regrouping = _Regrouping(packer, start, worth)
    draw, part = stream(0, "solve", "regroup"), work.part(_SHARE)
    idle = 0
    while part.left and packing.price > bound * _ENOUGH and idle < _PATIENCE * len(packing.bins):
        with work.sparing(1 - min(1.0, _GROUP / max(1, work.rest)), of_time=0.0):
            better = regrouping.tried(packing, draw)
        idle = 0 if better else idle + 1
        packing = better or packing
    return packing


class _Regrouping:
    """Groups of one packer's nodes."""

    def __init__(self, packer: Packer, start: Limits, worth: Floats) -> None:
        self._packer, self._start, self._worth = packer, start, worth

    def tried(self, packing: Packing, draw: Random) -> Packing | None:
        """The packing with one group packed anew, for less; None if that was not found."""
        chosen = self._chosen(packing.bins, draw)
        kept = [made for index, made in enumerate(packing.bins) if index not in chosen]
        group = [packing.bins[index] for index in sorted(chosen)]
        anew = self._anew(group, self._start.after(kept)) if len(group) > 1 else None
        return replace(packing, bins=[*kept, *anew.bins]) if anew else None

    def _chosen(self, bins: list[Bin], draw: Random) -> set[int]:
        """Positions, those of wasteful nodes more likely."""
        loads = self._loads(bins)
        price = np.array([made.price for made in bins], dtype=np.float64)
        weight = np.maximum(price - loads @ self._worth, 0.0) + _ANY * price.mean()
        weight[[bool(made.reservation) for made in bins]] = 0.0
        size = min(draw.choice(_SIZES), int(np.count_nonzero(weight)))
        chosen: set[int] = set()
        while len(chosen) < size:
            chosen.update(draw.choices(range(len(bins)), weight.tolist()))
        return chosen

    def _anew(self, group: list[Bin], limits: Limits) -> Packing | None:
        """Nodes for all that the group holds, for less; None if none were found."""
        packer, loads = self._packer, self._loads(group)
        demand, price = loads.sum(axis=0), sum(made.price for made in group)
        every = packer.unreserved
        goods = replace(every.only(np.flatnonzero(every.price < price)), demand=demand)
        generator = Generator(goods, packer.world.work)
        generator.search(loads)
        if not packer.world.work.left or generator.bound > price * _OPTIMAL:
            return None
        bought = generator.whole(price)
        if not bought:
            return None
        packing = Assembler(packer, goods, limits, demand).run(bought, generator.worth)
        return None if packing.left.any() or packing.price >= price else packing

    def _loads(self, bins: list[Bin]) -> Amounts:
        return loads_of([made.counts for made in bins], len(self._packer.items))
