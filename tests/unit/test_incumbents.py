"""Whenever a solve is stopped, it answers the best plan so far; one that was cut short is hardly dearer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count, pairwise
from pathlib import Path

import pytest

from benchmarks.realised.workloads import workloads
from benchmarks.solve import mix, rules
from benchmarks.solve.crowded import mixed
from dovetail.cli.question import Question
from dovetail.model.plan import Step
from dovetail.model.problem import WORK_PER_SECOND, Budget, Problem
from dovetail.solve.budget import Deadline, Stop, never
from dovetail.solve.solver import solve
from dovetail.testing.crowds import crowd
from dovetail.testing.guests import node_class
from dovetail.verify import verify

PROBLEMS = {
    "spread": rules.deployments(60),
    "mix": mix.diverse(50),
    **{f"crowd {seed}": crowd(seed, 50, 10) for seed in (0, 3)},
}
WORK = (1, 3_000, 30_000)
TICKS = (250, 60, 20, 8, 3)  # of a thousand, per look at the clock


MORE = (10_000, 30_000, 100_000, 300_000, 400_000)  # beyond 300,000 another stage begins


def improves(steps: list[Step]) -> bool:
    """True iff no later incumbent places fewer pods, or the same for more, and no proof is forgotten."""
    return all(
        (after.left, after.cost) <= (before.left, before.cost)
        and (after.bound >= before.bound or after.cost < before.cost)
        for before, after in pairwise(steps)
    )


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_incumbents_only_improve_whatever_ends_the_solve(problem: Problem) -> None:
    ends: list[tuple[int, Stop]] = [(work, never) for work in WORK]
    ends += [(max(WORK), Deadline(1_000, partial(next, count(0, ticks)))) for ticks in TICKS]
    for work, clock in ends:
        steps: list[Step] = []
        plan = solve(problem, Budget(work), stop=clock, trace=steps.append)
        assert verify(problem, plan) == ()
        assert improves(steps), steps
        last = steps[-1]
        assert (plan.cost.hourly, len(plan.unschedulable)) == (last.cost, last.left)


def at_most(problem: Problem, work: int) -> tuple[int, int, int]:
    """Pods left over, nano-dollars per hour and the same less the bound, with so much work."""
    plan = solve(problem, Budget(work))
    return len(plan.unschedulable), plan.cost.hourly, plan.cost.hourly - plan.cost.lower_bound


@pytest.mark.parametrize("name", ["spread", "mix"])
def test_more_work_never_makes_a_plan_dearer(name: str) -> None:
    for before, after in pairwise(at_most(PROBLEMS[name], work) for work in (1, *MORE)):
        assert after[:2] <= before[:2]


@pytest.mark.long
@pytest.mark.parametrize("name", ["zones-33", "near-48", "hosts-47", "plain-34"])
def test_more_work_never_makes_the_plan_of_a_burst_dearer(name: str, tmp_path: Path) -> None:
    problem = burst_of(name, tmp_path)
    for before, after in pairwise(at_most(problem, work) for work in MORE):
        assert after[:2] <= before[:2]
        assert after[2] <= before[2]  # nor the gap wider


@contextmanager
def calls() -> Iterator[Callable[[int], Deadline]]:
    """Makes deadlines of a clock that no load disturbs: it counts calls of functions, thousands of them."""
    made = 0

    def one(*_: object) -> None:
        nonlocal made
        made += 1

    before = sys.getprofile()
    sys.setprofile(one)
    try:
        yield lambda thousands: Deadline(made + thousands * 1_000, lambda: made)
    finally:
        sys.setprofile(before)


def burst_of(name: str, folder: Path) -> Problem:
    """Pods that come at once, and the types of a region, whose prices differ much."""
    made = next(one for one in workloads() if one.name == name)
    path = folder / "burst.json"
    items = [node_class("realised"), *made.base, *made.burst]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return Question(filename=[str(path)], region="us-east-1").problem()


@pytest.fixture(scope="module")
def burst(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """33 pods that must be spread over zones."""
    return burst_of("zones-33", tmp_path_factory.mktemp("burst"))


# What a first plan takes is less than 370 of them. A packing that there was time for, but not for the moves
# that follow, may be a little dearer than one made first fit; one that was cut short was up to 13 % dearer.
HARDLY = 1.03


@pytest.mark.parametrize("thousands", [100, 220, 270, 330, 390, 450, 500, 570])
def test_a_plan_that_is_cut_short_is_hardly_dearer_than_one_without_any_time(
    burst: Problem, thousands: int
) -> None:
    at_once = solve(burst, Budget(), stop=lambda: 1.0)
    steps: list[Step] = []
    with calls() as clock:
        plan = solve(burst, Budget(60_000), stop=clock(thousands), trace=steps.append)
    assert verify(burst, plan) == ()
    assert not plan.unschedulable
    assert plan.cost.hourly <= at_once.cost.hourly * HARDLY
    assert improves(steps), steps


def test_with_twice_its_time_a_plan_is_no_dearer_than_the_first(burst: Problem) -> None:
    first = solve(burst, Budget(1))
    with calls() as clock:
        plan = solve(burst, Budget(60_000), stop=clock(800))
    assert plan.cost.hourly <= first.cost.hourly


def test_what_is_proven_of_a_plan_that_leaves_pods_over_is_kept() -> None:
    """It was taken before it was proven, and what came with the proof was no better."""
    plan = solve(mixed(66612, 4), Budget(work=WORK_PER_SECOND))
    assert plan.unschedulable
    assert plan.cost.gap < 0.01
