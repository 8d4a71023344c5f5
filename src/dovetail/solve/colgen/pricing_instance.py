"""What is for sale to a fixed list of items, thinned out to what can ever be the best choice."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from dovetail.model.arrays import BLOCK, Amounts, Mask, alike, distinct, holding, share
from dovetail.solve.tolerances import FEW, SEVERAL, WIDE


@dataclass(frozen=True, slots=True)
class PricingInstance:
    """I items and K columns, the cheapest first. Amounts are integers: "fits" has no tolerance."""

    column: Amounts  # (K,) where the column stands among all
    capacity: Amounts  # (K, R), not negative
    price: Amounts  # (K,) nano-dollars per hour, ascending
    feasible: Mask  # (K, I)
    vectors: Amounts  # (I, R)
    conflict: Mask  # (I, I): cannot share a node; on the diagonal: one at most
    demand: Amounts  # (I,) of items that some column can hold, else 0
    own: Mask  # (K, I): feasible, and a node may be bought for the item's sake
    takes: Amounts  # (K, L): what a node takes of limits that all nodes share
    most: Amounts  # (L,): how much there is of them, not negative

    def copies(self) -> Amounts:
        """How many of each item alone a node of each column holds, at most the demand, (K, I)."""
        result = copies_in(self.capacity, self.vectors, self.demand, self.feasible.T).T
        return np.where(np.diagonal(self.conflict), np.minimum(result, 1), result)

    def alike(self, other: PricingInstance) -> bool:
        """True iff the same things are for sale to the same items, wherever they stand among all."""
        return all(
            np.array_equal(getattr(self, each.name), getattr(other, each.name))
            for each in fields(self)
            if each.name != "column"
        )

    def only(self, columns: Amounts) -> PricingInstance:
        """Some of the columns, in their order, for sale to the same items."""
        return replace(
            self,
            column=self.column[columns],
            capacity=self.capacity[columns],
            price=self.price[columns],
            feasible=self.feasible[columns],
            own=self.own[columns],
            takes=self.takes[columns],
        )

    def coarse(self, sizes: int) -> tuple[PricingInstance, Amounts] | None:
        """The market with items that differ in rules alone as one, and which one each item is, (I,); None if
        that leaves more than half as many.

        All resources but the first `sizes` are rules; of these stay those that ask for most nodes, or half
        as many, and the sum of all others. That only allows more.
        """
        nodes = self.demand @ self.vectors / np.maximum(self.capacity.max(axis=0, initial=1), 1)
        kept = (2 * nodes >= nodes[sizes:].max(initial=0)) | (np.arange(len(nodes)) < sizes)
        vectors, capacity = (
            np.column_stack([table[:, kept], table[:, ~kept].sum(axis=1)])
            for table in (self.vectors, self.capacity)
        )
        marks = (np.packbits(each.T, axis=1) for each in (self.feasible, self.own))
        told_apart = np.column_stack([vectors, *marks])
        _, first, item = np.unique(told_apart, axis=0, return_index=True, return_inverse=True)
        if 2 * len(first) > len(item):
            return None
        item = item.reshape(-1)
        merged = replace(
            self,
            capacity=capacity,
            feasible=self.feasible[:, first],
            vectors=vectors[first],
            conflict=np.zeros((len(first), len(first)), dtype=np.bool_),
            demand=np.bincount(item, self.demand).astype(np.int64),
            own=self.own[:, first],
        )
        return merged, item

    def in_units(self) -> PricingInstance:
        """The market with further resources: how many whole units there are of another.

        Of W a node holds the floor of W / u, and an item that asks for w the floor of w / u. What fits obeys
        that too, so nothing changes but what a linear program proves. One request per octave is a unit. Of
        few items all patterns are looked at anyway.
        """
        if len(self.demand) <= FEW:
            return self
        vectors, capacity = [self.vectors], [self.capacity]
        for row in range(self.vectors.shape[1]):
            some = np.unique(self.vectors[self.vectors[:, row] > 1, row])
            units = some[np.unique(np.log2(some).astype(np.int64), return_index=True)[1]]
            vectors.append(self.vectors[:, row, None] // units)
            capacity.append(self.capacity[:, row, None] // units)
        return replace(self, vectors=np.hstack(vectors), capacity=np.hstack(capacity))

    def cheapest(self, counts: Amounts, *, owned: bool = False) -> Amounts:
        """The cheapest column that holds each of the patterns (N, I), as a position in K; -1 if none does.

        If `owned`, only columns count that may be bought for one of the pattern's items.
        """
        # Most patterns hold few of the items: what is about the others need not be looked at.
        some = np.flatnonzero(counts.any(axis=0))
        counts = counts[:, some]
        used, present = counts @ self.vectors[some], counts > 0
        held = holding(used, self.capacity) & ~share(present, ~self.feasible[:, some].T)
        held &= ~self.clashes(counts, some)[:, None]
        if owned:
            held &= share(present, self.own[:, some].T)
        found: Amounts = np.where(held.any(axis=1), held.argmax(axis=1), -1)
        return found

    def clashes(self, counts: Amounts, items: Amounts) -> Mask:
        """Whether each of the patterns (N, J) of these items (J,) holds two that cannot share a node,
        (N,).
        """
        conflict = self.conflict[np.ix_(items, items)]
        if not conflict.any():
            return np.zeros(len(counts), dtype=np.bool_)
        result: Mask = np.any((counts > 1) & np.diagonal(conflict), axis=1)
        pairs = np.triu(conflict, 1)
        # Few of many items are in such a pair, and few of many patterns hold several of those.
        tied = np.flatnonzero(pairs.any(axis=0) | pairs.any(axis=1))
        held = counts[:, tied] > 0
        several = np.flatnonzero(held.sum(axis=1) > 1)
        if len(several):
            held = held[several]
            result[several] |= (share(held, pairs[np.ix_(tied, tied)]) & held).any(axis=1)
        return result


def pricing_instance(
    feasible: Mask,
    capacity: Amounts,
    price: Amounts,
    vectors: Amounts,
    conflict: Mask,
    demand: Amounts,
    *,
    own: Mask | None = None,
    limits: tuple[Amounts, Amounts] | None = None,
) -> PricingInstance:
    """A market of all columns that are given: `feasible` and `own` (I, C), `capacity` (C, R), `price` (C,).

    `limits` are what a node of each column takes of what all nodes share (C, L), and how much there is (L,).
    Items of which a node holds only one get one more resource, of which every node has one.
    """
    groups = cliques(conflict)[:SEVERAL]
    takes = np.zeros((len(vectors), len(groups)), dtype=np.int64)
    for row, group in enumerate(groups):
        takes[group, row] = 1
    vectors = np.concatenate([vectors, takes], axis=1)
    capacity = np.concatenate([capacity, np.ones((len(capacity), len(groups)), dtype=np.int64)], axis=1)
    own = feasible if own is None else own
    takes, most = limits or (np.zeros((len(capacity), 0), dtype=np.int64), np.zeros(0, dtype=np.int64))
    kept = _undominated(np.concatenate([feasible, own]).T, np.concatenate([capacity, -takes], axis=1), price)
    return PricingInstance(
        column=kept,
        capacity=np.maximum(capacity[kept], 0),
        price=price[kept],
        feasible=feasible.T[kept],
        vectors=vectors,
        conflict=conflict,
        demand=np.where(feasible.any(axis=1), demand, 0),
        own=own.T[kept],
        takes=takes[kept],
        most=most,
    )


def copies_in(capacity: Amounts, vectors: Amounts, demand: Amounts, allowed: Mask) -> Amounts:
    """How many of each item alone a capacity (N, R) holds, at most the demand, (I, N). `allowed` (I, N)."""
    result = np.where(allowed, demand[:, None], 0)
    for row in range(vectors.shape[1]):
        need = vectors[:, row]
        asked = need > 0
        result[asked] = np.minimum(result[asked], capacity[:, row][None, :] // need[asked][:, None])
    return result


def usable(capacity: Amounts, vectors: Amounts, demand: Amounts) -> Amounts:
    """What so many items (I,) can fill of each capacity (N, R) at most: the largest sum of their requests
    `vectors` (I, R) within it, resource by resource.

    Few items have few sums: capacities of different sizes are of the same use to them, and most offerings are
    dominated then. Time: O(N R log S) beside the S sums.
    """
    result = capacity.copy()
    for row in range(vectors.shape[1]):
        need, top = vectors[:, row], int(capacity[:, row].max(initial=0))
        sums = _sums(need, demand, top)
        if sums is None:
            whole = min(float(need.astype(np.float64) @ demand), float(top))
            np.minimum(result[:, row], int(whole), out=result[:, row])
        else:
            at = np.searchsorted(sums, capacity[:, row], side="right") - 1
            result[:, row] = sums[np.maximum(at, 0)]
    return result


def _sums(sizes: Amounts, demand: Amounts, top: int) -> Amounts | None:
    """All sums up to `top` of so many of these sizes (I,), in their order; None where there are too many."""
    found = np.zeros(1, dtype=np.int64)
    for size in np.unique(sizes[(sizes > 0) & (demand > 0)]).tolist():
        copies = min(int(demand[sizes == size].sum()), top // size)
        if len(found) * (copies + 1) > WIDE:
            return None
        found = np.unique(found[:, None] + size * np.arange(copies + 1))
        found = found[found <= top]
    return found


def cliques(conflict: Mask) -> list[list[int]]:
    """Groups of items of which a node holds one at most; every item that is apart from itself is in one.

    `conflict` (I, I). The largest groups come first; pairs that no group covers are left to be checked.
    """
    self_repelling = np.flatnonzero(np.diagonal(conflict))
    degree = conflict[np.ix_(self_repelling, self_repelling)].sum(axis=1)
    waiting = self_repelling[np.argsort(-degree, kind="stable")].tolist()
    found: list[list[int]] = []
    while waiting:
        group: list[int] = []
        for item in waiting:
            if conflict[item, group].all():
                group.append(item)
        found.append(sorted(group))
        inside = set(group)
        waiting = [item for item in waiting if item not in inside]
    return sorted(found, key=lambda group: (-len(group), group))


def undominated(feasible: Mask, capacity: Amounts, price: Amounts, protected: Mask) -> Amounts:
    """Columns worth looking at: none that another beats in price and capacity for all the items it can hold.

    `feasible` is (I, C). Protected columns are always kept.
    """
    useful = np.flatnonzero(feasible.any(axis=0))
    if len(useful) <= SEVERAL:
        return useful
    order = useful[np.lexsort((-capacity[useful].sum(axis=1), price[useful]))]
    # The first of equal ones is enough: types are sold in many zones.
    sizes = np.column_stack([capacity[order], np.where(protected[order], order, -1)]).view(np.uint8)
    some = order[distinct(np.hstack([np.packbits(feasible[:, order], axis=0).T, sizes]))]
    groups = [some[group] for group in alike(feasible[:, some].T)]
    kept = [group if len(group) == 1 else _unbeaten(group, capacity, protected) for group in groups]
    return np.sort(np.concatenate(kept))


def _unbeaten(group: Amounts, capacity: Amounts, protected: Mask) -> Amounts:
    """Of columns in order of price, those that no earlier one replaces; protected ones replace none.

    What a replaced one would replace, another does already: to compare with those that stay is enough, so it
    takes time by columns times those that stay.
    """
    kept: list[Amounts] = []
    front = np.zeros((0, capacity.shape[1]), dtype=np.int64)  # capacities of those that may replace others
    for start in range(0, len(group), BLOCK):
        block = group[start : start + BLOCK]
        block = block[protected[block] | ~holding(capacity[block], front).any(axis=1)]
        replaces = np.tril(holding(capacity[block], capacity[block]), -1) & ~protected[block]
        block = block[protected[block] | ~replaces.any(axis=1)]
        kept.append(block)
        front = np.concatenate([front, capacity[block[~protected[block]]]])
    return np.concatenate(kept)


def _undominated(feasible: Mask, capacity: Amounts, price: Amounts) -> Amounts:
    """Columns, by price, that no cheaper one replaces in capacity and for every item. `feasible` is (C,
    I).
    """
    # First those that hold the same items, of which most go: of few pods it took six times as long without.
    useful = undominated(feasible.T, capacity, price, np.zeros(len(price), dtype=np.bool_))
    order = useful[np.lexsort((useful, -capacity[useful].sum(axis=1), price[useful]))]
    # Items that the same columns may hold are one here; its bits tell what a column holds.
    holds = np.packbits(feasible[:, [group[0] for group in alike(feasible.T)]], axis=1)
    kept: list[int] = []
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        rivals = np.concatenate([np.array(kept, dtype=np.int64), block])
        # A rival counts only if it stands earlier in the order; that order is by price.
        earlier = np.tri(len(block), len(rivals), k=len(kept) - 1, dtype=np.bool_)
        one, other = np.nonzero(earlier & holding(capacity[block], capacity[rivals]))
        beaten = one[~(holds[block[one]] & ~holds[rivals[other]]).any(axis=1)]
        kept.extend(np.delete(block, beaten).tolist())
    return np.array(kept, dtype=np.int64)
