"""Room on spot offerings: as much as enough other types leave too, so that the cloud has a choice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.solve.supply.columns import Columns
from dovetail.solve.supply.encode import Amounts, Mask, PoolTable
from dovetail.solve.supply.limits import NODES
from dovetail.solve.supply.world import World

# Types of one nominal size differ by what their systems keep; what has less than this share is another size.
_ALIKE = 0.9
_SAME = (labels.ARCH, labels.OS)
_NEVER = np.iinfo(np.int64).max
_WORK = 16  # units for looking for one type's like


def diverse_room(world: World, columns: Columns, vectors: Amounts) -> Amounts:
    """What packing may fill of each column, (C, R): all of it, but on spot only what its like hold as well.

    A type's like are those of its pool, its architecture and system that are sold as spot for at most
    `spot_tolerance` percent more, that have about as much of everything, and that hold each of `vectors`
    (I, R) that it holds. Those that leave most room count, up to `spot_diversity` types with the type itself.
    So nothing that fits alone is kept out, and a type without like is filled as any other.
    """
    options = world.problem.options
    if options.spot_diversity < 2:
        return columns.room
    result = columns.room.copy()
    for table in world.tables:
        capacity_types = [item.capacity_type for item in table.offerings]
        spot = table.own & np.array([item == labels.SPOT for item in capacity_types], dtype=np.bool_)
        if spot.any():
            world.work.spend(_WORK * len(np.unique(table.column_type[spot])))
            shared = _shared(table, spot, vectors, (options.spot_diversity, options.spot_tolerance))
            mine = np.flatnonzero(columns.pool == table.index)[spot]
            result[mine] = shared[table.column_type[spot]]
    return result


def _shared(table: PoolTable, spot: Mask, vectors: Amounts, wanted: tuple[int, int]) -> Amounts:
    """Per type the room that it and its like have at least, (T, R)."""
    most, tolerance = wanted
    price = np.full(len(table.types), _NEVER)
    offered = np.array([item.price for item in table.offerings], dtype=np.int64)
    np.minimum.at(price, table.column_type[spot], offered[spot])
    room = np.maximum(table.room, 0)
    least = np.maximum(_largest(room, vectors), (room * _ALIKE).astype(np.int64))
    kinds = _kinds(table.types)
    sold = np.flatnonzero(price < _NEVER)
    like = (price <= (price[sold] * (100 + tolerance) // 100)[:, None]) & (kinds == kinds[sold][:, None])
    for row in range(room.shape[1]):
        like &= room[:, row] >= least[sold, row][:, None]
    for size in _limited_sizes(table).T:
        like &= size <= size[sold][:, None]
    like[np.arange(len(sold)), sold] = False
    result = table.room.copy()
    for index in np.flatnonzero(like.any(axis=1)).tolist():
        kind, chosen = int(sold[index]), np.flatnonzero(like[index])
        if len(chosen) >= most:
            some = room[kind] > 0
            share = (room[np.ix_(chosen, some)] / room[kind, some]).min(axis=1, initial=np.inf)
            chosen = chosen[np.argsort(-share, kind="stable")[: most - 1]]
        result[kind] = np.minimum(room[chosen].min(axis=0), table.room[kind])
    return result


def _largest(room: Amounts, vectors: Amounts) -> Amounts:
    """Per type and resource the most that one of the vectors that fit alone asks for, (T, R)."""
    fits = np.ones((len(room), len(vectors)), dtype=np.bool_)
    for row in range(room.shape[1]):
        fits &= room[:, row][:, None] >= vectors[:, row]
    result = np.zeros_like(room)
    for row in range(room.shape[1]):
        result[:, row] = np.where(fits, vectors[:, row], 0).max(axis=1, initial=0)
    return result


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
