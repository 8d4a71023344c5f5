"""When a second plan on larger nodes is asked for, and which of the two is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from test_order import claim, pod, spread

from dovetail.controllers.provisioning.sturdy import (
    CROWD,
    FEW,
    cheaper,
    may_cost_less,
    second_question,
    sturdier,
)
from dovetail.model.labels import HOSTNAME, INSTANCE_TYPE, ZONE
from dovetail.model.plan import Cost, Plan, Unschedulable
from dovetail.model.problem import Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.testing.problems import instance_types, pool, scenario
from dovetail.testing.scenarios import to_problem

MANY = FEW + 1


def problem(*rules: dict[str, Any], pods: int = MANY) -> Problem:
    """On a market of which some types have fewer than eight CPUs."""
    found = to_problem(scenario([], [pool("general")], instance_types()))
    return replace(found, pods=tuple(pod(f"p{n}", *rules) for n in range(pods)))


def plan(nodes: int, hourly: int, bound: int = 1, pods: int = MANY, **more: Any) -> Plan:
    """The pods dealt to the nodes in turn."""
    shares: Sequence[list[str]] = [[] for _ in range(nodes)]
    for n in range(pods):
        shares[n % nodes].append(f"p{n}")
    claims = tuple(claim(f"c{n}", "z", *share) for n, share in enumerate(shares))
    return Plan(claims=claims, cost=Cost(hourly, bound), **more)


@pytest.mark.parametrize(
    ("rules", "nodes", "asked"),
    [
        ((spread(ZONE),), MANY, True),
        ((spread(ZONE),), FEW, False),
        ((spread(HOSTNAME),), MANY, False),
        ((spread(ZONE, "ScheduleAnyway"),), MANY, False),
        ((), MANY, False),
    ],
)
def test_a_second_plan_is_asked_for_where_pods_to_be_spread_are_on_many_nodes(
    rules: tuple[dict[str, Any], ...], nodes: int, asked: bool
) -> None:
    given = problem(*rules)
    question = second_question(given, plan(nodes, 1000))
    assert (question is not None) is asked
    if question is not None:
        (small,), (large,) = given.pools, question.pools
        assert {one.capacity["cpu"] >= 8000 for one in small.instance_types} == {True, False}
        assert large.instance_types == tuple(
            one for one in small.instance_types if one.capacity["cpu"] >= 8000
        )
        assert (question.pods, question.nodes) == (given.pods, given.nodes)


def test_nothing_is_asked_where_no_type_is_small() -> None:
    given = problem(spread(ZONE))
    question = second_question(given, plan(MANY, 1000))
    assert question is not None
    assert second_question(question, plan(MANY, 1000)) is None


def test_nothing_is_asked_where_the_pools_exclude_small_types_themselves() -> None:
    given = problem(spread(ZONE))
    (some,) = given.pools
    names = [one.name for one in some.instance_types if one.capacity["cpu"] >= 8000]
    own = Requirements.of(
        (*some.requirements.by_key.values(), Requirement.new(INSTANCE_TYPE, "In", tuple(names)))
    )
    assert second_question(replace(given, pools=(replace(some, requirements=own),)), plan(MANY, 1000)) is None


@pytest.mark.parametrize(
    ("other", "taken"),
    [
        (plan(3, 9_000), True),
        (plan(3, 10_099), True),  # (400 + 3) * 10,099 < (400 + 7) * 10,000
        (plan(3, 10_100), False),
        (plan(MANY, 9_999), True),
        (plan(MANY, 10_000), False),
        (plan(3, 9_000, unschedulable=(Unschedulable("d/p0", "no room"),)), False),
        (plan(3, 9_000, relaxed={"d/p0": ("a preference",)}), False),
        (Plan(claims=(replace(claim("c", "z", "p0"), pool="dearer"),), cost=Cost(1, 1)), False),
    ],
)
def test_the_one_is_taken_that_is_cheaper_with_its_risk(other: Plan, taken: bool) -> None:
    first = plan(MANY, 10_000, bound=9_500, work=5)
    found = sturdier(problem(spread(ZONE)), first, replace(other, work=7))
    if not taken:
        assert found == first
        return
    assert found.claims == other.claims
    assert found.cost == Cost(other.cost.hourly, min(9_500, other.cost.hourly))
    assert found.work == 12


@pytest.mark.parametrize(
    ("hourly", "bound", "far"), [(1_030, 1_000, False), (1_031, 1_000, True), (0, 0, False), (9, 0, False)]
)
def test_a_plan_may_cost_less_with_more_time_that_is_three_percent_above_what_is_proven(
    hourly: int, bound: int, far: bool
) -> None:
    assert may_cost_less(problem(), plan(1, hourly, bound)) is far


@pytest.mark.parametrize(("pods", "asked"), [(CROWD, True), (CROWD + 1, False)])
def test_of_crowds_nothing_is_asked_again(pods: int, asked: bool) -> None:
    assert may_cost_less(problem(pods=pods), plan(1, 2_000, 1_000)) is asked


def test_what_took_longer_is_taken_if_it_is_cheaper_with_the_better_of_both_bounds() -> None:
    given, first = problem(), plan(2, 1_000, bound=900, work=5)
    assert cheaper(given, first, plan(2, 1_000, bound=950)) == first
    better = plan(2, 980, bound=950, work=7)
    assert cheaper(given, first, better) == replace(better, work=12)
    assert cheaper(given, first, replace(better, cost=Cost(980, 800))) == replace(
        better, cost=Cost(980, 900), work=12
    )
