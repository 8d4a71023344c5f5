"""All pools' offerings side by side, and which items each can hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dovetail.model import labels
from dovetail.model.labels import HOSTNAME
from dovetail.solve.demand.match import ports_conflict
from dovetail.solve.demand.topology import ANTI, APART, SPREAD
from dovetail.solve.placing.items import Item
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.world import World, pinned

Floats = npt.NDArray[np.float64]
_MOST = 72  # columns that are filled again and again
_KEEP_ALL = 24  # so few columns are not worth thinning out


class Columns:
    """C offerings of all pools. `room` is (C, R), `price` (C,) in nano-dollars, `reservation` '' if none."""

    def __init__(self, world: World) -> None:
        parts = [
            (table.index, number, column)
            for table in world.tables
            for column, number in enumerate(table.column_type.tolist())
        ]
        self.pool = np.array([part[0] for part in parts], dtype=np.int64)
        self.type = np.array([part[1] for part in parts], dtype=np.int64)
        self.column = np.array([part[2] for part in parts], dtype=np.int64)
        width = len(world.axis.names)
        rooms = [table.room[table.column_type] for table in world.tables if len(table.offerings)]
        self.room: Amounts = np.concatenate(rooms) if rooms else np.zeros((0, width), dtype=np.int64)
        prices = [table.price for table in world.tables if len(table.offerings)]
        self.price: Amounts = np.concatenate(prices) if prices else np.zeros(0, dtype=np.int64)
        offerings = [offering for table in world.tables for offering in table.offerings]
        self.reservation = [item.reservation_id for item in offerings]
        self.reserved = np.array(
            [item.capacity_type == labels.RESERVED for item in offerings], dtype=np.bool_
        )
        self.left = {
            item.reservation_id: item.reservation_capacity for item in offerings if item.reservation_id
        }

    def feasible(self, world: World, item: Item) -> Mask:
        """Columns that can hold one bundle of the item, shape (C,)."""
        wanted = item.wanted.add(*pinned(item.pins))
        masks = []
        for table in world.tables:
            if table.index in item.pools and world.free_of_ports(table.index, item.ports):
                masks.append(world.columns(table.index, wanted, item.vector))
            else:
                masks.append(np.zeros(len(table.offerings), dtype=np.bool_))
        return np.concatenate(masks) if masks else np.zeros(0, dtype=np.bool_)


def undominated(feasible: Mask, room: Amounts, price: Amounts, protected: Mask) -> npt.NDArray[np.int64]:
    """Columns worth looking at: none that another beats in price and room for all the items it can hold.

    `feasible` is (I, C). Protected columns are always kept.
    """
    useful = np.flatnonzero(feasible.any(axis=0))
    if len(useful) <= _KEEP_ALL:
        return useful
    order = useful[np.lexsort((-room[useful].sum(axis=1), price[useful]))]
    kept: list[int] = []
    groups: dict[bytes, list[int]] = {}
    for column in order.tolist():
        mates = groups.setdefault(np.packbits(feasible[:, column]).tobytes(), [])
        if not protected[column] and mates and bool(np.all(room[mates] >= room[column], axis=1).any()):
            continue
        kept.append(column)
        if not protected[column]:
            mates.append(column)
    return np.array(sorted(kept), dtype=np.int64)


def thinned(columns: npt.NDArray[np.int64], feasible: Mask, price: Amounts) -> npt.NDArray[np.int64]:
    """At most about _MOST columns: of those that hold the same items, sizes at growing distances of price."""
    if len(columns) <= _MOST:
        return columns
    groups: dict[bytes, list[int]] = {}
    for column in columns[np.argsort(price[columns], kind="stable")].tolist():
        groups.setdefault(np.packbits(feasible[:, column]).tobytes(), []).append(column)
    step = 1.02
    while True:
        kept = [column for group in groups.values() for column in _spaced(group, price, step)]
        if len(kept) <= _MOST or step > 2:
            return np.array(sorted(kept), dtype=np.int64)
        step *= 1.05


def _spaced(group: list[int], price: Amounts, step: float) -> list[int]:
    kept = [group[0]]
    for column in group[1:]:
        if price[column] >= price[kept[-1]] * step:
            kept.append(column)
    return kept


def conflicts(world: World, items: Sequence[Item]) -> Mask:
    """Which items cannot share a node, shape (I, I); the diagonal: at most one bundle per node."""
    size = len(items)
    result = np.zeros((size, size), dtype=np.bool_)
    repels: dict[int, set[int]] = {}
    matched: dict[int, set[int]] = {}
    groups = world.topology.groups
    for index, item in enumerate(items):
        for shape, level in item.kinds:
            for group in world.shapes[shape].levels[level].owned:
                if groups[group].id.kind in (ANTI, APART) and groups[group].id.key == HOSTNAME:
                    repels.setdefault(group, set()).add(index)
            for group in world.shapes[shape].matching:
                matched.setdefault(group, set()).add(index)
    for group, owners in repels.items():
        others = sorted(matched.get(group, ()))
        for owner in sorted(owners):
            result[owner, others] = True
            result[others, owner] = True
    ported = [(index, item.ports) for index, item in enumerate(items) if item.ports]
    for index, mine in ported:
        for other, theirs in ported:
            result[index, other] |= ports_conflict(mine, theirs)
    _add_label_conflicts(items, result)
    return result


def _add_label_conflicts(items: Sequence[Item], result: Mask) -> None:
    """Demands on labels that no node meets at once; most are seen in the columns, custom labels are not."""
    wanted = [item.wanted.add(*pinned(item.pins)) for item in items]
    different = list(dict.fromkeys(wanted))
    number = {each: index for index, each in enumerate(different)}
    clash = np.zeros((len(different), len(different)), dtype=np.bool_)
    for row, mine in enumerate(different):
        for column in range(row):
            clash[row, column] = clash[column, row] = bool(mine.intersects(different[column]))
    of = np.array([number[each] for each in wanted], dtype=np.int64)
    result |= clash[np.ix_(of, of)]


def host_rows(world: World, items: Sequence[Item]) -> tuple[Amounts, Amounts]:
    """Spreads over hostnames as resources: what each item takes (I, H), and what a node has (H,)."""
    groups = world.topology.groups
    rows = sorted(
        {
            group
            for item in items
            for shape, level in item.kinds
            for group in world.shapes[shape].levels[level].owned
            if groups[group].id.kind == SPREAD and groups[group].id.key == HOSTNAME
        }
    )
    takes = np.zeros((len(items), len(rows)), dtype=np.int64)
    for index, item in enumerate(items):
        for shape, _ in item.kinds:
            for column, group in enumerate(rows):
                takes[index, column] += group in world.shapes[shape].matching
    return takes, np.array([groups[group].id.max_skew for group in rows], dtype=np.int64)
