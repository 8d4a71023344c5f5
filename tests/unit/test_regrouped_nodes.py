"""A few nodes at a time are packed anew: the plan costs less, keeps its pods and obeys limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, Problem
from dovetail.model.resources import pod_requests
from dovetail.solve.pack import choose
from dovetail.solve.pack.destroy_repair import Refined
from dovetail.solve.solver import solve
from dovetail.testing.scenarios import read_scenarios
from dovetail.verify import verify

VECTORS = Path(__file__).parent.parent / "conformance" / "vectors" / "scheduling"
WORK = Budget(work=10_000_000)
SECOND = Budget()  # with ten times as much, nothing is left to gain that way


def scenario(name: str) -> Problem:
    every = read_scenarios(VECTORS / f"{name.rpartition('-')[0]}.jsonl.gz")
    return next(each.problem for each in every if each.name == name)


@pytest.fixture
def by_greed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are looked for in what nothing but greed packed: other steps leave them less to gain."""
    nothing = np.zeros(0)
    monkeypatch.setattr(choose, "refine", lambda _packer, start, _limits: Refined(start, nothing, 0.0))


def without(monkeypatch: pytest.MonkeyPatch, problem: Problem, work: Budget) -> Plan:
    with monkeypatch.context() as patch:
        patch.setattr(choose, "regrouped", lambda _packer, packing, *_: packing)
        return solve(problem, work)


def check_saves(monkeypatch: pytest.MonkeyPatch, name: str, share: float, work: Budget) -> None:
    """The plan costs less than so much of what it costs without."""
    problem = scenario(name)
    plan, before = solve(problem, work), without(monkeypatch, problem, work)
    assert verify(problem, plan) == ()
    assert not plan.unschedulable
    assert plan.cost.hourly < share * before.cost.hourly
    assert plan.cost.lower_bound <= plan.cost.hourly <= 1.03 * plan.cost.lower_bound


def test_the_plan_costs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    check_saves(monkeypatch, "packing-memory-006", 0.9995, SECOND)


@pytest.mark.long
@pytest.mark.usefixtures("by_greed")
def test_what_greed_packed_costs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    check_saves(monkeypatch, "packing-mixed-006", 0.986, WORK)


@pytest.mark.long
@pytest.mark.usefixtures("by_greed")
def test_limits_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = scenario("packing-mixed-006")
    cpus = sum(pod_requests(pod)["cpu"] for pod in problem.pods)
    limited = replace(problem, pools=(replace(problem.pools[0], limits={"cpu": int(1.1 * cpus)}),))
    plan, before = solve(limited, WORK), without(monkeypatch, limited, WORK)
    assert verify(limited, plan) == ()
    assert not plan.unschedulable and not before.unschedulable
    assert plan.cost.hourly < before.cost.hourly
