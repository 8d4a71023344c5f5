"""At equal cost fewer nodes win: nodes are joined as far as rules, prices and limits let them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.solve import inputs, rules
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, Problem
from dovetail.solve.pack import multistart
from dovetail.solve.solver import solve
from dovetail.verify import verify

_FIRST = Budget(1)


def _apart(monkeypatch: pytest.MonkeyPatch, problem: Problem) -> Plan:
    """The first plan with no nodes joined."""
    with monkeypatch.context() as patch:
        patch.setattr(multistart, "joined", lambda _packer, packing, _start: packing)
        return solve(problem, _FIRST)


def test_nodes_are_joined_until_the_rules_forbid_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = rules.deployments(600)
    plan, apart = solve(problem, _FIRST), _apart(monkeypatch, problem)
    assert not verify(problem, plan)
    assert len(plan.claims) == 30  # of each deployment, one pod per node
    assert len(apart.claims) > 100
    assert plan.cost.hourly <= apart.cost.hourly


@pytest.mark.parametrize("most", [8, 12, 20, 40])
def test_limits_hold_for_joined_nodes(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    pods = [inputs.pod(number, 1_000, 1_024) for number in range(20)]
    problem = inputs.problem(pods, inputs.linear_types(6))
    limited = replace(problem.pools[0], limits={"cpu": most * 1_000})
    problem = replace(problem, pools=(limited,))
    plan, apart = solve(problem, _FIRST), _apart(monkeypatch, problem)
    assert not verify(problem, plan)
    assert len(plan.unschedulable) == len(apart.unschedulable) == max(0, 20 - most)
    assert plan.cost.hourly <= apart.cost.hourly
    assert len(plan.claims) <= len(apart.claims)
