"""Tiny problems for which there is a complete plan: no pod may be left over, and the optimum is known."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.testing import exhaustive
from dovetail.testing.followers import followers
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

FILE = Path(__file__).parent / "vectors" / "karpenter_bench" / "placeable.jsonl.gz"


def recorded() -> list[dict[str, Any]]:
    with gzip.open(FILE, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("work", [1, 1_000_000], ids=["first plan", "a second"])
@pytest.mark.parametrize("document", recorded(), ids=lambda document: str(document["name"]))
def test_every_pod_has_a_place(document: dict[str, Any], work: int) -> None:
    """Pods that others must be near were put into one zone where a spread of the others wanted several."""
    problem = to_problem(document)
    plan = solve(problem, Budget(work=work))
    assert verify(problem, plan) == ()
    assert plan.unschedulable == ()
    least = round(document["optStrict"] * 1e9)
    assert plan.cost.lower_bound <= least
    if work > 1:
        assert plan.cost.hourly == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("seed", [44, 0, 1, 2, 3, 5, 6, 7, 9])
def test_pods_that_follow_others(seed: int) -> None:
    """44: no node in the zone of the pod to follow held both. The others are as they come."""
    problem = to_problem(followers(seed))
    plan = solve(problem, Budget(work=20_000))
    assert verify(problem, plan) == ()
    try:
        assert exhaustive.fuller(problem, plan) is None
    except exhaustive.TooLarge:
        pytest.skip("too many ways to try them all")
