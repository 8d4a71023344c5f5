"""What pools' limits and reservations still allow while a plan grows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from dovetail.solve.supply.columns import Columns, Floats
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.world import World

NODES = "nodes"
_MOST = 2**62  # as good as no limit


class Limits:
    """Remaining amounts per pool. Invariant: what was taken never exceeds a limit, whatever type comes up."""

    def __init__(self, world: World, columns: Columns) -> None:
        self._world = world
        self._columns = columns
        self.remaining: dict[int, dict[str, int]] = {}
        self._takes: dict[int, Amounts] = {}  # per limited pool what each type takes of what remains, (T, L)
        for table in world.tables:
            limits = table.pool.limits
            if limits is not None:
                used, names = table.pool.usage, sorted(limits)
                self.remaining[table.index] = {name: limits[name] - used.get(name, 0) for name in names}
                takes = [
                    [1 if name == NODES else kind.capacity.get(name, 0) for name in names]
                    for kind in table.types
                ]
                self._takes[table.index] = np.array(takes, dtype=np.int64).reshape(-1, len(names))
        self.reservations = dict(columns.left)

    def copy(self) -> Limits:
        """An independent copy, for a trial."""
        twin = copy(self)
        twin.remaining = {pool: dict(rest) for pool, rest in self.remaining.items()}
        twin.reservations = dict(self.reservations)
        return twin

    @property
    def any(self) -> bool:
        """True iff something is limited."""
        return bool(self.remaining) or bool(self.reservations)

    def refused(self) -> bool:
        """True iff some type that a pool's limits allowed at first would be refused by now."""
        start = Limits(self._world, self._columns)
        return any(bool((start.types(pool) & ~self.types(pool)).any()) for pool in self.remaining)

    def shares(self) -> Floats:
        """The largest share of what remains of a limit that one node of each column takes, shape (C,)."""
        columns = self._columns
        result = np.zeros(len(columns.price), dtype=np.float64)
        for pool in self.remaining:
            mine = columns.pool == pool
            share = self._takes[pool] / np.maximum(self._rest(pool), 1)
            result[mine] = share.max(axis=1, initial=0.0)[columns.type[mine]]
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
        return result

    def types(self, pool: int) -> Mask:
        """Types of a pool whose capacity is within what remains, shape (T,)."""
        if pool not in self.remaining:
            return np.ones(len(self._world.tables[pool].types), dtype=np.bool_)
        within: Mask = np.all(self._takes[pool] <= self._rest(pool), axis=1)
        return within

    def no_larger(self, pool: int, chosen: int) -> Mask:
        """Types that use no more of what is limited than the chosen one, shape (T,)."""
        takes = self._takes[pool]
        within: Mask = np.all(takes <= takes[chosen], axis=1)
        return within

    def times(self, pool: int, types: Sequence[int], reservation: str, most: int) -> int:
        """How many nodes of these types, at most that many, may be bought if one may: 1 at least."""
        if pool in self.remaining:
            each = self._takes[pool][list(types)].max(axis=0)
            most = min([most, *(self._rest(pool)[each > 0] // each[each > 0]).tolist()])
        if reservation:
            most = min(most, self.reservations[reservation])
        return max(most, 1)

    def take(self, pool: int, types: Sequence[int], reservation: str, number: int = 1) -> None:
        """Buy nodes of one of these types: the largest of them is what counts."""
        remaining = self.remaining.get(pool)
        if remaining is not None:
            most = self._takes[pool][list(types)].max(axis=0)
            for name, each in zip(remaining, most.tolist(), strict=True):
                remaining[name] -= number * each
        if reservation:
            self.reservations[reservation] -= number

    def give_back(self, pool: int, types: Sequence[int], reservation: str) -> None:
        """Undo the purchase of one."""
        self.take(pool, types, reservation, -1)

    def _rest(self, pool: int) -> Amounts:
        rest = [max(-_MOST, min(amount, _MOST)) for amount in self.remaining[pool].values()]
        return np.array(rest, dtype=np.int64)
