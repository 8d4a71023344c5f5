"""Lots: the items as packing sees them. Bundles that no rule of packing tells apart are one lot.

A kind is everything that packing must know of an item but for its requests. Which kinds cannot share a node
is worked out once per pair of kinds, not per pair of items.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.model.ports import HostPort
from dovetail.model.requirement import Requirements
from dovetail.solve.demand.match import port_clashes
from dovetail.solve.demand.topology import ANTI, APART, SPREAD
from dovetail.solve.packing.bins import Bin
from dovetail.solve.placing.items import Item
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.masks import share
from dovetail.solve.supply.world import World, pinned

_T = TypeVar("_T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Kind:
    """What packing must know of an item but for its requests."""

    wanted: Requirements  # with the pins
    pools: tuple[int, ...]
    guests: tuple[int, ...]  # pools that let its pods in, whether or not nodes are bought there for its sake
    ports: tuple[HostPort, ...]
    apart: tuple[int, ...]  # groups over hostnames whose pods it keeps off its node
    matching: tuple[int, ...]  # of the groups over hostnames that matter, those that count it, once per pod


@dataclass(frozen=True, slots=True)
class Lots:
    """L lots of K kinds. Rows are what a node has a certain amount of: seats for the pods of a spread."""

    items: list[Item]
    members: list[list[int]]  # per lot, the items that it is made of
    sizes: list[int]  # bundles per item
    kind: Amounts  # (L,)
    kinds: list[Kind]
    conflict: Mask  # (K, K): cannot share a node; on the diagonal: one bundle per node at most
    takes: Amounts  # (K, H)
    has: Amounts  # (H,)

    def split(self, bins: Sequence[Bin]) -> list[Bin]:
        """The same nodes with counts of items instead of lots; the first items of a lot go first."""
        owed = [[(item, self.sizes[item]) for item in reversed(members)] for members in self.members]
        return [replace(made, counts=tuple(sorted(_drawn(made.counts, owed)))) for made in bins]


def _drawn(counts: Sequence[tuple[int, int]], owed: list[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    found = []
    for lot, number in counts:
        while number:
            item, left = owed[lot].pop()
            taken = min(left, number)
            found.append((item, taken))
            number -= taken
            if left > taken:
                owed[lot].append((item, left - taken))
    return found


def lots(world: World, items: Sequence[Item]) -> Lots:
    """The items, those that packing cannot tell apart as one."""
    even, apart = _rules(world, items)
    known: dict[Kind, int] = {}
    alike: dict[tuple[object, ...], int] = {}  # what a kind is made of -> its number
    guests: dict[tuple[object, ...], tuple[int, ...]] = {}
    found: dict[tuple[int, bytes], list[int]] = {}
    for index, item in enumerate(items):
        shapes = [(world.shapes[shape], level) for shape, level in item.kinds]
        ladders = tuple([(shape.ladder, level, shape.matching) for shape, level in shapes])
        memo = (item.wanted, item.pins, item.pools, item.ports, ladders)
        number = alike.get(memo)
        if number is None:
            kind = _kind(world, item, (even, apart), guests)
            number = alike[memo] = known.setdefault(kind, len(known))
        found.setdefault((number, item.vector.tobytes()), []).append(index)
    members = list(found.values())
    merged = [
        items[same[0]]
        if len(same) == 1
        else replace(items[same[0]], bundles=[bundle for index in same for bundle in items[index].bundles])
        for same in members
    ]
    kinds = list(known)
    conflict = _conflicts(kinds)
    takes, has = _rows(world, kinds, sorted(even), conflict)
    numbers = np.array([kind for kind, _ in found], dtype=np.int64)
    return Lots(merged, members, [len(item.bundles) for item in items], numbers, kinds, conflict, takes, has)


def _rules(world: World, items: Sequence[Item]) -> tuple[frozenset[int], frozenset[int]]:
    """Groups over hostnames that some item owns: spreads, and those that keep pods apart."""
    groups = world.topology.groups
    levels = dict.fromkeys(kind for item in items for kind in item.kinds)
    owned = dict.fromkeys(
        group for shape, level in levels for group in world.shapes[shape].levels[level].owned
    )
    here = [group for group in owned if groups[group].id.key == HOSTNAME]
    even = frozenset(group for group in here if groups[group].id.kind == SPREAD)
    return even, frozenset(group for group in here if groups[group].id.kind in (ANTI, APART))


def _kind(
    world: World,
    item: Item,
    groups: tuple[frozenset[int], frozenset[int]],
    guests: dict[tuple[object, ...], tuple[int, ...]],
) -> Kind:
    even, apart = groups
    shapes = [(world.shapes[shape], level) for shape, level in item.kinds]
    matching = [group for shape, _ in shapes for group in shape.matching if group in even or group in apart]
    owned = {group for shape, level in shapes for group in shape.levels[level].owned if group in apart}
    rules = [shape.levels[level].rules for shape, level in shapes]
    key = (item.wanted, *((each.tolerations, each.soft_taints, each.needed()) for each in rules))
    if key not in guests:
        guests[key] = tuple(
            table.index
            for table in world.tables
            if all(world.suits(table.index, item.wanted, each) for each in rules)
        )
    wanted = item.wanted.add(*pinned(item.pins))
    return Kind(wanted, item.pools, guests[key], item.ports, tuple(sorted(owned)), tuple(sorted(matching)))


def _conflicts(kinds: Sequence[Kind]) -> Mask:
    """Which kinds cannot share a node: by anti-affinity, by host ports, by labels that no node has at once.

    Labels that instance types differ in are seen in the columns as well, those of the pool's making are not.
    """
    groups = sorted({group for kind in kinds for group in kind.apart})
    owns = _counts([kind.apart for kind in kinds], groups) > 0
    counted = _counts([kind.matching for kind in kinds], groups) > 0
    repelled = share(owns, counted.T)
    result: Mask = repelled | repelled.T
    result |= port_clashes([kind.ports for kind in kinds])
    result |= _pairwise([kind.wanted for kind in kinds], _clash)
    return result


def _counts(many: Sequence[tuple[int, ...]], groups: Sequence[int]) -> Amounts:
    """How often each of these tuples has each group, (K, G). Takes as long as the tuples are in all."""
    at = {group: column for column, group in enumerate(groups)}
    found = np.zeros((len(many), len(groups)), dtype=np.int64)
    for row, each in enumerate(many):
        for group in each:
            if group in at:
                found[row, at[group]] += 1
    return found


def _pairwise(values: Sequence[_T], test: Callable[[_T, _T], bool]) -> Mask:
    """A symmetric test of all pairs that differ, worked out once per pair of different values."""
    different = list(dict.fromkeys(values))
    number = {each: index for index, each in enumerate(different)}
    result = np.zeros((len(different), len(different)), dtype=np.bool_)
    for row, mine in enumerate(different):
        for column in range(row):
            result[row, column] = result[column, row] = test(mine, different[column])
    of = np.array([number[each] for each in values], dtype=np.int64)
    spread: Mask = result[np.ix_(of, of)]
    return spread


def _clash(mine: Requirements, other: Requirements) -> bool:
    return not mine.overlaps(other)


def _rows(world: World, kinds: Sequence[Kind], even: list[int], conflict: Mask) -> tuple[Amounts, Amounts]:
    """Spreads over hostnames as rows (K, H) and what a node has of each (H,).

    A row of which a node never holds two bundles is a conflict instead, and left out.
    """
    takes = _counts([kind.matching for kind in kinds], even)
    has = np.array([world.topology.groups[group].id.max_skew for group in even], dtype=np.int64)
    kept = []
    for row, most in enumerate(has.tolist()):
        asked = np.flatnonzero(takes[:, row])
        amounts = takes[asked, row]
        if len(asked) and amounts.max() <= most < 2 * amounts.min():
            conflict[np.ix_(asked, asked)] = True
        else:
            kept.append(row)
    return takes[:, kept], has[kept]
