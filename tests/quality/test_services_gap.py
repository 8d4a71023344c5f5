"""How far plans of many Deployments with rules of their own are from what is proven necessary."""

from __future__ import annotations

import pytest

from benchmarks.solve.crowded import services
from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.verify import verify

# Seed and number, and cost over bound with a second's work: 1.23, 1.20 and 1.26 while the program with rules
# between pods had each Deployment as a kind of its own.
CASES = (((20261127, 5), 1.05), ((20261127, 6), 1.035), ((20261127, 4), 1.045))


@pytest.mark.parametrize(("named", "most"), CASES)
def test_deployments_that_may_change_places_are_planned_near_their_bound(
    named: tuple[int, int], most: float
) -> None:
    problem = services(*named)
    plan = solve(problem, Budget(work=1_000_000))
    assert not plan.unschedulable
    assert plan.cost.hourly <= most * plan.cost.lower_bound
    assert not verify(problem, plan)
