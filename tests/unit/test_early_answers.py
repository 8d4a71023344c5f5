"""A solve ends as soon as its plan is proven, and greedy packing leaves work for a search."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from benchmarks.solve import small
from benchmarks.solve.crowded import mixed, question
from dovetail.base.clock import SECOND
from dovetail.cli import searching
from dovetail.model import labels
from dovetail.model.plan import Plan
from dovetail.model.problem import WORK_PER_SECOND, Budget
from dovetail.solve.budget import Deadline
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
    """885 pods of 150 shapes: a fifth of a second's work at most, and the search finds a cheaper plan.

    At the end it was 1.11 of the bound when unrelated pods shared nodes with those that others want near.
    """
    steps = list[Step]()
    solve(mixed(20261126, 5), Budget(), trace=steps.append)
    assert steps[0].work < WORK_PER_SECOND // 5
    assert steps[-1].cost < 0.98 * steps[0].cost
    assert steps[-1].cost < 1.09 * steps[-1].bound


class _Found(Exception):
    """There is a first plan."""


def test_what_would_not_come_in_time_is_not_begun() -> None:
    """A clock that ticks whenever it is asked. A first plan of 5,000 pods has taken more than is left."""
    problem, steps = question(3, 5_000, 150), list[Step]()
    ticks, first = count(), 0

    def found(_: Step) -> None:
        nonlocal first
        first = next(ticks)
        raise _Found

    with pytest.raises(_Found):
        solve(problem, Budget(), stop=Deadline(1 << 40, lambda: next(ticks)), trace=found)
    ticks = count()
    clock = Deadline(first * 8 // 5, lambda: next(ticks))
    plan = solve(problem, Budget(), stop=clock, trace=steps.append)
    assert [step.phase for step in steps] == ["first plan"]
    assert clock.cut
    assert not plan.untried


def test_who_asks_hears_that_more_time_may_help(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = mixed(20261126, 5)
    plan = solve(problem, Budget(0))

    def ended(*_: object, stop: Deadline, **__: object) -> Plan:
        stop.cut = True
        return plan

    monkeypatch.setattr(searching, "solve", ended)
    assert plan.cost.gap > 0
    assert searching.Search(deadline=1000 * SECOND).unchecked(problem).cut_short
