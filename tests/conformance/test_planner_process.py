"""The worker process: cancelled, killed or shut down at any time it does no harm, and plans as inline."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from dovetail.base.clock import SECOND
from dovetail.base.errors import PlannerFailed
from dovetail.model.problem import Budget, Problem
from dovetail.runtime.planning.process import ProcessPlanner
from dovetail.solve.solver import solve
from dovetail.solve.verify import verify
from dovetail.testing.scenarios import read_scenarios

FOLDER = Path(__file__).parent / "vectors" / "scheduling"
AGES = 3600 * SECOND  # no clock ends these solves


@pytest.fixture(scope="module")
def problem() -> Problem:
    return max(
        (scenario.problem for scenario in read_scenarios(FOLDER / "mixed.jsonl.gz")),
        key=lambda problem: len(problem.pods),
    )


def alive(pid: int | None) -> bool:
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def asked(planner: ProcessPlanner, problem: Problem) -> asyncio.Task[object]:
    """A question whose first pieces are on their way."""
    task = asyncio.get_running_loop().create_task(planner.plan(problem, AGES))
    for _ in range(3):
        await asyncio.sleep(0)
    return task


def test_the_same_plan_as_inline() -> None:
    # Solved long before its deadline, however busy the machine is.
    small = next(read_scenarios(FOLDER / "basic.jsonl.gz")).problem

    async def main() -> None:
        async with ProcessPlanner() as planner:
            for _ in range(2):  # the second time, the types are there already
                plan = await planner.plan(small, 60 * SECOND)
                assert plan == solve(small, Budget.within(60 * SECOND))

    asyncio.run(main())


def test_the_clock_ends_a_solve(problem: Problem) -> None:
    async def main() -> None:
        async with ProcessPlanner() as planner:
            plan = await planner.plan(problem, 1)
            assert verify(problem, plan) == ()

    asyncio.run(main())


def test_a_cancelled_question_ends_its_worker(problem: Problem) -> None:
    async def main() -> None:
        async with ProcessPlanner() as planner:
            pid = planner.pid
            task = await asked(planner, problem)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert planner.pid is None
            assert verify(problem, await planner.plan(problem, SECOND)) == ()
            assert planner.pid != pid
        assert not alive(pid)

    asyncio.run(main())


def test_a_worker_that_dies_is_named_and_replaced(problem: Problem) -> None:
    async def main() -> None:
        async with ProcessPlanner() as planner:
            task = await asked(planner, problem)
            assert planner.pid is not None
            os.kill(planner.pid, signal.SIGKILL)
            with pytest.raises(PlannerFailed, match="killed by SIGKILL"):
                await task
            assert verify(problem, await planner.plan(problem, SECOND)) == ()

    asyncio.run(main())


def test_a_fault_of_the_solver_is_told(problem: Problem) -> None:
    broken = replace(problem, options=None)  # type: ignore[arg-type]  # nobody would ask this

    async def main() -> None:
        async with ProcessPlanner() as planner:
            with pytest.raises(PlannerFailed, match=r"the solver failed:\n(.|\n)*AttributeError"):
                await planner.plan(broken, SECOND)
            assert verify(problem, await planner.plan(problem, SECOND)) == ()

    asyncio.run(main())


def test_nothing_is_left_behind(problem: Problem) -> None:
    async def main() -> list[int | None]:
        seen = []
        async with ProcessPlanner() as planner:
            seen.append(planner.pid)
            task = await asked(planner, problem)
        with pytest.raises(PlannerFailed):
            await task
        with pytest.raises(PlannerFailed, match="closed"):
            await planner.plan(problem, SECOND)
        return seen

    for pid in asyncio.run(main()):
        assert not alive(pid)


def test_a_stopped_worker_is_killed_soon_after_its_deadline(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.runtime.planning.process._SILENCE", 1)

    async def main() -> None:
        async with ProcessPlanner() as planner:
            assert planner.pid is not None
            os.kill(planner.pid, signal.SIGSTOP)
            async with asyncio.timeout(60):
                with pytest.raises(PlannerFailed, match="did nothing for 1 s past its deadline"):
                    await planner.plan(problem, 1)
            assert verify(problem, await planner.plan(problem, SECOND)) == ()

    asyncio.run(main())


def test_a_machine_without_room_for_a_process_is_told(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with ProcessPlanner() as planner:
            assert planner.pid is not None
            os.kill(planner.pid, signal.SIGKILL)
            with pytest.raises(PlannerFailed):
                await planner.plan(problem, SECOND)
            with monkeypatch.context() as patch:
                patch.setattr("dovetail.runtime.planning.process._COMMAND", ("/nowhere/python",))
                with pytest.raises(PlannerFailed, match="cannot be started: No such file"):
                    await planner.plan(problem, SECOND)
            assert verify(problem, await planner.plan(problem, SECOND)) == ()

    asyncio.run(main())
