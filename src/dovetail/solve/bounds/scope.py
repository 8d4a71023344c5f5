"""What a bound is about: which pods, what is for sale to them, and what costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dovetail.solve.packing.market import Market, market
from dovetail.solve.supply.columns import Columns
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.supply.world import World


@dataclass(frozen=True, slots=True)
class Scope:
    """S kinds of pods that are all placed, C offerings that are sold without end, N rooms that are free.

    Invariant: every kind has a pod, and an offering that could hold it.
    """

    shape: Amounts  # (S,) index of the world's shape
    pods: tuple[tuple[str, ...], ...]  # per kind
    vectors: Amounts  # (S, R)
    feasible: Mask  # (S, C)
    room: Amounts  # (C, R)
    price: Amounts  # (C,) nano-dollars per hour
    free: Amounts  # (N, R), not negative
    free_names: tuple[str, ...]  # node or reservation; a reservation's machines have one name

    @property
    def demand(self) -> Amounts:
        """Pods per kind, (S,)."""
        return np.array([len(pods) for pods in self.pods], dtype=np.int64)

    def market(self) -> Market:
        """What is for sale, thinned out."""
        apart = np.zeros((len(self.pods), len(self.pods)), dtype=np.bool_)
        return market(self.feasible, self.room, self.price, self.vectors, apart, self.demand)


def scope_of(world: World, columns: Columns, feasible: Mask, free: Amounts, placed: set[str]) -> Scope:
    """The scope of a plan that placed some pods.

    `feasible` is (shapes, columns), `free` (nodes, R) the room on existing nodes before anything was placed.
    Reserved capacity is paid for already: as much of it as there is counts as free.
    """
    sold = ~columns.reserved
    kinds = [
        (shape.index, pods)
        for shape in world.shapes
        if (pods := tuple(pod for pod in shape.pods if pod in placed)) and feasible[shape.index, sold].any()
    ]
    index = np.array([shape for shape, _ in kinds], dtype=np.int64)
    width = len(world.axis.names)
    vectors = np.array([world.shapes[shape].vector for shape, _ in kinds], dtype=np.int64)
    rooms = list(_free(world, columns, free))
    return Scope(
        shape=index,
        pods=tuple(pods for _, pods in kinds),
        vectors=vectors.reshape(len(kinds), width),
        feasible=feasible[np.ix_(index, np.flatnonzero(sold))],
        room=np.maximum(columns.room[sold], 0),
        price=columns.price[sold],
        free=np.array([room for _, room in rooms], dtype=np.int64).reshape(len(rooms), width),
        free_names=tuple(name for name, _ in rooms),
    )


def _free(world: World, columns: Columns, free: Amounts) -> Iterator[tuple[str, Amounts]]:
    for node, room in zip(world.nodes.nodes, np.maximum(free, 0), strict=True):
        yield node.name, room
    for index in np.flatnonzero(columns.reserved).tolist():
        name = columns.reservation[index]
        for _ in range(columns.left.get(name, 0)):
            yield name, np.maximum(columns.room[index], 0)
