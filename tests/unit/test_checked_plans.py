"""A plan that breaks a rule is never shown, however much was worked out about it meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.base.errors import DovetailError
from dovetail.cli.plan_output import fact_lines, sentences
from dovetail.cli.searching import Answer, Search, checked
from dovetail.explain.spread_domains import AsSeen
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, Problem
from dovetail.reading import Reading
from dovetail.solve.solver import solve
from dovetail.testing.problems import instance_types, pod, pool, scenario
from dovetail.testing.scenarios import to_problem


@pytest.fixture(scope="module")
def problem() -> Problem:
    pods = [pod(f"web-{index}", "web", (1000, 1024), {}) for index in range(12)]
    return to_problem(scenario(pods, [pool("general")], instance_types()))


@pytest.fixture(scope="module")
def plan(problem: Problem) -> Plan:
    return solve(problem, Budget(20_000))


def test_a_plan_without_a_proof_is_not_said_to_have_one(plan: Plan) -> None:
    unproven = replace(plan, cost=replace(plan.cost, lower_bound=0))
    seen = AsSeen(counted=True, bound=None)
    (proven, *_), (said, *_) = (sentences(one, 0, seen, None, ()) for one in (plan, unproven))
    assert "no plan for the same pods costs less than" in proven
    assert "there was no time to prove what they cost at least" in said


def test_a_search_that_was_cut_short_promises_no_saving_without_a_proof(problem: Problem, plan: Plan) -> None:
    for bound in (0, plan.cost.hourly // 2):
        answer = Answer(replace(plan, cost=replace(plan.cost, lower_bound=bound)), 1.0, cut_short=True)
        said = " ".join(fact_lines(problem, answer, Search(), None, Reading()))
        assert "may find a cheaper plan" in said
        assert ("save up to" in said) == (bound > 0)


def test_a_plan_without_a_fault_is_shown(problem: Problem, plan: Plan) -> None:
    shown = []
    with checked(problem, plan):
        shown.append(plan)
    assert shown


@pytest.mark.parametrize("explained", [True, False])
def test_a_wrong_plan_is_not_shown(problem: Problem, plan: Plan, *, explained: bool) -> None:
    wrong = replace(plan, claims=plan.claims[1:])
    with (
        pytest.raises(DovetailError, match=r"the plan breaks .* rules, so it is not shown"),
        checked(problem, wrong),
    ):
        if not explained:
            raise KeyError("what the explanation stumbles over in such a plan")


def test_what_stops_the_explanation_of_a_right_plan_is_said(problem: Problem, plan: Plan) -> None:
    with pytest.raises(KeyboardInterrupt), checked(problem, plan):
        raise KeyboardInterrupt
    with pytest.raises(LookupError), checked(problem, plan):
        raise LookupError
