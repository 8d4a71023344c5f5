"""Where pods of each kind may go: kinds of the same rules are looked at together, sizes all at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from dovetail.solve.bounds.sites import Sites, in_states
from dovetail.solve.demand.shapes import Shape
from dovetail.solve.supply.columns import Columns
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.world import COLUMNS_PER_UNIT, World

Kind = tuple[int, int, int]  # (shape, level, tier)


@dataclass(frozen=True, slots=True)
class Reach:
    """S kinds: nodes bought for their sake or for others, at T sites, and N nodes that exist."""

    own: Mask  # (S, T)
    anywhere: Mask  # (S, T)
    nodes: Mask  # (S, N)


def reach_of(world: World, columns: Columns, sites: Sites, kinds: Collection[Kind]) -> Reach:
    """Of kinds; only pools up to their tier count for their sake, up to the first of use where that is -1."""
    shapes = [world.shapes[shape] for shape, _, _ in kinds]
    numbers: dict[tuple[object, ...], int] = {}
    found: list[tuple[Mask, Mask, Mask]] = []
    rows = []
    for shape, (_, level, _) in zip(shapes, kinds, strict=True):
        key = (shape.ladder, level, shape.ports)
        if key not in numbers:
            numbers[key] = len(found)
            found.append(_labelled(world, sites, shape, level))
        rows.append(numbers[key])
    vectors = np.array([shape.vector for shape in shapes], dtype=np.int64)
    holds = columns.holds(world, vectors.reshape(len(shapes), len(world.axis.names)))
    holds = cut(holds, sites.column)
    world.work.spend(len(kinds) + holds.size // COLUMNS_PER_UNIT)
    earlier, anywhere, nodes = (
        np.array([each[part] for each in found], dtype=np.bool_).reshape(len(found), width)[rows]
        for part, width in enumerate((holds.shape[1], holds.shape[1], len(world.nodes.nodes)))
    )
    anywhere &= holds
    tiers = np.array([tier for _, _, tier in kinds], dtype=np.int64)
    own = _until(world, columns.pool[sites.column], tiers, (earlier & holds, anywhere))
    return Reach(own, anywhere, nodes)


def cut(table: Mask, columns: Amounts) -> Mask:
    """Some columns of a table, which is not copied where that is all of them."""
    every = len(columns) == table.shape[1] and bool((columns == np.arange(len(columns))).all())
    return table if every else np.take(table, columns, axis=1)


def _until(world: World, pool: Amounts, last: Amounts, what: tuple[Mask, Mask]) -> Mask:
    """Sites (S, T) of the tiers up to each kind's own, or up to the first that is of use. `pool` (T,)."""
    own, anywhere = what
    if len(world.tiers) == 1:
        return anywhere.copy()
    still = np.ones(len(own), dtype=np.bool_)
    for index, pools in enumerate(world.tiers):
        mine = np.flatnonzero(np.isin(pool, pools))
        of_tier = own[:, mine] | (anywhere[:, mine] & still[:, None])
        own[:, mine] = of_tier
        still &= (last != index) & ((last >= 0) | ~of_tier.any(axis=1))
        if not still.any():
            break
    return own


def _labelled(world: World, sites: Sites, shape: Shape, level: int) -> tuple[Mask, Mask, Mask]:
    """Whatever their size: sites for a level where less is lost (T,), for any (T,), and nodes (N,)."""
    parts = [
        np.zeros(len(table.offerings) * len(states), dtype=np.bool_)
        for table, states in zip(world.tables, sites.states, strict=True)
    ]
    earlier = [part.copy() for part in parts]
    nodes = np.zeros(len(world.nodes.nodes), dtype=np.bool_)
    for number in range(level + 1):
        rules = shape.levels[number].rules
        for wanted in shape.levels[number].alternatives:
            nodes |= world.nodes.feasible(wanted, rules)
            for table in world.tables:
                if world.suits(table.index, wanted, rules) and world.free_of_ports(table.index, shape.ports):
                    mask = table.usable(wanted)
                    parts[table.index] |= in_states(sites.states[table.index], wanted, mask)
        if shape.levels[number].lost < shape.levels[level].lost:
            earlier = [part.copy() for part in parts]
    none = [np.zeros(0, dtype=np.bool_)]
    return np.concatenate([*none, *earlier]), np.concatenate([*none, *parts]), nodes
