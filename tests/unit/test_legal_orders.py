"""Plans whose pods can be placed in few orders only are recognised as legal."""

from __future__ import annotations

import pytest

from benchmarks.solve.mix import diverse
from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.verify import verify


@pytest.mark.parametrize("count", [100, 150, 200, 300])
def test_pods_that_count_others_than_themselves_find_their_turns(count: int) -> None:
    problem = diverse(count, crossed=True)
    plan = solve(problem, Budget(work=1))
    assert not plan.unschedulable
    assert verify(problem, plan) == ()


def test_no_node_is_bought_for_no_pod() -> None:
    """Nodes are filled up with pods that others of the same kind were to be bought for."""
    plan = solve(diverse(2_000), Budget(work=1))
    assert not plan.unschedulable
    assert all(claim.pods for claim in plan.claims)
