"""What it costs that spot nodes leave capacity for many types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.model.labels import SPOT
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, Problem
from dovetail.solve.bound.relaxation import relax
from dovetail.solve.budget import SolveBudget
from dovetail.solve.colgen.pricing_instance import undominated
from dovetail.solve.instance.limits import diverse_room
from dovetail.solve.search_state import SolveContext


def diversity_cost(problem: Problem, plan: Plan) -> int:
    """Nano-dollars per hour by which the rule makes the relaxation of the pods on spot nodes dearer.

    An estimate of what the rule costs the plan, not a bound: whole nodes often have capacity left that the
    rule takes for nothing.
    """
    on_spot = {pod for claim in plan.claims if claim.capacity_type == SPOT for pod in claim.pods}
    if not on_spot or problem.options.spot_diversity < 2:
        return 0
    pods = tuple(pod for pod in problem.pods if pod.key in on_spot)
    context = SolveContext(replace(problem, pods=pods), SolveBudget(Budget()))
    columns, pod_classes = context.columns, context.instance.pod_classes
    vectors = np.array([pod_class.vector for pod_class in pod_classes], dtype=np.int64)
    demand = np.array([len(pod_class.pods) for pod_class in pod_classes], dtype=np.int64)
    may = context.feasible & ~columns.reserved
    shared = diverse_room(context.instance, columns, vectors, np.arange(len(columns.price)))
    useful = [
        undominated(may, capacity, columns.price, columns.reserved) for capacity in (columns.capacity, shared)
    ]
    kept = np.bincount(np.concatenate(useful)).nonzero()[0]
    demand[~may[:, kept].any(axis=1)] = 0
    if np.array_equal(shared[kept], columns.capacity[kept]):
        return 0
    least, most = (
        float(demand @ relax(may[:, kept], capacity[kept], columns.price[kept], vectors, demand).dual_values)
        for capacity in (columns.capacity, shared)
    )
    return max(0, round(most - least))
