"""What every planner does, whether it solves on the caller's loop or elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from dovetail.base.clock import SECOND
from dovetail.controllers.planner import Planner
from dovetail.model.problem import Budget, Problem
from dovetail.runtime.planning.inline import InlinePlanner
from dovetail.runtime.planning.process import ProcessPlanner
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.solve.solver import solve
from dovetail.testing.scenarios import read_scenarios
from dovetail.verify import verify

FOLDER = Path(__file__).parent / "vectors" / "scheduling"

Script = Callable[[Planner], Coroutine[Any, Any, None]]


def inline(script: Script) -> None:
    async def main(clock: VirtualClock) -> None:
        await script(InlinePlanner(clock))

    run_virtual(main)


def process(script: Script) -> None:
    async def main() -> None:
        async with ProcessPlanner() as planner:
            await script(planner)

    asyncio.run(main())


TWINS = {"inline": inline, "process": process}


@pytest.fixture(params=sorted(TWINS))
def play(request: pytest.FixtureRequest) -> Callable[[Script], None]:
    """Runs a script with a planner of each kind."""
    return TWINS[request.param]


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    return [scenario.problem for scenario in read_scenarios(FOLDER / "basic.jsonl.gz")][:4]


def test_plans_are_correct(play: Callable[[Script], None], problems: list[Problem]) -> None:
    async def script(planner: Planner) -> None:
        for problem in problems:
            plan = await planner.plan(problem, SECOND)
            assert verify(problem, plan) == ()
            assert plan.work > 0

    play(script)


def test_questions_asked_at_once_are_answered_in_turn(
    play: Callable[[Script], None], problems: list[Problem]
) -> None:
    order: list[int] = []

    async def ask(planner: Planner, number: int) -> None:
        plan = await planner.plan(problems[number], SECOND)
        order.append(number)
        assert verify(problems[number], plan) == ()

    async def script(planner: Planner) -> None:
        await asyncio.gather(*(ask(planner, number) for number in range(len(problems))))

    play(script)
    assert order == list(range(len(problems)))


def test_a_cancelled_question_leaves_the_planner_usable(
    play: Callable[[Script], None], problems: list[Problem]
) -> None:
    async def script(planner: Planner) -> None:
        loop = asyncio.get_running_loop()
        for turns in range(4):
            asked = [loop.create_task(planner.plan(problem, SECOND)) for problem in problems]
            for _ in range(turns):
                await asyncio.sleep(0)
            asked[0].cancel()
            asked[2].cancel()
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert isinstance(answers[2], asyncio.CancelledError)
            for number in (1, 3):
                answer = answers[number]
                assert not isinstance(answer, BaseException)
                assert verify(problems[number], answer) == ()

    play(script)


def test_the_inline_twin_solves_by_counted_work_and_takes_its_time(problems: list[Problem]) -> None:
    async def main(clock: VirtualClock) -> None:
        planner = InlinePlanner(clock, 1_000)
        plan = await planner.plan(problems[0], 2 * SECOND)
        assert plan == solve(problems[0], Budget(2_000))
        assert clock.now() == plan.work * SECOND // 1_000

    run_virtual(main)
