"""The best packing of a list of items: several opinions of what they are worth, then refinement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.model.arrays import Floats
from dovetail.solve.assign.items import Item
from dovetail.solve.budget import HALF, LITTLE
from dovetail.solve.colgen.generation import Generator, MarketProof
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.limits import Limits
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.pack.aggregation import ItemClasses, item_classes
from dovetail.solve.pack.greedy import CROWD, Packer, Packing, rank
from dovetail.solve.pack.local_search import Improver, joined, settled
from dovetail.solve.pack.node_candidate import NodeCandidate
from dovetail.solve.pack.refine import Refined, refine
from dovetail.solve.tolerances import GOOD

_Opinion = tuple[Floats, Floats, bool]


# Requests that differ by no more are one where there is no time to tell them apart: of 50,000 pods of 2,000
# classes packing takes 0.40 s then instead of 0.67, and nodes cost 4 % more; with 1.35 it is 0.03 s less, and
# they cost 9 % more.
_NEAR = 1.2


@dataclass(frozen=True, slots=True)
class Choice:
    """Nodes to buy, what they leave of the limits, and what pods of a pod class turned out to be worth."""

    packing: Packing
    limits: Limits
    dual_values: dict[int, float]  # nano-dollars per hour; of pod classes with items of their own
    market: MarketProof | None  # what is proven of the market for them
    cut: bool  # True iff bundles may be left for want of time alone


def choose(
    instance: Instance, columns: OfferingsTable, start: Limits, items: list[Item], begun: list[Generator]
) -> Choice:
    """Buy nodes for the items within the limits. `start` is not changed. `begun`: see refine."""
    for ratio in (_NEAR, 1.0) if instance.work.clock.hasty else (1.0,):
        merged = item_classes(instance, items, ratio)
        packer = Packer(instance, columns, merged)
        if packer.feasible.any(axis=1).all():  # else what is taken together may be too large
            break
    seeds = _seeds(packer, start)
    every = [(len(item.bundles), pod_class) for item in items for pod_class, _ in item.kinds]
    least = float(sum(instance.pod_classes[pod_class].value * number for number, pod_class in every))
    refined = Refined(seeds[0], np.zeros(len(packer.items)), least)
    bound = 0.0 if packer.visitors else least
    with instance.work.sparing(0.0, of_time=HALF if seeds[0].left.any() else 0.0):
        refinable = instance.work.left and len(packer.items) <= CROWD
        if refinable and seeds[0].price > least * GOOD:
            refined = refine(packer, seeds[0], start, begun)
            bound = max(bound, refined.cost)
        packing, limits = _improved(packer, start, refined, seeds, bound)
    dual_values = _dual_values(merged, items, refined.dual_values) if refined.dual_values.any() else {}
    return Choice(_split(merged, packing, items), limits, dual_values, refined.market, packer.cut)


def _seeds(packer: Packer, start: Limits) -> list[Packing]:
    """Greedy packings, the best first: one at least, more while they take but a small part of the work.

    Where limits let one place all pods, it is enough that some of the opinions were tried. Once the time is
    over, one that spares what is limited is tried if pods were left over.
    """
    work = packer.instance.work
    enough = work.after(LITTLE)
    found: list[Packing] = []
    spared = False
    for values, charge, only_if_left in _opinions(packer, start):
        if found and work.time_over and (spared or not only_if_left or len(packer.items) > CROWD):
            continue
        if found and (only_if_left or not work.until(enough)):
            if not any(packing.left.any() for packing in found):
                break
            if not only_if_left:
                continue
        found.append(settled(packer, packer.pack(values, charge, start.copy()), start))
        spared |= only_if_left
    return sorted(found, key=rank)


def _improved(
    packer: Packer, start: Limits, refined: Refined, seeds: list[Packing], bound: float
) -> tuple[Packing, Limits]:
    """The best packing once it and the seeds are improved, as far as the work allows."""
    work, best = packer.instance.work, refined.packing
    if work.left:
        by_duals = _by_duals(packer, packer.least_costs())
        tastes = [refined.dual_values if refined.dual_values.any() else by_duals, by_duals]
        improver, enough = Improver(packer, start), work.after(LITTLE)
        for number, each in enumerate((best, *seeds)):
            near = best.price <= bound * GOOD and not best.left.any()  # column generation knows no limits
            if near or not work.until(enough if number else np.inf):
                break
            better = improver.run(each, tastes[number % len(tastes)], bound)
            best = min(best, settled(packer, better, start), key=rank)
    best = joined(packer, best, start)
    return best, start.after(best.candidates)


def _split(merged: ItemClasses, packing: Packing, items: Sequence[Item]) -> Packing:
    if len(merged.items) == len(merged.sizes) or not packing.candidates:
        return packing
    candidates: list[NodeCandidate] = []
    last: NodeCandidate | None = None  # alike ones follow one another
    split = merged.split()
    parts = [split(made.counts) for made in packing.candidates]
    pairs = np.array([pair for counts in parts for pair in counts], dtype=np.int64).reshape(-1, 2)
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    vectors = np.array([item.vector for item in items])[pairs[:, 0]] * pairs[:, 1:]
    for made, counts, vector in zip(packing.candidates, parts, np.add.reduceat(vectors, starts), strict=True):
        same = made is last and candidates[-1].counts == counts
        candidates.append(candidates[-1] if same else replace(made, counts=counts, vector=vector))
        last = made
    return replace(packing, candidates=candidates)


def _opinions(packer: Packer, start: Limits) -> Iterator[_Opinion]:
    """What each item is worth and what each column is charged; what an item costs by itself first.

    Worth by itself makes patterns of items that complement each other look best, so that they are bought
    first and what is left over keeps its balance. The relaxation's prices know no such difference. The last
    ones spend limits and reservations sparingly; they are tried only if pods were left over.
    """
    price = packer.columns.price.astype(np.float64)
    if packer.roughly(start):  # all is first fit, which does not ask what items are worth
        yield np.zeros(len(packer.items)), price, False
        if start.tight:
            yield np.zeros(len(packer.items)), start.shares() + 1e-12 * price, True
        return
    alone = packer.least_costs()
    yield alone, price, False
    by_duals = _by_duals(packer, alone)
    yield np.sqrt(by_duals * np.maximum(alone, 1e-9)), price, False
    yield by_duals, price, False
    if start.tight:
        each = np.ones_like(by_duals)
        scarce = start.shares() + 1e-12 * price
        yield from ((by_duals, scarce, True), (each, scarce, True), (each, np.ones_like(price), True))


def _by_duals(packer: Packer, alone: Floats) -> Floats:
    """The worth of each item at the relaxation's prices; `alone` where that is nothing."""
    pod_classes = packer.instance.pod_classes
    dual_values = np.array(
        [sum(pod_classes[pod_class].value for pod_class, _ in item.kinds) for item in packer.items]
    )
    found: Floats = np.where(dual_values > 0, dual_values, alone)
    return found


def _dual_values(merged: ItemClasses, items: list[Item], dual_values: Floats) -> dict[int, float]:
    """Per pod class the least worth of its items; a bundle of several pods tells nothing about one of
    them.
    """
    result: dict[int, float] = {}
    for members, value in zip(merged.members, dual_values.tolist(), strict=True):
        for item in members:
            if len(items[item].kinds) == 1:
                pod_class = items[item].kinds[0][0]
                result[pod_class] = min(value, result.get(pod_class, value))
    return result
