"""The best packing of a list of items: several opinions of what they are worth, then refinement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.solve.packing.improve import Improver
from dovetail.solve.packing.pack import Packer, Packing
from dovetail.solve.packing.refine import refine
from dovetail.solve.placing.items import Item
from dovetail.solve.supply.columns import Columns, Floats
from dovetail.solve.supply.limits import Limits
from dovetail.solve.supply.world import World

_MANY_OPINIONS = 300_000  # units of work after which the first opinion that places all is taken
_GOOD = 1.002  # times the price in fractions: local search has nothing to find there
_MANY = 150  # items; beyond it patterns are found too slowly to start from nothing
_FEW = 2_000  # bundles; below it a greedy packing to start from costs little
_Opinion = tuple[Floats, Floats, bool]


@dataclass(frozen=True, slots=True)
class Choice:
    """Nodes to buy, what they leave of the limits, and what pods of a shape turned out to be worth."""

    packing: Packing
    limits: Limits
    worth: dict[int, float]  # nano-dollars per hour; of shapes with items of their own


def choose(world: World, columns: Columns, start: Limits, items: list[Item]) -> Choice:
    """Buy nodes for the items within the limits. `start` is not changed."""
    packer = Packer(world, columns, items)
    values, price, _ = _opinions(packer, start)[0]
    least = float(
        sum(world.shapes[shape].value * len(item.bundles) for item in items for shape, _ in item.kinds)
    )
    if start.any:
        packing, limits = _greedy(packer, start)
        if world.work.left:
            packing, limits = Improver(packer, start).run(packing, values, least)
        return Choice(packing, limits, {})
    packing = Packing([], packer.demand.copy())
    if len(items) > _MANY or packer.demand.sum() < _FEW:
        packing = packer.pack(values, price, start.copy())
    refined = refine(packer, packing, start)
    packing = refined.packing
    visitors = bool((packer.guests & ~packer.feasible).any())  # the generator knows none
    if world.work.left and (visitors or packing.left.any() or packing.price > refined.cost * _GOOD):
        rival, _ = _greedy(packer, start)
        if _rank(rival) < _rank(packing):
            packing = rival
        packing, _ = Improver(packer, start).run(packing, values, max(least, refined.cost))
    return Choice(packing, start, _worth(items, refined.worth))


def _greedy(packer: Packer, start: Limits) -> tuple[Packing, Limits]:
    """The best packing under any of the opinions, and what it leaves of the limits."""
    best, limits = None, start
    for values, charge, only_if_left in _opinions(packer, start):
        if best is not None and only_if_left and not best.left.any():
            continue
        trial = start.copy()
        packing = packer.pack(values, charge, trial)
        if best is None or _rank(packing) < _rank(best):
            best, limits = packing, trial
        if packer.world.work.used > _MANY_OPINIONS and not best.left.any():
            break
    return best or Packing([], packer.demand.copy()), limits


def _rank(packing: Packing) -> tuple[int, int, int]:
    return int(packing.left.sum()), packing.price, len(packing.bins)


def _opinions(packer: Packer, start: Limits) -> list[_Opinion]:
    """What each item is worth and what each column is charged; the relaxation's prices first.

    The last ones spend limits and reservations sparingly; they are tried only if pods were left over.
    """
    shapes = packer.world.shapes
    worth = [sum(shapes[shape].value for shape, _ in item.kinds) for item in packer.items]
    by_duals = np.array(worth, dtype=np.float64)
    alone = packer.least_costs()
    by_duals = np.where(by_duals > 0, by_duals, alone)
    price = packer.columns.price.astype(np.float64)
    opinions = [
        (by_duals, price, False),
        (alone, price, False),
        (np.sqrt(by_duals * np.maximum(alone, 1e-9)), price, False),
    ]
    if start.any:
        each = np.ones_like(by_duals)
        scarce = start.shares() + 1e-12 * price
        opinions += [(by_duals, scarce, True), (each, scarce, True), (each, np.ones_like(price), True)]
    return opinions


def _worth(items: list[Item], worth: Floats) -> dict[int, float]:
    """Per shape the least worth of its items; a bundle of several pods tells nothing about one of them."""
    result: dict[int, float] = {}
    for item, value in zip(items, worth.tolist(), strict=True):
        if len(item.kinds) == 1:
            shape = item.kinds[0][0]
            result[shape] = min(value, result.get(shape, value))
    return result
