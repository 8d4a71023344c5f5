"""The worker process: cancelled, killed or shut down at any time it does no harm, and plans as inline."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from dovetail.base.clock import SECOND
from dovetail.base.errors import PlannerFailed
from dovetail.model.problem import Budget, Problem
from dovetail.runtime.planning.process import ProcessPlanner, Restarts
from dovetail.runtime.process.clock import WallClock
from dovetail.runtime.process.logs import JsonLines
from dovetail.solve.solver import solve
from dovetail.testing.problems import instance_types, pod, pool, scenario
from dovetail.testing.scenarios import read_scenarios, to_problem
from dovetail.verify import verify

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
            assert "killed by SIGKILL" in planner.failing
            assert verify(problem, await planner.plan(problem, SECOND)) == ()
            assert planner.failing == ""

    asyncio.run(main())


def test_a_fault_of_the_solver_is_reported(problem: Problem) -> None:
    broken = replace(problem, options=None)  # type: ignore[arg-type]  # no caller would ask this

    out = StringIO()

    async def main() -> None:
        async with ProcessPlanner(JsonLines(WallClock(), "info", out)) as planner:
            for _ in range(2):
                with pytest.raises(PlannerFailed, match=r"^AttributeError: .{1,200} \(\w+, \w+\.py:\d+\)$"):
                    await planner.plan(broken, SECOND)
            assert verify(problem, await planner.plan(problem, SECOND)) == ()

    asyncio.run(main())
    (line,) = map(json.loads, out.getvalue().splitlines())  # the same exception is logged once
    assert (line["level"], line["message"]) == ("ERROR", "the solver raised an exception")
    assert line["error"].startswith("AttributeError: ")
    assert line["stacktrace"].count("File ") > 1


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


def test_a_machine_without_room_for_a_process_is_reported(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0

    async def main() -> None:
        nonlocal now
        async with ProcessPlanner(now=lambda: now) as planner:
            assert planner.pid is not None
            os.kill(planner.pid, signal.SIGKILL)
            with pytest.raises(PlannerFailed):
                await planner.plan(problem, SECOND)
            with monkeypatch.context() as patch:
                patch.setattr("dovetail.runtime.planning.process._COMMAND", ("/nowhere/python",))
                with pytest.raises(PlannerFailed, match="cannot be started: No such file"):
                    await planner.plan(problem, SECOND)
            with pytest.raises(PlannerFailed, match="cannot be started: No such file"):
                await planner.plan(problem, SECOND)  # no other start before its time
            assert planner.pid is None
            now += SECOND
            assert verify(problem, await planner.plan(problem, SECOND)) == ()

    asyncio.run(main())


def test_workers_that_do_not_come_up_are_started_less_and_less_often() -> None:
    now = 0
    restarts = Restarts(lambda: now)
    pauses = []
    for _ in range(10):
        restarts.failed("no room")
        begun = now
        while refused(restarts):
            now += SECOND // 10
        pauses.append((now - begun) / SECOND)
    assert pauses == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]
    restarts.failed("no room")
    with pytest.raises(PlannerFailed, match="no room"):
        restarts.check()
    restarts.came_up()
    restarts.check()
    restarts.failed("no room")
    restarts.check()


def refused(restarts: Restarts) -> bool:
    try:
        restarts.check()
    except PlannerFailed:
        return True
    return False


def test_a_worker_that_works_on_and_on_is_killed(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    # One that never reads its question. A tenth of a second stands for the ten that it has.
    endless = (sys.executable, "-c", "while True: pass")
    monkeypatch.setattr("dovetail.runtime.planning.process._COMMAND", endless)
    monkeypatch.setattr("dovetail.runtime.planning.process._PATIENCE", SECOND // 10)
    monkeypatch.setattr("dovetail.runtime.planning.process._PER_POD", 0)

    async def main() -> None:
        async with ProcessPlanner() as planner, asyncio.timeout(60):
            with pytest.raises(PlannerFailed, match=r"used [0-9]+ s of the processor past its deadline"):
                await planner.plan(problem, 1)

    monkeypatch.setattr("dovetail.runtime.planning.process._THROTTLED", 1_000)
    asyncio.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process")
def test_a_question_beyond_the_memory_is_reported_and_the_next_one_answered(problem: Problem) -> None:
    small = next(read_scenarios(FOLDER / "basic.jsonl.gz")).problem
    pods = [pod(f"p{number}", f"a{number}", (1000, 1024), {}) for number in range(3_000)]
    many = to_problem(scenario(pods, [pool("one")], instance_types()))

    async def main() -> None:
        async with ProcessPlanner() as planner:
            await planner.plan(small, SECOND)
            assert planner.pid is not None
            resource.prlimit(planner.pid, resource.RLIMIT_DATA, (1 << 20, 1 << 20))
            with pytest.raises(PlannerFailed, match="MemoryError"):
                await planner.plan(many, SECOND)
            assert verify(problem, await planner.plan(problem, SECOND)) == ()

    asyncio.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_restarts_leave_nothing_behind() -> None:
    small = next(read_scenarios(FOLDER / "basic.jsonl.gz")).problem

    def held() -> tuple[int, int, int]:
        children = Path("/proc/thread-self/children").read_text().split()
        return len(list(Path("/proc/self/fd").iterdir())), len(children), len(asyncio.all_tasks())

    async def main() -> None:
        async with ProcessPlanner() as planner:
            before = None
            for _ in range(8):
                await planner.plan(small, SECOND)
                before = before or held()
                assert planner.pid is not None
                os.kill(planner.pid, signal.SIGKILL)
                with contextlib.suppress(PlannerFailed):  # unless its end was seen already
                    await planner.plan(small, SECOND)
            await planner.plan(small, SECOND)
            assert held() == before

    asyncio.run(main())


def test_a_worker_whose_parent_was_killed_while_it_came_up_ends_without_a_word() -> None:
    command = (sys.executable, "-P", "-m", "dovetail.runtime.planning.worker")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as worker:
        assert worker.stdin is not None and worker.stdout is not None and worker.stderr is not None
        worker.stdout.close()  # before its first word; its input is still open
        assert (worker.stderr.read(), worker.wait()) == (b"", 0)
