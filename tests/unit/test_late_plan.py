"""Plans for which there is no time at all: quickly made, correct, and nobody left out who had a place."""

from __future__ import annotations

import pytest

from benchmarks.solve import mix, rules
from dovetail.model.problem import Budget, Problem
from dovetail.solve.solver import solve
from dovetail.solve.verify import verify
from dovetail.testing.crowds import crowd

_NO_LIMITS = {
    "distinct": rules.distinct(700),
    "one per node": rules.apart(60),
    "mix": mix.diverse(300),
    "deployments": rules.deployments(400),
}


@pytest.mark.parametrize("problem", _NO_LIMITS.values(), ids=_NO_LIMITS)
def test_a_plan_without_time_leaves_nobody_out(problem: Problem) -> None:
    plan = solve(problem, Budget(), stop=lambda: 1.0)
    assert not plan.unschedulable
    assert verify(problem, plan) == ()
    assert plan.cost.lower_bound > 0


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_without_time_breaks_no_rule(seed: int) -> None:
    """Limits, minValues, weights, existing nodes and all rules between pods."""
    problem = crowd(seed, 150, 40)
    plan = solve(problem, Budget(), stop=lambda: 1.0)
    assert verify(problem, plan) == ()
    assert plan.cost.lower_bound <= plan.cost.hourly


def test_little_is_lost_where_sizes_complement_each_other() -> None:
    problem = rules.distinct(700)
    assert solve(problem, Budget(), stop=lambda: 1.0).cost.gap < 0.03
