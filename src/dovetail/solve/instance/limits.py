"""What limits, reservations, shared quotas and spot diversity still allow while a plan grows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Protocol

import numpy as np

from dovetail.base.memo import by_identity
from dovetail.model import labels
from dovetail.model.arrays import ENDLESS, Amounts, Floats, Mask, holding
from dovetail.model.offering import InstanceType
from dovetail.model.problem import Options
from dovetail.solve.budget import STEP
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.instance.pool_table import NODES, PoolTable, bounded


class Bought(Protocol):
    """A node to buy, as far as it counts here."""

    @property
    def pool(self) -> int: ...
    @property
    def types(self) -> Sequence[int]: ...
    @property
    def column(self) -> int: ...
    @property
    def reservation(self) -> str: ...


class Limits:
    """Remaining amounts per pool. Invariant: what was taken never exceeds a limit, whatever type comes up.

    `shared quotas` (B,) is what is left of what all pools draw on: what a node is priced by counts there.
    """

    def __init__(self, instance: Instance, columns: OfferingsTable) -> None:
        self._instance = instance
        self._columns = columns
        self.remaining: dict[int, dict[str, int]] = {}
        self._takes: dict[int, Amounts] = {}  # per limited pool what each type takes of what remains, (T, L)
        for table in instance.tables:
            if table.pool.limits is not None:
                rest, self._takes[table.index] = table.ends
                self.remaining[table.index] = dict(rest)
        self.reservations = dict(columns.left)
        self.commons: Amounts = instance.commons.left.copy()

    def copy(self) -> Limits:
        """An independent copy, for a trial."""
        twin = copy(self)
        twin.remaining = {pool: dict(rest) for pool, rest in self.remaining.items()}
        twin.reservations = dict(self.reservations)
        twin.commons = self.commons.copy()
        return twin

    @property
    def any(self) -> bool:
        """True iff something is limited."""
        return bool(self.remaining) or self.tight

    @property
    def tight(self) -> bool:
        """True iff a plan may come to the end of something."""
        return bool(self._instance.tight) or bool(self.reservations) or self._instance.commons.any

    def refusing(self) -> frozenset[int]:
        """The pools of which something that limits and shared quotas allowed at first is refused by now."""
        if self._instance.commons.any and not self._drawable().all():
            # Of too little for one node there is no column.
            return frozenset(range(len(self._instance.tables)))
        start = Limits(self._instance, self._columns)
        return frozenset(pool for pool in self.remaining if (start.types(pool) & ~self.types(pool)).any())

    def shares(self) -> Floats:
        """The largest share of what remains of a limit that one node of each column takes, shape (C,)."""
        columns = self._columns
        result = np.zeros(len(columns.price), dtype=np.float64)
        for pool in self.remaining:
            mine = columns.pool == pool
            share = self._takes[pool] / np.maximum(self._rest(pool), 1)
            result[mine] = share.max(axis=1, initial=0.0)[columns.type[mine]]
        if self._instance.commons.any:
            share = self._instance.commons.draws / np.maximum(self.commons, 1)
            result = np.maximum(result, share.max(axis=1, initial=0.0))
        return result

    def allowed(self) -> Mask:
        """Columns that one more node may still be bought from, shape (C,)."""
        columns = self._columns
        result = np.ones(len(columns.price), dtype=np.bool_)
        for pool in self.remaining:
            mine = columns.pool == pool
            result[mine] &= self.types(pool)[columns.type[mine]]
        for index in np.flatnonzero(columns.reserved).tolist():
            result[index] &= self.reservations.get(columns.reservation[index], 0) > 0
        if self._instance.commons.any:
            result &= self._drawable()
        return result

    def open(self, pool: int) -> Mask:
        """Columns of a pool's table that its limits and the shared quotas still allow, reservations aside,
        (C,).
        """
        return self.types(pool)[self._instance.tables[pool].column_type] & self.drawable(pool)

    def drawable(self, pool: int) -> Mask:
        """Columns of a pool's table for which the shared quotas have enough left, (C,)."""
        start, end = self._instance.commons.start[pool : pool + 2]
        return np.asarray(
            np.all(self._instance.commons.draws[start:end] <= self.commons, axis=1), dtype=np.bool_
        )

    def no_greedier(self, pool: int, columns: Amounts) -> Amounts:
        """Those of a pool's columns whose types draw no more on what the first draws on than it does; money
        apart: a type has many prices, and the cheapest alone would be left.
        """
        draws = self._instance.commons.draws[self._instance.commons.start[pool] + columns]
        drawn = (draws[0] > 0) & ~self._instance.commons.money
        greedy = np.any(draws[:, drawn] > draws[0][drawn], axis=1)
        types = self._instance.tables[pool].column_type[columns]
        return columns[~np.isin(types, types[greedy])]

    def types(self, pool: int) -> Mask:
        """Types of a pool whose capacity is within what remains, shape (T,)."""
        if pool not in self.remaining:
            return np.ones(len(self._instance.tables[pool].types), dtype=np.bool_)
        within: Mask = np.all(self._takes[pool] <= self._rest(pool), axis=1)
        return within

    def no_larger(self, pool: int, chosen: int) -> Mask:
        """Types that use no more of what is limited than the chosen one, shape (T,)."""
        takes = self._takes[pool]
        within: Mask = np.all(takes <= takes[chosen], axis=1)
        return within

    def times(self, made: Bought, most: int) -> int:
        """How many such nodes, at most that many, may be bought if one may: 1 at least."""
        if made.pool in self.remaining:
            each = self._takes[made.pool][list(made.types)].max(axis=0)
            most = min([most, *(self._rest(made.pool)[each > 0] // each[each > 0]).tolist()])
        if made.reservation:
            most = min(most, self.reservations[made.reservation])
        if self._instance.commons.any:
            each = self._drawn(made)
            most = min([most, *(self.commons[each > 0] // each[each > 0]).tolist()])
        return max(most, 1)

    def take(self, made: Bought, number: int = 1) -> None:
        """Buy such nodes: of the pool's limits they take what the largest of their types does."""
        remaining = self.remaining.get(made.pool)
        if remaining is not None:
            most = self._takes[made.pool][list(made.types)].max(axis=0)
            for name, each in zip(remaining, most.tolist(), strict=True):
                remaining[name] -= number * each
        if made.reservation:
            self.reservations[made.reservation] -= number
        if self._instance.commons.any:
            self.commons -= number * self._drawn(made)

    def after(self, bought: Iterable[Bought]) -> Limits:
        """What such nodes leave, one of each."""
        left = self.copy()
        for made in bought:
            left.take(made)
        return left

    def give_back(self, made: Bought) -> None:
        """Undo the purchase of one."""
        self.take(made, -1)

    def _drawn(self, made: Bought) -> Amounts:
        """What such a node takes of the shared quotas, (B,)."""
        commons = self._instance.commons
        return np.asarray(commons.draws[commons.start[made.pool] + made.column], dtype=np.int64)

    def _drawable(self) -> Mask:
        """Columns of all pools for which the shared quotas have enough left, (C,)."""
        return np.asarray(np.all(self._instance.commons.draws <= self.commons, axis=1), dtype=np.bool_)

    def _rest(self, pool: int) -> Amounts:
        return np.array([bounded(amount) for amount in self.remaining[pool].values()], dtype=np.int64)


# Types of one nominal size differ by what their systems keep; what has less than this share is another size.
_ALIKE = 0.9
_SAME = (labels.ARCH, labels.OS)


def diverse_room(instance: Instance, columns: OfferingsTable, vectors: Amounts, some: Amounts) -> Amounts:
    """What packing may fill of each column, (C, R): all of it, but on spot only what its like hold as well.

    A type's like are those of its pool, its architecture and system that are sold as spot for at most
    `spot_tolerance` percent more, that have about as much of everything, and that hold each of `vectors` (I,
    R) that it holds. Those that leave most capacity count, up to `spot_diversity` types with the type itself.
    So nothing that fits alone is kept out, and a type without like is filled as any other. Only
    `some` columns are asked about.
    """
    options = instance.problem.options
    if options.spot_diversity < 2:
        return columns.capacity
    result = columns.capacity.copy()
    for table in instance.tables:
        spot = table.own & table.sold_as(labels.SPOT)
        if spot.any():
            mine = np.flatnonzero(columns.pool == table.index)[spot]
            sold = np.flatnonzero(np.bincount(columns.type[mine[np.isin(mine, some)]]))
            largest = _largest(np.maximum(table.capacity, 0)[sold], vectors)
            key = sold.tobytes() + largest.tobytes()
            if instance.diverse.get(table.index, (None,))[0] != key:  # most packings are of the same pods
                instance.work.spend(STEP * int(np.count_nonzero(np.bincount(table.column_type[spot]))))
                instance.diverse[table.index] = key, _shared(table, spot, sold, largest, options)
            result[mine] = instance.diverse[table.index][1][table.column_type[spot]]
    return result


def _shared(table: PoolTable, spot: Mask, sold: Amounts, largest: Amounts, options: Options) -> Amounts:
    """Per type the capacity that it and its like have at least, (T, R), of the types `sold`, of which
    `largest` must fit on each; others have their own. `spot`: columns (C,)."""
    most, tolerance = options.spot_diversity, options.spot_tolerance
    price = np.full(len(table.types), ENDLESS)
    np.minimum.at(price, table.column_type[spot], table.instance_price[spot])
    capacity = np.maximum(table.capacity, 0)
    least = np.maximum(largest, (capacity[sold] * _ALIKE).astype(np.int64))
    kinds = _kinds(table.types)
    like = (price <= (price[sold] * (100 + tolerance) // 100)[:, None]) & (kinds == kinds[sold][:, None])
    sizes = -_limited_sizes(table)
    like &= holding(least, capacity) & holding(sizes[sold], sizes)
    like[np.arange(len(sold)), sold] = False
    result = table.capacity.copy()
    for index in np.flatnonzero(like.any(axis=1)).tolist():
        kind, chosen = int(sold[index]), np.flatnonzero(like[index])
        if len(chosen) >= most:
            some = capacity[kind] > 0
            share = (capacity[chosen][:, some] / capacity[kind, some]).min(axis=1, initial=np.inf)
            chosen = chosen[np.argsort(-share, kind="stable")[: most - 1]]
        result[kind] = np.minimum(capacity[chosen].min(axis=0), table.capacity[kind])
    return result


def _largest(capacity: Amounts, vectors: Amounts) -> Amounts:
    """Per type and resource the most that one of the vectors that fit alone asks for, (T, R)."""
    fits = holding(-capacity, -vectors)
    most = [np.where(fits, asked, 0).max(axis=1, initial=0) for asked in vectors.T]
    return np.array(most, dtype=np.int64).T.reshape(capacity.shape)


@by_identity(64)
def _kinds(types: Sequence[InstanceType]) -> Amounts:
    """A number per type, equal where architecture and operating system are, (T,)."""
    numbers: dict[tuple[object, ...], int] = {}
    keys = [tuple(kind.requirements.by_key.get(key) for key in _SAME) for kind in types]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _limited_sizes(table: PoolTable) -> Amounts:
    """What each type takes of its pool's limits, (T, L): a larger one is not kept beside it."""
    names = sorted(set(table.pool.limits or ()) - {NODES})
    sizes = [[kind.capacity.get(name, 0) for name in names] for kind in table.types]
    return np.array(sizes, dtype=np.int64).reshape(len(table.types), len(names))
