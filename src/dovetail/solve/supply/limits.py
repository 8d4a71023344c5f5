"""What pools' limits and reservations still allow while a plan grows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.solve.supply.columns import Columns, Floats
from dovetail.solve.supply.encode import Mask
from dovetail.solve.supply.world import World

NODES = "nodes"


class Limits:
    """Remaining amounts per pool. Invariant: what was taken never exceeds a limit, whatever type comes up."""

    def __init__(self, world: World, columns: Columns) -> None:
        self._world = world
        self._columns = columns
        self.remaining: dict[int, dict[str, int]] = {}
        for table in world.tables:
            limits = table.pool.limits
            if limits is not None:
                used = table.pool.usage
                self.remaining[table.index] = {
                    name: limits[name] - used.get(name, 0) for name in sorted(limits)
                }
        self.reservations = dict(columns.left)

    def copy(self) -> Limits:
        """An independent copy, for a trial."""
        twin = Limits(self._world, self._columns)
        twin.remaining = {pool: dict(rest) for pool, rest in self.remaining.items()}
        twin.reservations = dict(self.reservations)
        return twin

    @property
    def any(self) -> bool:
        """True iff something is limited."""
        return bool(self.remaining) or bool(self.reservations)

    def shares(self) -> Floats:
        """The largest share of what remains of a limit that one node of each column takes, shape (C,)."""
        columns = self._columns
        result = np.zeros(len(columns.price), dtype=np.float64)
        for pool, remaining in self.remaining.items():
            kinds = self._world.tables[pool].types
            share = [
                max(
                    (1 if name == NODES else kind.capacity.get(name, 0)) / max(rest, 1)
                    for name, rest in remaining.items()
                )
                for kind in kinds
            ]
            mine = columns.pool == pool
            result[mine] = np.array(share, dtype=np.float64)[columns.type[mine]]
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
        table = self._world.tables[pool]
        remaining = self.remaining.get(pool)
        if remaining is None:
            return np.ones(len(table.types), dtype=np.bool_)
        if remaining.get(NODES, 1) < 1:
            return np.zeros(len(table.types), dtype=np.bool_)
        within = [
            all(kind.capacity.get(name, 0) <= rest for name, rest in remaining.items() if name != NODES)
            for kind in table.types
        ]
        return np.array(within, dtype=np.bool_)

    def no_larger(self, pool: int, chosen: int) -> Mask:
        """Types that use no more of what is limited than the chosen one, shape (T,)."""
        table = self._world.tables[pool]
        names = [name for name in self.remaining.get(pool, {}) if name != NODES]
        most = table.types[chosen].capacity
        within = [
            all(kind.capacity.get(name, 0) <= most.get(name, 0) for name in names) for kind in table.types
        ]
        return np.array(within, dtype=np.bool_)

    def times(self, pool: int, types: Sequence[int], reservation: str, most: int) -> int:
        """How many nodes of these types, at most that many, may be bought if one may: 1 at least."""
        remaining = self.remaining.get(pool, {})
        kinds = [self._world.tables[pool].types[number] for number in types] if remaining else []
        for name, rest in remaining.items():
            each = 1 if name == NODES else max(kind.capacity.get(name, 0) for kind in kinds)
            most = min(most, rest // each) if each else most
        if reservation:
            most = min(most, self.reservations[reservation])
        return max(most, 1)

    def take(self, pool: int, types: Sequence[int], reservation: str) -> None:
        """Buy a node of one of these types: the largest of them is what counts."""
        self._book(pool, types, reservation, 1)

    def give_back(self, pool: int, types: Sequence[int], reservation: str) -> None:
        """Undo that."""
        self._book(pool, types, reservation, -1)

    def _book(self, pool: int, types: Sequence[int], reservation: str, nodes: int) -> None:
        remaining = self.remaining.get(pool)
        if remaining is not None:
            kinds = [self._world.tables[pool].types[number] for number in types]
            for name in remaining:
                most = 1 if name == NODES else max(kind.capacity.get(name, 0) for kind in kinds)
                remaining[name] -= nodes * most
        if reservation:
            self.reservations[reservation] -= nodes
