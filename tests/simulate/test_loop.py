"""The virtual loop: order, jumps, failures; and one history for every hash seed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.base.clock import HOUR, SECOND
from dovetail.simulate.analysis.log import JsonlLog
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.simulate.time.loop import Deadlock, VirtualLoop

START = 1_790_000_000 * SECOND


def test_sleep_is_exact_and_free() -> None:
    async def main(clock: VirtualClock) -> int:
        await clock.sleep(24 * HOUR + 1)
        return clock.now()

    assert run_virtual(main, start=START) == START + 24 * HOUR + 1


# A plan is a list of (delay, children): each entry schedules its children when it runs.
_delays = st.integers(min_value=-1, max_value=3)
_plans = st.recursive(
    st.lists(st.tuples(_delays, st.just([])), max_size=4),
    lambda inner: st.lists(st.tuples(_delays, inner), max_size=4),
    max_leaves=20,
)


def _model(plan: list) -> list[tuple[int, str]]:
    """Every callback in one list, always taking the least (instant, sequence)."""
    waiting: list[tuple[int, int, str, list]] = []
    sequence, history = 0, []

    def schedule(now: int, entries: list, prefix: str) -> None:
        nonlocal sequence
        for index, (delay, children) in enumerate(entries):
            waiting.append((max(now, now + delay), sequence, f"{prefix}{index}.", children))
            sequence += 1

    schedule(0, plan, "")
    while waiting:
        entry = min(waiting, key=lambda item: item[:2])
        waiting.remove(entry)
        now, _, name, children = entry
        history.append((now, name))
        schedule(now, children, name)
    return history


@given(_plans)
def test_order_is_that_of_one_heap(plan: list) -> None:
    history: list[tuple[int, str]] = []
    with VirtualLoop() as loop:

        def schedule(entries: list, prefix: str) -> None:
            for index, (delay, children) in enumerate(entries):
                instant = loop.nanoseconds() + delay
                loop.call_at_nanosecond(instant, fire, f"{prefix}{index}.", children)

        def fire(name: str, children: list) -> None:
            history.append((loop.nanoseconds(), name))
            schedule(children, name)

        schedule(plan, "")
        with pytest.raises(Deadlock):
            loop.run_forever()
    assert history == _model(plan)


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=30))
def test_cancelled_timers_never_fire(timers: list[tuple[int, bool]]) -> None:
    fired: list[int] = []
    with VirtualLoop() as loop:
        handles = [loop.call_at_nanosecond(at, fired.append, i) for i, (at, _) in enumerate(timers)]
        for handle, (_, cancel) in zip(handles, timers, strict=True):
            if cancel:
                handle.cancel()
        with pytest.raises(Deadlock):
            loop.run_forever()
    kept = [(at, i) for i, (at, cancel) in enumerate(timers) if not cancel]
    assert fired == [i for _, i in sorted(kept)]


def test_many_cancelled_timers_leave_the_heap() -> None:
    with VirtualLoop() as loop:
        handles = [loop.call_at_nanosecond(10 + i, lambda: None) for i in range(5_000)]
        for handle in handles[:-1]:
            handle.cancel()
        assert len(loop._timers) < 2_500


def test_wait_for_times_out_on_the_virtual_clock() -> None:
    async def main(clock: VirtualClock) -> int:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(clock.sleep(HOUR), timeout=2.5)
        return clock.now()

    assert run_virtual(main, start=START) == START + 5 * SECOND // 2


def test_a_deadlock_names_who_waits() -> None:
    async def main(clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(asyncio.Event().wait(), name="the sleeper")
        await clock.sleep(SECOND)
        await task

    with pytest.raises(Deadlock, match="the sleeper"):
        run_virtual(main)


def test_a_task_that_fails_unattended_fails_the_run() -> None:
    async def broken(clock: VirtualClock) -> None:
        await clock.sleep(SECOND)
        raise ValueError("broken")

    async def main(clock: VirtualClock) -> None:
        task = asyncio.get_running_loop().create_task(broken(clock))
        await clock.sleep(HOUR)
        assert task.done()

    with pytest.raises(ValueError, match="broken"):
        run_virtual(main)


def test_a_failure_that_a_task_waits_for_is_raised_there() -> None:
    async def broken(clock: VirtualClock) -> None:
        await clock.sleep(SECOND)
        raise ValueError("broken")

    async def main(clock: VirtualClock) -> str:
        results = await asyncio.gather(broken(clock), clock.sleep(2 * SECOND), return_exceptions=True)
        try:
            await asyncio.get_running_loop().create_task(broken(clock))
        except ValueError:
            return str(results[0])
        return "nothing raised"

    assert run_virtual(main) == "broken"


def test_a_callback_that_raises_fails_the_run() -> None:
    async def main(clock: VirtualClock) -> None:
        asyncio.get_running_loop().call_soon([].pop)
        await clock.sleep(HOUR)

    with pytest.raises(IndexError):
        run_virtual(main)


def test_threads_are_refused() -> None:
    async def main(_: VirtualClock) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        run_virtual(main)


def test_what_is_left_over_is_cancelled_in_order() -> None:
    ends: list[str] = []

    async def linger(name: str, clock: VirtualClock) -> None:
        try:
            await clock.sleep(HOUR)
        finally:
            ends.append(name)

    async def numbers(clock: VirtualClock) -> AsyncIterator[int]:
        try:
            yield 1
            await clock.sleep(HOUR)
        finally:
            ends.append("generator")

    async def main(clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(linger(name, clock)) for name in ("b", "a", "c")]
        ticks = numbers(clock)
        assert await anext(ticks) == 1
        await clock.sleep(SECOND)
        assert len(tasks) == 3

    run_virtual(main)
    assert sorted(ends) == ["a", "b", "c", "generator"]
    assert [name for name in ends if name != "generator"] == ["b", "a", "c"]


def test_the_log_hashes_what_it_writes(tmp_path: Path) -> None:
    async def main(clock: VirtualClock) -> tuple[str, str]:
        with JsonlLog(clock, tmp_path / "events.jsonl") as log, JsonlLog(clock) as other:
            log.record("pod.bound", pod="a/b", node="n")
            await clock.sleep(5)
            log.record("solve", work=3)
            other.record("pod.bound", node="n", pod="a/b")
            return log.sha256(), other.sha256()

    first, second = run_virtual(main, start=7)
    assert first != second
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert lines == [
        '{"kind":"pod.bound","node":"n","pod":"a/b","t":7}',
        '{"kind":"solve","t":12,"work":3}',
    ]


_TOY = """
import asyncio
from dovetail.base.streams import stream
from dovetail.simulate.time.clock import run_virtual
from dovetail.simulate.analysis.log import JsonlLog

async def worker(name, clock, log):
    draws = stream(7, name, "naps")
    for step in range(20):
        await clock.sleep(draws.randrange(4))
        log.record("step", worker=name, step=step)

async def main(clock):
    log = JsonlLog(clock)
    await asyncio.gather(*(worker(f"w{i}", clock, log) for i in range(30)))
    return log.sha256()

print(run_virtual(main))
"""


def test_one_history_under_every_hash_seed() -> None:
    hashes = set()
    for seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", _TOY], env=environment, capture_output=True, text=True, check=True
        )
        hashes.add(done.stdout)
    assert len(hashes) == 1
