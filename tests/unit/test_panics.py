"""Unexpected errors: caught, logged once, counted each time, tried again; in tests they end the run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from dovetail.api.core import Node
from dovetail.api.meta import Meta
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, CloudError, Conflict
from dovetail.controllers.panics import LONGEST_PAUSE, PANICS, Panics
from dovetail.kube.memory import MemoryServer
from dovetail.kube.recorder import Recorder
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.simulate.analysis.log import JsonlLog
from dovetail.simulate.time.clock import VirtualClock, run_virtual

NODE = Node(metadata=Meta(name="a", uid="u"))


class Wall:
    """Panics with all that it writes to."""

    def __init__(self, clock: VirtualClock, *, strict: bool = False) -> None:
        self.log, self.metrics = JsonlLog(clock), MemoryMetrics()
        recorder = Recorder(MemoryServer(clock).client(), clock)
        self.panics = Panics(self.log, self.metrics, recorder, strict=strict)

    def logged(self) -> list[tuple[object, object]]:
        return [(one["controller"], one["key"]) for one in self.log.records]

    def counted(self, controller: str) -> float | None:
        return self.metrics.value(PANICS, controller=controller)


def on(test: Callable[[VirtualClock], None]) -> None:
    async def main(clock: VirtualClock) -> None:
        test(clock)

    run_virtual(main)


def test_strict_raises_and_says_nothing() -> None:
    def test(clock: VirtualClock) -> None:
        wall = Wall(clock, strict=True)
        with pytest.raises(ValueError, match="bad"), wall.panics.alone("pods", "a"):
            raise ValueError("bad")
        assert wall.logged() == [] and wall.counted("pods") is None

    on(test)


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([("x", "a", ValueError), ("x", "a", ValueError)], [("x", "a")]),
        ([("x", "a", ValueError), ("x", "b", ValueError)], [("x", "a"), ("x", "b")]),
        ([("x", "a", ValueError), ("y", "a", ValueError)], [("x", "a"), ("y", "a")]),
        ([("x", "a", ValueError), ("x", "a", KeyError)], [("x", "a"), ("x", "a")]),
    ],
    ids=["the same", "another object", "another controller", "another error"],
)
def test_logged_once_and_counted_each_time(
    turns: list[tuple[str, str, type[Exception]]], expected: list[tuple[str, str]]
) -> None:
    def test(clock: VirtualClock) -> None:
        wall = Wall(clock)
        for controller, key, kind in turns:
            with wall.panics.alone(controller, key, NODE):
                raise kind("bad")
        assert wall.logged() == expected
        assert wall.log.records[0]["object"] == "Node a"
        assert sum(wall.counted(name) or 0 for name in ("x", "y")) == 2

    on(test)


@pytest.mark.parametrize("error", [Conflict("changed"), ApiError("no"), CloudError("no")])
def test_foreseen_errors_pass(error: Exception) -> None:
    def test(clock: VirtualClock) -> None:
        wall = Wall(clock)
        with pytest.raises(type(error)), wall.panics.alone("pods", "a"):
            raise error
        assert wall.logged() == []

    on(test)


def test_a_loop_begins_anew_ever_more_slowly() -> None:
    async def main(clock: VirtualClock) -> None:
        wall, began = Wall(clock), list[int]()

        async def run() -> None:
            began.append(clock.now())
            if len(began) == 12:
                await clock.sleep(2 * LONGEST_PAUSE)  # it did well for long
            if len(began) < 14:
                raise ValueError("bad")

        await wall.panics.keep("loop", clock, run)
        pauses = [(after - before) // SECOND for before, after in pairwise(began)]
        assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 601, 2]
        assert wall.counted("loop") == 13 and wall.logged() == [("loop", "")]

    run_virtual(main)


def test_a_controller_counts_from_nought() -> None:
    async def main(clock: VirtualClock) -> None:
        wall = Wall(clock)

        async def run() -> None:
            await clock.sleep(MINUTE)

        await wall.panics.keep("loop", clock, run)
        assert wall.counted("loop") == 0

    run_virtual(main)
