"""Aggregation: items that packing cannot tell apart are one lot, many lots of near-equal size one cell.

A kind is everything that packing must know of an item but for its requests. Which kinds cannot share a node
is worked out once per pair of kinds, not per pair of items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.model.arrays import Amounts, Floats, Mask, holding, numbered, share
from dovetail.model.labels import HOSTNAME
from dovetail.model.matching import port_clashes
from dovetail.model.ports import HostPort
from dovetail.model.requirement import Requirements
from dovetail.solve.assign.items import Item
from dovetail.solve.instance.instance import Instance, pinned
from dovetail.solve.instance.topology import ANTI, APART, SPREAD, Pins
from dovetail.solve.tolerances import ALIKE, FEW, MANY

_CREDIT = 0.1  # of a node's fair price: what a node gains in rank by the pods that need nodes of their own
_SLACK = 2.0  # times the fair price of a node: as dear it may be
# Times the credit, so a whole node's price: what such pods gain when it is decided which go first.
_PULL = 1 / _CREDIT
Counts = tuple[tuple[int, int], ...]  # (item or cell, bundles), ascending


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
class ItemClasses:
    """L lots of K kinds. Rows are what a node has a certain amount of: seats for the pods of a spread."""

    items: list[Item]
    members: list[list[int]]  # per lot, the items that it is made of
    sizes: list[int]  # bundles per item
    kind: Amounts  # (L,)
    kinds: list[Kind]
    conflict: Mask  # (K, K): cannot share a node; on the diagonal: one bundle per node at most
    takes: Amounts  # (K, H)
    has: Amounts  # (H,)

    def split(self) -> Callable[[Counts], Counts]:
        """Asked node by node: its counts of items instead of lots; the first items of a lot go first."""
        owed = [[(item, self.sizes[item]) for item in reversed(members)] for members in self.members]

        def drawn(counts: Counts) -> Counts:
            found = []
            for lot, number in counts:
                while number:
                    item, left = owed[lot].pop()
                    taken = min(left, number)
                    found.append((item, taken))
                    number -= taken
                    if left > taken:
                        owed[lot].append((item, left - taken))
            return tuple(sorted(found))

        return drawn


def item_classes(instance: Instance, items: Sequence[Item], ratio: float = 1.0) -> ItemClasses:
    """The items, those that packing cannot tell apart as one; with a ratio over 1, those that differ by no
    more than that in what they request as well, as the largest of them."""
    even, apart = _rules(instance, items)
    known: dict[Kind, int] = {}
    alike: dict[tuple[object, ...], int] = {}  # what a kind is made of -> its number
    guests: dict[tuple[object, ...], tuple[int, ...]] = {}
    found: dict[tuple[int, bytes], list[int]] = {}
    sizes = np.array([item.vector for item in items])
    sizes = on_grid(sizes, ratio) if ratio > 1 else sizes
    for index, item in enumerate(items):
        pod_classes = [(instance.pod_classes[pod_class], level) for pod_class, level in item.kinds]
        ladders = tuple([(pod_class.ladder, level, pod_class.matching) for pod_class, level in pod_classes])
        memo = (item.wanted, item.pins, item.pools, item.ports, ladders)
        number = alike.get(memo)
        if number is None:
            kind = _kind(instance, item, (even, apart), guests)
            number = alike[memo] = known.setdefault(kind, len(known))
        found.setdefault((number, sizes[index].tobytes()), []).append(index)
    members = list(found.values())
    merged = [_merged([items[index] for index in same]) for same in members]
    kinds = list(known)
    conflict = _conflicts(kinds)
    takes, has = _rows(instance, kinds, sorted(even), conflict)
    numbers = np.array([kind for kind, _ in found], dtype=np.int64)
    return ItemClasses(
        merged, members, [len(item.bundles) for item in items], numbers, kinds, conflict, takes, has
    )


def _merged(alike: list[Item]) -> Item:
    if len(alike) == 1:
        return alike[0]
    bundles = [bundle for item in alike for bundle in item.bundles]
    return replace(alike[0], bundles=bundles, vector=np.max([item.vector for item in alike], axis=0))


def _rules(instance: Instance, items: Sequence[Item]) -> tuple[frozenset[int], frozenset[int]]:
    """Groups over hostnames that some item owns: spreads, and those that keep pods apart. Left out are those
    of so few pods that may share a node that their rules are kept whoever shares one.
    """
    groups = instance.topology.groups
    levels = dict.fromkeys(kind for item in items for kind in item.kinds)
    owned = dict.fromkeys(
        group for pod_class, level in levels for group in instance.pod_classes[pod_class].levels[level].owned
    )
    here = {group for group in owned if groups[group].id.key == HOSTNAME}
    pods: dict[int, Counter[Pins]] = {}  # per group, by the labels that tell its pods apart
    for item in items if here and len(items) > FEW else ():
        for pod_class, level in item.kinds:
            one = instance.pod_classes[pod_class]
            for group in here.intersection((*one.matching, *one.levels[level].owned)):
                pods.setdefault(group, Counter())[item.pins] += len(item.bundles)
    for group, many in pods.items():
        apart = len({tuple([key for key, _ in pins]) for pins in many}) == 1
        here -= {group} if apart and max(many.values()) <= max(1, groups[group].id.max_skew) else set()
    even = frozenset(group for group in here if groups[group].id.kind == SPREAD)
    return even, frozenset(group for group in here if groups[group].id.kind in (ANTI, APART))


def _kind(
    instance: Instance,
    item: Item,
    groups: tuple[frozenset[int], frozenset[int]],
    guests: dict[tuple[object, ...], tuple[int, ...]],
) -> Kind:
    even, apart = groups
    either = even | apart
    pod_classes = [(instance.pod_classes[pod_class], level) for pod_class, level in item.kinds]
    matching = [group for one, _ in pod_classes for group in one.matching if group in either]
    owned = {
        group for pod_class, level in pod_classes for group in pod_class.levels[level].owned if group in apart
    }
    rules = [pod_class.levels[level].rules for pod_class, level in pod_classes]
    key = (item.wanted, *((each.tolerations, each.soft_taints, each.needed()) for each in rules))
    if key not in guests:
        guests[key] = tuple(
            table.index
            for table in instance.tables
            if all(instance.suits(table.index, item.wanted, each) for each in rules)
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
    result |= _asunder([kind.wanted for kind in kinds])
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


def _asunder(wanted: Sequence[Requirements]) -> Mask:
    """Which demands (K,) no node meets both of, worked out once per pair of different ones."""
    different = list(dict.fromkeys(wanted))
    number = {each: index for index, each in enumerate(different)}
    result = np.zeros((len(different), len(different)), dtype=np.bool_)
    for row, mine in enumerate(different):
        for column in range(row):
            result[row, column] = result[column, row] = not mine.overlaps(different[column])
    of = np.array([number[each] for each in wanted], dtype=np.int64)
    spread: Mask = result[np.ix_(of, of)]
    return spread


def _rows(
    instance: Instance, kinds: Sequence[Kind], even: list[int], conflict: Mask
) -> tuple[Amounts, Amounts]:
    """Spreads over hostnames as rows (K, H) and what a node has of each (H,).

    A row of which a node never holds two bundles is a conflict instead, and left out.
    """
    takes = _counts([kind.matching for kind in kinds], even)
    has = np.array([instance.topology.groups[group].id.max_skew for group in even], dtype=np.int64)
    kept = []
    for row, most in enumerate(has.tolist()):
        asked = np.flatnonzero(takes[:, row])
        amounts = takes[asked, row]
        if len(asked) and amounts.max() <= most < 2 * amounts.min():
            conflict[np.ix_(asked, asked)] = True
        else:
            kept.append(row)
    return takes[:, kept], has[kept]


WIDER = 1.5  # power by which that ratio grows while there are too many cells
_NEAR = 1.15  # ratio of amounts that are near-equal; merging what is further apart wastes a lot of capacity,
_FAR_APART = 720  # so that it is done only where there are more lots than this


class CoarseClasses:
    """G cells of L lots. What holds a number of a cell holds as many of any lots in it."""

    def __init__(self, vectors: Amounts, kind: Amounts, feasible: Mask, capacity: Amounts) -> None:
        """`vectors` (L, R), `kind` (L,), `feasible` (L, C), by kind and size alone, `capacity` (C, R)."""
        self.cell = _cells(vectors, kind)
        self._merge(vectors, feasible, capacity)
        hopeless: Mask = np.asarray(~self.feasible.any(axis=1), dtype=np.bool_)
        lost = feasible.any(axis=1) & hopeless[self.cell]
        if lost.any():  # a cell is too large for every column, but not all of its lots are
            alone = np.where(lost, len(self.cell) + np.arange(len(self.cell)), self.cell)
            self.cell = np.unique(alone, return_inverse=True)[1].reshape(-1)
            self._merge(vectors, feasible, capacity)
        self.trivial = len(self.vectors) == len(kind)
        self.kind: Amounts = np.zeros(len(self.vectors), dtype=np.int64)
        self.kind[self.cell] = kind
        # Lots of a cell stand together, the largest first.
        scale = np.maximum(vectors.max(axis=0, initial=1), 1)
        self._order = np.lexsort((np.arange(len(kind)), -(vectors / scale).sum(axis=1), self.cell))
        self._start = np.searchsorted(self.cell[self._order], np.arange(len(self.vectors) + 1)).tolist()

    def _merge(self, vectors: Amounts, feasible: Mask, capacity: Amounts) -> None:
        order = np.argsort(self.cell, kind="stable")
        starts = np.searchsorted(self.cell[order], np.arange(int(np.max(self.cell, initial=-1)) + 1))
        self.vectors: Amounts = np.maximum.reduceat(vectors[order], starts, axis=0)
        self.feasible: Mask = feasible[order[starts]]  # of one for all: the largest amounts decide
        some = np.flatnonzero(self.feasible.any(axis=0))  # of a crowd these are few
        self.feasible[:, some] &= holding(self.vectors, capacity[some])

    def total(self, amounts: Amounts) -> Amounts:
        """Sums per cell (G,) of what is given per lot (L,)."""
        if self.trivial:
            return amounts
        return np.bincount(self.cell, amounts, minlength=len(self.kind)).astype(np.int64)

    def drawn(self, counts: Sequence[tuple[int, int]], left: Amounts) -> Amounts:
        """Lots (L,) for so many of each cell out of what is left (L,), the largest first."""
        taken = np.zeros_like(left)
        for cell, number in counts:
            mine = self._order[self._start[cell] : self._start[cell + 1]]
            before = np.cumsum(left[mine]) - left[mine]
            taken[mine] = np.clip(number - before, 0, left[mine])
        return taken


def _cells(vectors: Amounts, kind: Amounts) -> Amounts:
    """The cell of each lot (L,): of one kind, and in every resource within one step of a geometric grid."""
    if len(kind) <= MANY:
        return np.arange(len(kind))
    ratio = ALIKE
    most = max(MANY, 2 * len(np.unique(np.column_stack([kind, vectors > 0]), axis=0)))
    while True:
        cell = numbered(np.column_stack([kind, on_grid(vectors, ratio)]))
        if cell.max() < most:
            return cell
        ratio **= WIDER
        if ratio > _NEAR and len(kind) <= _FAR_APART:
            return np.arange(len(kind))


def on_grid(vectors: Amounts, ratio: float) -> Amounts:
    """Each amount as a place on a geometric grid of that ratio; 0 stays apart from everything."""
    places = np.floor(np.log(np.maximum(vectors, 1)) / np.log(ratio)).astype(np.int64)
    return np.where(vectors > 0, 1 + places, 0)


@dataclass(frozen=True, slots=True)
class NodeCountWeights:
    """What a greedy packing should look for next."""

    credit: Floats  # (K,) nano-dollars per hour, per bundle of a kind
    price: float  # nano-dollars per hour that the next node should cost at most

    @property
    def pull(self) -> Floats:
        """(K,) by how much more a bundle should seem worth when nodes are filled."""
        return self.credit * _PULL


class Crowds:
    """Sets of kinds of which a node holds only so much: rows, and cliques of kinds that conflict."""

    def __init__(self, item_classes: ItemClasses) -> None:
        cliques = _cliques(item_classes.conflict)
        self._takes = np.concatenate([item_classes.takes.T, cliques]).astype(np.float64)  # (F, K)
        self._has = np.concatenate([item_classes.has, np.ones(len(cliques), dtype=np.int64)])
        self._kinds = len(item_classes.kinds)

    def node_count_weights(self, left: Amounts, value: float) -> NodeCountWeights:
        """For bundles left per kind (K,) of so much worth in all."""
        none = NodeCountWeights(np.zeros(self._kinds), float("inf"))
        if not len(self._has):
            return none
        nodes = np.ceil(self._takes @ left / np.maximum(self._has, 1))
        most = float(nodes.max())
        if most < 1:
            return none
        fair = value / most
        tight = (nodes / most) ** 4
        credit: Floats = _CREDIT * fair / tight.sum() * (tight @ (self._takes > 0))
        return NodeCountWeights(credit, fair * _SLACK)


def _cliques(conflict: Mask) -> Amounts:
    """Sets of kinds of which a node takes one bundle, (F, K), grown greedily until each kind is in one."""
    found: list[Amounts] = []
    open_to = np.diagonal(conflict).copy()
    for kind in np.flatnonzero(open_to).tolist():
        if not open_to[kind]:
            continue
        clique = np.zeros(len(conflict), dtype=np.int64)
        clique[kind] = 1
        fits = conflict[kind] & np.diagonal(conflict)
        fits[kind] = False
        while fits.any():
            other = int(np.argmax(fits))
            clique[other] = 1
            fits &= conflict[other]
            fits[other] = False
        open_to[clique > 0] = False
        found.append(clique)
    return np.array(found, dtype=np.int64).reshape(len(found), len(conflict))


class SubstitutableClasses:
    """Knows which pods can stand in for which; `any` is False where none can."""

    def __init__(self, vectors: Amounts, kind: Amounts, feasible: Mask, conflict: Mask) -> None:
        """`vectors` (I, R), `kind` (I,), `feasible` (I, C), `conflict` (K, K) of kinds."""
        self._kind: list[int] = kind.tolist()
        self._feasible = feasible
        self._conflict: list[list[bool]] = conflict.tolist()
        groups: dict[bytes, list[int]] = {}
        # Items that fewer nodes suit go first: those that suit everywhere can wait.
        for item in np.argsort(feasible.sum(axis=1), kind="stable").tolist():
            groups.setdefault(vectors[item].tobytes(), []).append(item)
        self._groups = [groups[vector.tobytes()] for vector in vectors]
        self.any = len(groups) < len(vectors)

    def pattern(self, counts: Counts, column: int, left: Sequence[int]) -> Counts:
        """A pattern of the same requests, of what is left (I,), the named items first; () if there is
        none.
        """
        chosen: dict[int, int] = {}
        kinds: list[int] = []
        for item, number in counts:
            need = number
            for each in (item, *self._groups[item]):
                have = left[each] - chosen.get(each, 0)
                if have <= 0 or not self._feasible[each, column]:
                    continue
                apart = self._conflict[self._kind[each]]
                if any(apart[kind] for kind in kinds):
                    continue
                taken = min(need, have, 1) if apart[self._kind[each]] else min(need, have)
                chosen[each] = chosen.get(each, 0) + taken
                kinds.append(self._kind[each])
                need -= taken
                if not need:
                    break
            if need:
                return ()
        return tuple(sorted(chosen.items()))
