"""The controllers' work queue in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from dovetail.base.clock import SECOND
from dovetail.base.errors import Conflict
from dovetail.controllers.reconciler import Reconciler
from dovetail.simulate.time.clock import VirtualClock, run_virtual


def raising(_: str, error: Exception) -> None:
    raise error


def test_the_queue_retries_conflicts_and_keeps_one_reconcile_per_key() -> None:
    async def main(clock: VirtualClock) -> list[tuple[int, str]]:
        calls: list[tuple[int, str]] = []
        running: set[str] = set()

        async def reconcile(key: str) -> int | None:
            assert key not in running
            running.add(key)
            calls.append((clock.now() // 1_000_000, key))
            await clock.sleep(SECOND)
            running.discard(key)
            if key == "conflict" and len([call for call in calls if call[1] == key]) < 3:
                raise Conflict("try again")
            return 10 * SECOND if key == "periodic" and clock.now() < 15 * SECOND else None

        queue = Reconciler("test", clock, reconcile)
        task = asyncio.get_running_loop().create_task(queue.run())
        for key in ("conflict", "periodic", "twice"):
            queue.add(key)
        await clock.sleep(SECOND // 2)
        queue.add("twice")
        await clock.sleep(60 * SECOND)
        task.cancel()
        return calls

    calls = run_virtual(main)
    assert [instant for instant, key in calls if key == "conflict"] == [0, 1005, 2015]
    assert [instant for instant, key in calls if key == "periodic"] == [0, 11_000, 22_000]
    assert [instant for instant, key in calls if key == "twice"] == [0, 1000]


def test_a_key_with_nothing_to_do_is_not_reconciled() -> None:
    async def main(clock: VirtualClock) -> list[tuple[int, str]]:
        calls: list[tuple[int, str]] = []
        resting = {"rests": True, "wakes": True, "broken": True}

        async def reconcile(key: str) -> int | None:
            calls.append((clock.now() // SECOND, key))
            return 10 * SECOND

        def rests(key: str) -> int | None:
            if key == "broken":
                raise ValueError("it cannot be told")
            return 10 * SECOND if resting[key] else None

        queue = Reconciler("test", clock, reconcile, rests=rests)
        task = asyncio.get_running_loop().create_task(queue.run())
        for key in resting:
            queue.add(key)
        await clock.sleep(25 * SECOND)
        resting["wakes"] = False
        await clock.sleep(10 * SECOND)
        resting["rests"] = False
        queue.add("rests")
        await clock.sleep(SECOND)
        assert queue.tally.results == {"success": 0, "requeue_after": 13, "error": 0}
        task.cancel()
        return calls

    calls = run_virtual(main)
    assert [instant for instant, key in calls if key == "broken"] == [0, 10, 20, 30]
    assert [instant for instant, key in calls if key == "wakes"] == [30]
    assert [instant for instant, key in calls if key == "rests"] == [35]


def drive(script: Callable[[VirtualClock], Coroutine[Any, Any, None]]) -> None:
    run_virtual(script)


def test_ten_thousand_plans_for_later_are_one_task() -> None:
    async def script(clock: VirtualClock) -> None:
        done: list[str] = []

        async def reconcile(key: str) -> None:
            done.append(key)

        queue = Reconciler("test", clock, reconcile)
        before = len(asyncio.all_tasks())
        for number in range(10_000):
            queue.add_after(f"claim-{number}", (10_000 - number) * SECOND)
        await clock.sleep(0)  # alarms that an earlier instant took the place of are cancelled
        assert len(asyncio.all_tasks()) == before + 1
        for number in range(9_999):
            queue.forget(f"claim-{number}")
        task = asyncio.get_running_loop().create_task(queue.run())
        await clock.sleep(SECOND // 2)
        assert len(asyncio.all_tasks()) == before + 2, "the queue, and its alarm"
        await clock.sleep(20_000 * SECOND)
        assert done == ["claim-9999"] and len(asyncio.all_tasks()) == before + 1
        task.cancel()

    drive(script)


def test_what_is_planned_again_and_again_does_not_pile_up() -> None:
    async def script(clock: VirtualClock) -> None:
        async def reconcile(_: str) -> int:
            return 10**18  # 30 years

        queue = Reconciler("test", clock, reconcile)
        task = asyncio.get_running_loop().create_task(queue.run())
        for _ in range(1000):
            queue.add("claim")
            await clock.sleep(1)
        assert len(queue._heap) < 200
        task.cancel()

    drive(script)


def test_a_wait_is_as_long_as_it_should_be_when_the_clock_is_set_back() -> None:
    class SetBack:
        def __init__(self, clock: VirtualClock) -> None:
            self.clock, self.by = clock, 0

        def now(self) -> int:
            return self.clock.now() - self.by

        def monotonic(self) -> int:
            return self.clock.monotonic()

        async def sleep(self, nanoseconds: int) -> None:
            await self.clock.sleep(nanoseconds)

    async def script(clock: VirtualClock) -> None:
        done: list[tuple[int, str]] = []

        async def reconcile(key: str) -> None:
            done.append((clock.now() // SECOND, key))

        machine = SetBack(clock)
        queue = Reconciler("test", machine, reconcile)
        task = asyncio.get_running_loop().create_task(queue.run())
        queue.add_after("a", 10 * SECOND)
        queue.add_after("b", 20 * SECOND)
        await clock.sleep(SECOND)
        machine.by = 3600 * SECOND
        await clock.sleep(60 * SECOND)
        assert done == [(10, "a"), (20, "b")]
        task.cancel()

    drive(script)


def test_an_unexpected_error_costs_its_own_key_and_is_tried_again_ever_more_slowly() -> None:
    async def script(clock: VirtualClock) -> None:
        done: list[tuple[int, str]] = []
        caught: list[str] = []

        async def reconcile(key: str) -> None:
            done.append((clock.now() // SECOND, key))
            if key == "bad" and clock.now() < 1000 * SECOND:
                raise RecursionError("maximum recursion depth exceeded")

        queue = Reconciler(
            "test", clock, reconcile, on_panic=lambda key, error: caught.append(f"{key} {error}")
        )
        task = asyncio.get_running_loop().create_task(queue.run())
        queue.add("bad")
        await clock.sleep(SECOND // 2)
        queue.add("good")
        await clock.sleep(3600 * SECOND)
        bad = [instant for instant, key in done if key == "bad"]
        assert bad == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111], "doubling, up to five minutes"
        assert (0, "good") in done and not task.done()
        assert len(caught) == len(bad) - 1 and queue.tally.results["error"] == len(caught)
        task.cancel()

    drive(script)


@pytest.mark.parametrize("policy", [None, raising])
def test_without_a_policy_or_with_a_strict_one_it_ends_the_queue(policy: Any) -> None:
    async def script(clock: VirtualClock) -> None:
        async def reconcile(_: str) -> None:
            raise KeyError("bug")

        queue = Reconciler("test", clock, reconcile, on_panic=policy)
        queue.add("bad")
        with pytest.raises(KeyError, match="bug"):
            await queue.run()

    drive(script)


def test_turns_are_in_the_context_of_the_queue_not_of_what_added_the_key() -> None:
    """Metrics are by controller: what wakes one is another, or a watch."""
    name: ContextVar[str] = ContextVar("name", default="none")

    async def main(clock: VirtualClock) -> list[str]:
        seen: list[str] = []

        async def reconcile(_: str) -> int | None:
            seen.append(name.get())
            return None

        async def run() -> None:
            name.set("queue")
            await queue.run()

        queue = Reconciler("test", clock, reconcile)
        task = asyncio.get_running_loop().create_task(run())
        for instant in range(3):
            name.set(f"watch {instant}")
            queue.add("a")
            await clock.sleep(SECOND)
        task.cancel()
        return seen

    assert run_virtual(main) == ["queue"] * 3
