"""What it costs that spot nodes leave room for many types."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dovetail.solve.bounds.relaxation import relax
from dovetail.solve.supply.columns import Columns, undominated
from dovetail.solve.supply.diversity import diverse_room
from dovetail.solve.supply.encode import Mask
from dovetail.solve.supply.world import World


def diversity_cost(world: World, columns: Columns, feasible: Mask, pods: Mapping[int, int]) -> int:
    """Nano-dollars per hour by which the rule makes the relaxation of these pods (shape -> number) dearer.

    `feasible` is (shapes, columns). An estimate of what the rule costs a plan, not a bound: whole nodes
    often have room left that the rule takes for nothing.
    """
    shapes = np.array(sorted(pods), dtype=np.int64)
    vectors = np.array([world.shapes[shape].vector for shape in sorted(pods)], dtype=np.int64)
    demand = np.array([pods[shape] for shape in sorted(pods)], dtype=np.int64)
    may = feasible[shapes] & ~columns.reserved
    shared = diverse_room(world, columns, vectors)
    useful = [undominated(may, room, columns.price, columns.reserved) for room in (columns.room, shared)]
    kept = np.union1d(*useful)
    demand[~may[:, kept].any(axis=1)] = 0
    if np.array_equal(shared[kept], columns.room[kept]):
        return 0
    world.work.spend(2 * int(may[:, kept].sum()))
    least, most = (
        float(demand @ relax(may[:, kept], room[kept], columns.price[kept], vectors, demand).worth)
        for room in (columns.room, shared)
    )
    return max(0, round(most - least))
