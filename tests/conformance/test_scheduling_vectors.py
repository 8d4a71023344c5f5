"""The solver on recorded scheduling scenarios: no rule broken, nothing left out, no dearer than recorded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from dovetail.solve.plan import Plan
from dovetail.solve.solver import solve
from dovetail.solve.verify import verify
from dovetail.testing.scenarios import Scenario, features, read_scenarios

FOLDER = Path(__file__).parent / "vectors" / "scheduling"

# Counts that may only rise.
PLACED_FLOOR = 0.998  # of the pods that were scheduled in all recorded runs
NO_DEARER_FLOOR = 320  # of the scenarios where the same pods are placed
COMPARABLE_FLOOR = 333


@lru_cache(maxsize=1)
def solved() -> tuple[tuple[Scenario, Plan], ...]:
    return tuple(
        (scenario, solve(scenario.problem))
        for feature in features(FOLDER)
        for scenario in read_scenarios(FOLDER / f"{feature}.jsonl.gz")
    )


def placed(plan: Plan) -> set[str]:
    """Names as recorded: without the namespace where it is the default one."""
    pods = [pod for claim in plan.claims for pod in claim.pods]
    pods += [pod for names in plan.existing.values() for pod in names]
    return {pod.removeprefix("default/") for pod in pods}


def comparable() -> Iterator[tuple[Scenario, Plan]]:
    """Where the recorded answer is correct and places the same pods."""
    for scenario, plan in solved():
        expected = scenario.expected
        if not expected["upstreamViolations"] and placed(plan) == set(expected["summary"]["scheduled"]):
            yield scenario, plan


def test_there_are_scenarios() -> None:
    assert len(solved()) == 370


@pytest.mark.parametrize("feature", features(FOLDER))
def test_the_checker_finds_nothing(feature: str) -> None:
    found = {
        scenario.name: violations
        for scenario, plan in solved()
        if scenario.feature == feature and (violations := verify(scenario.problem, plan))
    }
    assert found == {}


def test_every_pod_has_a_place_or_a_reason() -> None:
    for scenario, plan in solved():
        names = {pod.key.removeprefix("default/") for pod in scenario.problem.pods}
        assert placed(plan) <= names, scenario.name
        left = {item.pod for item in plan.unschedulable}
        assert left.isdisjoint(f"default/{pod}" for pod in placed(plan)), scenario.name
        assert len(placed(plan)) + len(left) == len(scenario.problem.pods), scenario.name
        assert all(item.reason for item in plan.unschedulable), scenario.name


def test_pods_that_are_always_scheduled_are_placed() -> None:
    wanted = found = 0
    for scenario, plan in solved():
        broken = " ".join(scenario.expected["upstreamViolations"])
        names = [pod for pod in scenario.expected["alwaysScheduled"] if pod not in broken]
        wanted += len(names)
        found += len(placed(plan).intersection(names))
    assert found >= PLACED_FLOOR * wanted


def test_no_dearer_than_recorded() -> None:
    pairs = list(comparable())
    assert len(pairs) >= COMPARABLE_FLOOR
    cheap = [
        scenario.name
        for scenario, plan in pairs
        if plan.cost.hourly <= max(run["totalPrice"] for run in scenario.expected["runs"]) * 1e9 + 1
    ]
    assert len(cheap) >= NO_DEARER_FLOOR


def test_the_bound_is_below_the_cost_and_every_recorded_reference() -> None:
    for scenario, plan in comparable():
        assert plan.cost.lower_bound <= plan.cost.hourly
        cheapest = min(run["totalPrice"] for run in scenario.expected["runs"])
        assert plan.cost.lower_bound <= cheapest * 1e9 + 1, scenario.name
