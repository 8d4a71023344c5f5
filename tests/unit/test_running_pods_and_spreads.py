"""Spreads over hostnames where some pods run already: what is proven, and that existing nodes are filled."""

from __future__ import annotations

import pytest

from dovetail.model.problem import Budget, Problem
from dovetail.solve.budget import SolveBudget
from dovetail.solve.search_state import SolveContext
from dovetail.solve.solver import solve
from dovetail.testing.problems import instance_types, node, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

WORK = Budget(work=300_000)


def problem(spread: int, others: int) -> Problem:
    """One pod of `web` runs; more of them are spread over hosts, and `others` fill nodes of their own."""
    one_host = rules("web", "other")["spread over hosts"]
    pods = [pod(f"web-{number}", "web", (500, 256), one_host) for number in range(spread)]
    pods += [pod(f"other-{number}", "other", (3000, 1024), {}) for number in range(others)]
    runs = pod("web-runs", "web", (100, 64), one_host)
    runs["spec"]["nodeName"] = "node-a"
    there = node("node-a", "zone-a", 4)
    return to_problem(scenario(pods, [pool("general")], instance_types(), nodes=[there], bound=[runs]))


@pytest.mark.parametrize(("spread", "others"), [(1, 6), (2, 6), (3, 3), (4, 1)])
def test_no_bound_exceeds_a_plan(spread: int, others: int) -> None:
    """Whatever price the bound is asked for: it must not claim that there is nothing below a higher one."""
    given = problem(spread, others)
    plan = solve(given, WORK)
    assert verify(given, plan) == ()
    assert not plan.unschedulable
    context = SolveContext(given, SolveBudget(WORK))
    kinds = {(pod_class.index, 0, 0): list(pod_class.pods) for pod_class in context.instance.pod_classes}
    bound = context.topology_bound.bound(context.instance.nodes.capacity.copy(), kinds, plan.cost.hourly * 3)
    assert 0 < bound <= plan.cost.hourly


def test_existing_nodes_are_filled_once_new_ones_hold_as_many() -> None:
    given = problem(4, 1)
    plan = solve(given, WORK)
    assert verify(given, plan) == ()
    assert len(plan.claims) == 3
    assert sum(name.startswith("default/web") for name in plan.existing["node-a"]) == 1
