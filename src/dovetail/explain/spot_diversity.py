"""What it costs that spot nodes leave room for many types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.model.labels import SPOT
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, Problem
from dovetail.solve.bound.relaxation import relax
from dovetail.solve.budget import Work
from dovetail.solve.context import Desk
from dovetail.solve.instance.limits import diverse_room
from dovetail.solve.instance.offerings import undominated


def diversity_cost(problem: Problem, plan: Plan) -> int:
    """Nano-dollars per hour by which the rule makes the relaxation of the pods on spot nodes dearer.

    An estimate of what the rule costs the plan, not a bound: whole nodes often have room left that the rule
    takes for nothing.
    """
    on_spot = {pod for claim in plan.claims if claim.capacity_type == SPOT for pod in claim.pods}
    if not on_spot or problem.options.spot_diversity < 2:
        return 0
    pods = tuple(pod for pod in problem.pods if pod.key in on_spot)
    desk = Desk(replace(problem, pods=pods), Work(Budget()))
    columns, shapes = desk.columns, desk.world.shapes
    vectors = np.array([shape.vector for shape in shapes], dtype=np.int64)
    demand = np.array([len(shape.pods) for shape in shapes], dtype=np.int64)
    may = desk.feasible & ~columns.reserved
    shared = diverse_room(desk.world, columns, vectors)
    useful = [undominated(may, room, columns.price, columns.reserved) for room in (columns.room, shared)]
    kept = np.union1d(*useful)
    demand[~may[:, kept].any(axis=1)] = 0
    if np.array_equal(shared[kept], columns.room[kept]):
        return 0
    least, most = (
        float(demand @ relax(may[:, kept], room[kept], columns.price[kept], vectors, demand).worth)
        for room in (columns.room, shared)
    )
    return max(0, round(most - least))
