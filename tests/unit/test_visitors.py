"""Pods of a heavier pool ride on nodes that others need anyway; none is bought there for their sake."""

from __future__ import annotations

import pytest

from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.testing import exhaustive
from dovetail.testing.problems import Document, instance_types, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

TOLERATES = rules("", "")["tolerates the team"]
POOLS = [pool("first", weight=50, team=True), pool("second", weight=10)]


def sized(name: str, number: int, size: tuple[int, int], rule: Document) -> list[Document]:
    return [pod(f"{name}-{index}", name, size, rule) for index in range(number)]


def test_a_larger_node_of_the_second_pool_spares_one_of_the_first() -> None:
    pods = sized("needs", 1, (500, 256), {})
    pods += sized("small", 4, (1500, 256), TOLERATES) + sized("large", 1, (3000, 1024), TOLERATES)
    problem = to_problem(scenario(pods, POOLS, instance_types()))
    plan = solve(problem, Budget(work=200_000))
    assert verify(problem, plan) == ()
    assert exhaustive.cheaper(problem, plan) is None
    assert plan.cost.hourly == pytest.approx(plan.cost.lower_bound)


def test_nothing_is_bought_in_the_second_pool_where_no_pod_needs_it() -> None:
    problem = to_problem(scenario(sized("free", 9, (900, 1024), TOLERATES), POOLS, instance_types()))
    plan = solve(problem, Budget(work=200_000))
    assert verify(problem, plan) == ()
    assert {claim.pool for claim in plan.claims} == {"first"}
