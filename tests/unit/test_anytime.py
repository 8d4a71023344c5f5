"""A solve can be ended at any moment: it does so soon, with a correct plan."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest

from dovetail.model.problem import Budget, Problem
from dovetail.solve.budget import SolveBudget
from dovetail.solve.solver import solve
from dovetail.testing.crowds import crowd
from dovetail.verify import verify

# (seed, pods, pod classes): with few and with many distinct pods; nodes, limits and rules are drawn as well.
CROWDS = ((1, 60, 3), (4, 12, 4), (5, 80, 2), (8, 20, 5), (9, 16, 16))
BUDGET = Budget(work=100_000)
MOMENTS = 7  # at which each is stopped
# Units of work after the stop, as a multiple of what a plan takes that is stopped before it begins.
SLACK = 2


@pytest.fixture(params=CROWDS, ids=lambda given: f"{given[1]} pods of {given[2]} shapes")
def problem(request: pytest.FixtureRequest) -> Problem:
    return crowd(*request.param)


class Spy:
    """A stop that turns True at the question of that number, and what was asked and spent until and since."""

    def __init__(self, moment: int | None = None) -> None:
        self.moment = moment
        self.asked = 0
        self.since = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.over

    @property
    def over(self) -> bool:
        return self.moment is not None and self.asked > self.moment


@pytest.fixture
def spying(monkeypatch: pytest.MonkeyPatch) -> Callable[[Spy], Spy]:
    """Counts the units that are spent after the spy's stop."""

    def install(spy: Spy) -> Spy:
        def spend(work: SolveBudget, units: int) -> None:
            if spy.over:
                spy.since += units
            work.used += units

        monkeypatch.setattr(SolveBudget, "spend", spend)
        return spy

    return install


def moments(problem: Problem) -> Iterator[int]:
    """Numbers of questions of an undisturbed solve: the first, the last, and some between."""
    spy = Spy()
    solve(problem, BUDGET, stop=spy)
    yield from sorted({round(part * spy.asked / (MOMENTS - 1)) for part in range(MOMENTS)})


def test_a_stopped_solve_ends_soon_with_a_correct_plan(
    problem: Problem, spying: Callable[[Spy], Spy]
) -> None:
    at_once = spying(Spy(0))
    solve(problem, BUDGET, stop=at_once)
    for moment in moments(problem):
        spy = spying(Spy(moment))
        plan = solve(problem, BUDGET, stop=spy)
        assert verify(problem, plan) == ()
        assert spy.since <= SLACK * at_once.since + 1_000
        # Asked once more per attempt that begins anew: it gets the same answer and remembers it.
        assert spy.asked - moment <= 3


def test_a_solve_that_is_given_up_leaves_nothing_changed(problem: Problem) -> None:
    before, undisturbed = copy.deepcopy(problem), solve(problem, BUDGET)

    class GivenUpError(Exception):
        pass

    for moment in moments(problem):
        spy = Spy(moment)

        def stop(spy: Spy = spy) -> bool:
            if spy():
                raise GivenUpError
            return False

        try:
            solve(problem, BUDGET, stop=stop)
        except GivenUpError:
            assert spy.over
        else:
            assert not spy.over
        assert problem == before
    assert solve(problem, BUDGET) == undisturbed


def test_more_work_never_makes_a_plan_worse_than_the_first(problem: Problem) -> None:
    """The first plan is the same whatever the budget, and is kept; what is proven of it holds."""
    first = solve(problem, Budget(work=1))
    given_up = sum(map(len, first.relaxed.values()))
    for work in (3_000, 15_000, 50_000):
        plan = solve(problem, Budget(work=work))
        assert len(plan.unschedulable) <= len(first.unschedulable)
        if len(plan.unschedulable) == len(first.unschedulable) and (
            sum(map(len, plan.relaxed.values())) == given_up
        ):
            assert plan.cost.hourly <= first.cost.hourly, work
            assert plan.cost.gap <= first.cost.gap + 1e-9, work
