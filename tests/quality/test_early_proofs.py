"""What is proven early is answered early, in counted work."""

from __future__ import annotations

import pytest

from benchmarks.solve.crowded import mixed
from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.solve.tolerances import GAP

# (seed and number of a random problem of 10 to 22 pods on a region's types, no more units than it takes): its
# answer came after 210,000 to 330,000 units while whole nodes were tried before all patterns.
CASES = (((731904, 4), 110_000), ((731904, 11), 70_000), ((731904, 36), 90_000))


@pytest.mark.parametrize(("named", "most"), CASES)
def test_few_pods_are_answered_as_soon_as_they_are_proven(named: tuple[int, int], most: int) -> None:
    plan = solve(mixed(*named), Budget())
    assert plan.cost.gap < GAP
    assert plan.work <= most
