"""Plans for which there is too little time to tell sizes apart: correct, of all pods, and little dearer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.arrays import holding
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, Problem
from dovetail.model.resources import CPU, MEMORY, pod_requests
from dovetail.solve.budget import Deadline
from dovetail.solve.solver import solve
from dovetail.testing.crowds import crowd
from dovetail.testing.problems import instance_types, pod, pool, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify


def hasty(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The first plan, made as if nodes for sizes as they are took too long."""
    monkeypatch.setattr(Deadline, "hasty", True)
    return solve(problem, Budget(), stop=lambda: 1.0)


@pytest.mark.parametrize("seed", range(8))
def test_sizes_that_are_taken_together_break_no_rule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits, minValues, weights, existing nodes and all rules between pods."""
    problem = crowd(seed, 300, 100)
    usual, plan = solve(problem, Budget(), stop=lambda: 1.0), hasty(problem, monkeypatch)
    assert verify(problem, plan) == ()
    if not any(pool.limits for pool in problem.pools):
        assert plan.left == usual.left
        assert plan.cost.hourly <= 1.2 * usual.cost.hourly


def test_claims_request_what_their_pods_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not what the largest of those asks for that they were taken together with."""
    sizes = [(1000 + number, 2000 + 3 * number) for number in range(90)]
    documents = [pod(f"p{number}", f"a{number}", size, {}) for number, size in enumerate(sizes)]
    problem = to_problem(scenario(documents, [pool("general")], instance_types()))
    requests = {each.key: pod_requests(each) for each in problem.pods}
    claims = hasty(problem, monkeypatch).claims
    assert sum(len(claim.pods) for claim in claims) == len(sizes)
    for claim in claims:
        for name in (CPU, MEMORY):
            assert claim.requests[name] == sum(requests[key][name] for key in claim.pods)


def test_what_would_be_too_large_together_is_not_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two types one has the processors that a pod asks for, the other the memory that another one does."""
    types = instance_types()[:2]
    sizes = (6900, 6400 << 10), (6400, 6900 << 10)  # milli-CPU, MiB
    for kind, (cpu, memory) in zip(types, sizes, strict=True):
        kind["capacity"] = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": "10"}
        kind["overhead"] = {}
    documents = [pod(f"p{number}", f"a{number}", sizes[number % 2], {}) for number in range(4)]
    plan = hasty(to_problem(scenario(documents, [pool("general")], types)), monkeypatch)
    assert not plan.unschedulable
    assert len(plan.claims) == 4


AMOUNTS = st.integers(-3, 3) | st.integers(-(1 << 62), 1 << 62)


@given(
    st.lists(st.tuples(AMOUNTS, AMOUNTS), max_size=12),
    st.lists(st.tuples(AMOUNTS, AMOUNTS), max_size=12),
    st.sampled_from([1, 40]),
)
def test_what_holds_what(needs: list[Any], capacity: list[Any], times: int) -> None:
    """Few needs are compared as they are, many by rank."""
    asked, has = (np.array(many, dtype=np.int64).reshape(-1, 2) for many in (needs * times, capacity))
    expected = [
        [all(one <= other for one, other in zip(need, each, strict=True)) for each in capacity]
        for need in needs
    ]
    assert holding(asked, has).tolist() == expected * times
