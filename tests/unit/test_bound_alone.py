"""What pods must cost, asked without a plan for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dovetail.model.problem import Budget, Problem
from dovetail.solve.solver import solve
from dovetail.testing.scenarios import read_scenarios

VECTORS = Path("tests/conformance/vectors/scheduling")


def problems(*names: str) -> list[Problem]:
    files = [VECTORS / f"{name}.jsonl.gz" for name in names or ("basic",)]
    return [scenario.problem for file in files for scenario in list(read_scenarios(file))[:40]]


def test_no_plan_is_cheaper_and_no_pod_has_a_place() -> None:
    proven = 0
    for problem in problems(
        "basic", "existing-limits", "existing-nodes", "nodepool-limits", "nodepool-weights"
    ):
        alone, plan = solve(replace(problem, places=False)), solve(problem)
        assert (alone.claims, alone.existing, alone.cost.hourly) == ((), {}, 0)
        if not plan.unschedulable:
            assert 0 <= alone.cost.lower_bound <= plan.cost.hourly
            proven += alone.cost.lower_bound > 0
    assert proven > 5


def test_as_much_is_proven_as_of_a_plan_for_which_there_is_no_time() -> None:
    compared = 0
    for problem in problems():
        plan = solve(problem, Budget(0))
        if plan.claims and not plan.unschedulable and not plan.relaxed:
            assert solve(replace(problem, places=False)).cost.lower_bound == plan.cost.lower_bound
            compared += 1
    assert compared > 5
