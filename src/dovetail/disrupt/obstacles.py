"""Why pods could not leave their nodes: what a plan says about a what-if."""

from __future__ import annotations

from collections.abc import Collection

from dovetail.model.plan import Plan
from dovetail.model.problem import Problem

_NAMED = 5  # pods that are named


def obstacle(problem: Problem, plan: Plan, moved: Collection[str]) -> str:
    """Why not all `moved` pods (keys) have a place in the plan, in the event's words; "" if they have.

    Pods that were pending before do not count. A place on a node that is not up yet is none: it may never be.
    """
    faults = [f"{left.pod} => {left.reason}" for left in plan.unschedulable if left.pod in moved]
    rising = {node.name for node in problem.nodes if not node.initialized and node.pool}
    for name in rising & plan.existing.keys():
        faults += [
            f"{pod} => would schedule against uninitialized node/{name}"
            for pod in plan.existing[name]
            if pod in moved
        ]
    if not faults:
        return ""
    faults.sort()
    more = f" and {len(faults) - _NAMED} other(s)" if len(faults) > _NAMED else ""
    return f"Not all pods would schedule, {'; '.join(faults[:_NAMED])}{more}"
