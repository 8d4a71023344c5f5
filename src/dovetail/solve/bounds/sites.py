"""What can be bought, with the labels that a pool leaves open decided: pods that ask for different values of
one label never share a node, although every offering lets in each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.supply.columns import Columns
from dovetail.solve.supply.encode import Amounts, Mask, PoolTable
from dovetail.solve.supply.world import World

_MOST_STATES = 24  # per pool; where there would be more, its labels stay open
_MOST_CELLS = 100_000  # kinds of pods times sites

# One way to decide labels: (key, value) pairs; '' is every value that nobody asks for, and no label at all.
State = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sites:
    """T offerings with decided labels, pool by pool. A pool's sites are its columns once per state."""

    states: tuple[tuple[State, ...], ...]  # per pool
    column: Amounts  # (T,) where each stands among all offerings
    state: Amounts  # (T,) position among its pool's states


def sites_of(world: World, columns: Columns, asked: Iterable[Requirements]) -> Sites:
    """The sites that demands on labels tell apart."""
    wanted = list(dict.fromkeys(asked))
    states = [_states(table, wanted) for table in world.tables]
    size = sum(len(table.offerings) * len(each) for table, each in zip(world.tables, states, strict=True))
    if size * len(wanted) > _MOST_CELLS:
        states = [((),) for _ in world.tables]
    column, state = [], []
    for table, each in zip(world.tables, states, strict=True):
        mine = np.flatnonzero(columns.pool == table.index)
        column.append(np.tile(mine, len(each)))
        state.append(np.repeat(np.arange(len(each)), len(mine)))
    none = [np.zeros(0, dtype=np.int64)]
    return Sites(tuple(states), np.concatenate([*none, *column]), np.concatenate([*none, *state]))


def lets_in(state: State, wanted: Requirements) -> bool:
    """False only if no node with such labels meets the demands."""
    for key, value in state:
        item = wanted.by_key.get(key)
        if item is not None and not (item.has(value) if value else _unnamed(item)):
            return False
    return True


def in_states(states: Iterable[State], wanted: Requirements, mask: Mask) -> Mask:
    """Of one pool's sites those that meet the demands, if `mask` (C,) tells it of its columns."""
    parts = [mask if lets_in(state, wanted) else np.zeros_like(mask) for state in states]
    return np.concatenate(parts)


def _unnamed(item: Requirement) -> bool:
    """True iff a value that nobody names will do, or none."""
    return item.complement or not item.values


def _states(table: PoolTable, wanted: list[Requirements]) -> tuple[State, ...]:
    named: dict[str, dict[str, None]] = {}
    for each in wanted:
        for item in each:
            known = table.base.by_key.get(item.key)
            some = sorted(value for value in item.values if known is None or known.has(value))
            named.setdefault(item.key, {}).update(dict.fromkeys(some))
    ways: list[list[tuple[str, str]]] = []
    for key, values in sorted(named.items()):
        if values and key != HOSTNAME and "" in table.domains(key):
            ways.append([(key, value) for value in (*values, "")])
    count = prod([len(way) for way in ways])  # may be more than any float holds
    return tuple(product(*ways)) if count <= _MOST_STATES else ((),)
