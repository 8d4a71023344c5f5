"""A solve ends as soon as its plan is proven, and greedy packing leaves work for a search."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.solve import small
from benchmarks.solve.crowded import mixed
from dovetail.model import labels
from dovetail.model.problem import WORK_PER_SECOND, Budget
from dovetail.solve.solver import Step, solve
from dovetail.testing.problems import Document, instance_types, node, pod, pool, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify


@pytest.mark.parametrize(("number", "last"), [(36, "first plan"), (1, "few patterns"), (22, "few patterns")])
def test_what_is_proven_ends_before_packing_is_tried_again(number: int, last: str) -> None:
    """Spread and apart: the first plan is proven at once, or by the few patterns of nodes that matter."""
    problem, steps = small.problem(number), list[Step]()
    plan = solve(problem, Budget(), trace=steps.append)
    assert steps[-1].phase == last
    assert plan.cost.gap < 0.001
    assert not plan.unschedulable
    assert verify(problem, plan) == ()


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TERM = {"topologyKey": labels.HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}


@pytest.mark.parametrize(
    "rule",
    [
        {"podAntiAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": _TERM}]}},
        {"podAffinity": {_REQUIRED: [_TERM]}},
    ],
)
def test_nodes_that_are_there_do_where_nothing_is_for_sale(rule: Document) -> None:
    pods = [pod(f"pod-{number}", "web", (1000, 64), {"affinity": rule}) for number in range(4)]
    there = scenario(pods, [pool("gone")], instance_types(), nodes=[node("node-a", "zone-a", 8)])
    problem = replace(to_problem(there), pools=())
    plan = solve(problem, Budget(work=200_000))
    assert verify(problem, plan) == ()
    assert not plan.unschedulable


def test_a_first_plan_of_many_shapes_does_not_use_up_the_work_of_a_second() -> None:
    """885 pods of 150 shapes: a fifth of a second's work at most, and the search finds a cheaper plan."""
    steps = list[Step]()
    solve(mixed(20261126, 5), Budget(), trace=steps.append)
    assert steps[0].work < WORK_PER_SECOND // 5
    assert steps[-1].cost < 0.97 * steps[0].cost
