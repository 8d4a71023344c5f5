"""Batching windows in virtual time: each row is triggers as (instant, uid) and the windows that they make."""

from __future__ import annotations

import asyncio

import pytest

from dovetail.base.clock import SECOND
from dovetail.controllers.provisioning.trigger import Batcher
from dovetail.simulate.time.clock import VirtualClock, run_virtual

MS = SECOND // 1000


def windows(triggers: list[tuple[int, str]], *, busy: int = 0) -> list[tuple[int, int]]:
    """Opening and closing in ms; after each window the planner is busy for `busy` ms."""

    async def main(clock: VirtualClock) -> list[tuple[int, int]]:
        batcher = Batcher(clock, SECOND, 10 * SECOND)
        found = []

        async def listen() -> None:
            while True:
                window = await batcher.wait()
                found.append((window.opened // MS, window.closed // MS))
                await clock.sleep(busy * MS)

        task = asyncio.get_running_loop().create_task(listen())
        for instant, uid in triggers:
            await clock.sleep(instant * MS - clock.now())
            batcher.trigger(uid)
        await clock.sleep(60 * SECOND)
        task.cancel()
        return found

    return run_virtual(main)


@pytest.mark.parametrize(
    ("triggers", "expected"),
    [
        ([], []),
        ([(100, "a")], [(100, 1100)]),
        ([(100, "a"), (600, "b")], [(100, 1600)]),
        ([(100, "a"), (600, "a")], [(100, 1100)]),
        ([(100, "a"), (600, "b"), (900, "a")], [(100, 1600)]),
        ([(100, "a"), (1500, "b")], [(100, 1100), (1500, 2500)]),
        ([(100, "a"), (1500, "a")], [(100, 1100), (1500, 2500)]),
    ],
)
def test_windows(triggers: list[tuple[int, str]], expected: list[tuple[int, int]]) -> None:
    assert windows(triggers) == expected


def test_a_window_knows_when_each_of_its_pods_came() -> None:
    async def main(clock: VirtualClock) -> None:
        batcher = Batcher(clock, SECOND, 10 * SECOND)
        batcher.trigger("a")
        await clock.sleep(SECOND // 2)
        batcher.trigger("b")
        batcher.trigger("a")
        assert (await batcher.wait()).triggers == {"a": 0, "b": SECOND // 2}
        batcher.trigger("b")
        assert list((await batcher.wait()).triggers) == ["b"]

    run_virtual(main)


def test_a_window_never_lasts_longer_than_the_maximum() -> None:
    found = windows([(100 + 900 * i, f"pod-{i}") for i in range(15)])
    assert found[0] == (100, 10_100)
    assert len(found) == 2


def test_what_comes_while_a_batch_is_worked_on_opens_the_next_window() -> None:
    assert windows([(0, "a"), (2000, "b")], busy=5000) == [(0, 1000), (6000, 7000)]
