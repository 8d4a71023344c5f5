"""The queue of pods to evict: what it asks for, how often, what it reports, and what it keeps."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.base.clock import SECOND
from dovetail.base.errors import ApiError, Conflict, NotFound, TooManyRequests, Unavailable
from dovetail.cluster.state import State
from dovetail.controllers.brakes.brakes import BrakeOptions, Brakes
from dovetail.controllers.context import Context
from dovetail.controllers.node import evict
from dovetail.controllers.node.evict import EVICTIONS, PODS, EvictionQueue
from dovetail.controllers.panics import Panics
from dovetail.kube.memory import MemoryServer
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.life import Quiet

SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def pod(name: str) -> Pod:
    return decode({"metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"}}, Pod)


def node(name: str) -> Node:
    return decode({"metadata": {"name": name}}, Node)


class Server:
    """Answers evictions as the test says, the last answer for ever; notes who was asked for and when."""

    def __init__(self, clock: VirtualClock) -> None:
        self.asked: list[tuple[float, str, str, str]] = []
        self.answers: dict[str, list[Exception | None]] = {}
        self._clock = clock

    async def evict(self, name: str, namespace: str, *, uid: str = "") -> None:
        self.asked.append((self._clock.now() / SECOND, name, namespace, uid))
        answers = self.answers.get(name, [None])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is not None:
            raise answer

    def times(self, name: str) -> list[float]:
        return [at for at, asked, *_ in self.asked if asked == name]


class Recorded:
    """A recorder that notes its events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, str]] = []

    async def publish(self, about: Any, kind: str, reason: str, message: str, **_: Any) -> None:
        self.events.append((about.metadata.name, kind, reason, message))


class Stage:
    """A queue that runs, and what it works with."""

    def __init__(self, clock: VirtualClock) -> None:
        log, self.metrics, self.recorded = Quiet(), MemoryMetrics(), Recorded()
        self.server, self.clock = Server(clock), clock
        client = MemoryServer(clock).client()
        self.state = State(client, clock)
        recorder = cast("Any", self.recorded)
        context = Context(
            cast("Any", self.server),
            cast("Any", None),
            clock,
            log,
            self.state,
            recorder,
            self.metrics,
            Brakes(BrakeOptions(), clock, self.state),
            Panics(log, self.metrics, recorder, strict=True),
        )
        self.queue = EvictionQueue(context)


def staged(script: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock)
        running = asyncio.ensure_future(stage.queue.run())
        await script(stage)
        running.cancel()

    run_virtual(main)


def test_a_pod_is_asked_for_once_with_an_event_and_counted() -> None:
    async def script(stage: Stage) -> None:
        stage.queue.add(pod("a"), node("n"), "Drifted")
        await stage.clock.sleep(SECOND)
        assert stage.server.asked == [(0.0, "a", "shop", "uid-a")]
        assert stage.recorded.events == [("a", "Normal", "Evicted", "Evicted pod: Drifted")]
        assert stage.metrics.value(PODS, reason="Drifted") == 1
        assert stage.metrics.value(EVICTIONS, code="200") == 1

    staged(script)


@pytest.mark.parametrize("error", [NotFound("gone"), Conflict("another one has its name")])
def test_one_that_is_gone_is_not_asked_for_again(error: ApiError) -> None:
    async def script(stage: Stage) -> None:
        stage.server.answers["a"] = [error, None]
        stage.queue.add(pod("a"), node("n"), "Drifted")
        await stage.clock.sleep(60 * SECOND)
        assert len(stage.server.asked) == 1
        assert stage.recorded.events == []
        assert stage.metrics.value(EVICTIONS, code=str(error.status)) == 1
        stage.queue.add(pod("a"), node("n"), "Drifted")  # a node's termination may ask anew
        await stage.clock.sleep(SECOND)
        assert len(stage.server.asked) == 2

    staged(script)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TooManyRequests("Cannot evict"), "evicting pod violates a PDB (Pod=shop/a)"),
        (ApiError(SEVERAL), "eviction does not support multiple PDBs (Pod=shop/a)"),
    ],
)
def test_one_that_budgets_hold_is_asked_for_ever_more_seldom(error: ApiError, text: str) -> None:
    async def script(stage: Stage) -> None:
        stage.server.answers["a"] = [error]
        stage.queue.add(pod("a"), node("n"), "Drifted")
        await stage.clock.sleep(45 * SECOND)
        pauses = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10]
        wanted = [0.0]
        for pause in pauses:
            wanted.append(wanted[-1] + pause)
        assert stage.server.times("a") == pytest.approx(wanted)
        assert set(stage.recorded.events) == {
            ("n", "Warning", "FailedDraining", f"Failed to drain node, {text}")
        }
        assert stage.metrics.value(EVICTIONS, code=str(error.status)) == len(wanted)
        assert stage.metrics.value(PODS, reason="Drifted") is None
        stage.queue.add(pod("a"), node("n"), "Drifted")  # it keeps its pace
        await stage.clock.sleep(2 * SECOND)
        assert len(stage.server.times("a")) == len(wanted)
        stage.server.answers["a"] = [None]
        await stage.clock.sleep(30 * SECOND)
        assert len(stage.server.times("a")) == len(wanted) + 1

    staged(script)


@pytest.mark.parametrize("error", [ApiError("a webhook failed"), Unavailable(SEVERAL)])
def test_other_errors_say_nothing_of_budgets_and_are_tried_again(error: ApiError) -> None:
    async def script(stage: Stage) -> None:
        stage.server.answers["a"] = [error, None]
        stage.queue.add(pod("a"), node("n"), "Drifted")
        await stage.clock.sleep(60 * SECOND)
        assert len(stage.server.asked) == 2
        assert [event[2] for event in stage.recorded.events] == ["Evicted"]
        assert stage.metrics.value(EVICTIONS, code=str(error.status)) == 1

    staged(script)


def test_pods_of_a_node_that_shall_stay_are_forgotten_and_no_others() -> None:
    async def script(stage: Stage) -> None:
        for name in "abc":
            stage.server.answers[name] = [TooManyRequests("Cannot evict")]
        for name, place in (("a", "n"), ("b", "n"), ("c", "m")):
            stage.queue.add(pod(name), node(place), "Drifted")
        await stage.clock.sleep(SECOND)
        stage.queue.keep_only("n", frozenset({"uid-b"}))
        before = {name: len(stage.server.times(name)) for name in "abc"}
        await stage.clock.sleep(60 * SECOND)
        asked = {name: len(stage.server.times(name)) - before[name] for name in "abc"}
        assert asked["a"] == 0
        assert asked["b"] > 3
        assert asked["c"] > 3

    staged(script)


def test_one_that_shall_stay_meanwhile_is_not_asked_for_again() -> None:
    async def script(stage: Stage) -> None:
        asked: list[str] = []

        async def refuse(name: str, *_: str, **__: str) -> None:
            asked.append(name)
            stage.queue.keep_only("n", frozenset())
            raise TooManyRequests("Cannot evict")

        stage.server.evict = refuse  # type: ignore[method-assign]
        stage.queue.add(pod("a"), node("n"), "Drifted")
        await stage.clock.sleep(60 * SECOND)
        assert asked == ["a"]

    staged(script)


def test_a_pod_counts_once_until_it_is_gone() -> None:
    async def script(stage: Stage) -> None:
        for _ in range(2):
            stage.queue.add(pod("a"), node("n"), "Drifted")
            await stage.clock.sleep(SECOND)
        assert stage.metrics.value(PODS, reason="Drifted") == 1
        assert stage.metrics.value(EVICTIONS, code="200") == 2
        for change in ("ADDED", "MODIFIED"):
            stage.state.apply(change, pod("a"))
        stage.queue.add(pod("a"), node("n"), "Drifted")
        await stage.clock.sleep(SECOND)
        assert stage.metrics.value(PODS, reason="Drifted") == 1
        stage.state.apply("DELETED", pod("a"))
        stage.state.apply("ADDED", node("m"))
        stage.state.apply("DELETED", node("m"))
        stage.queue.add(pod("a"), node("n"), "Drifted")
        await stage.clock.sleep(SECOND)
        assert stage.metrics.value(PODS, reason="Drifted") == 2

    staged(script)


def test_of_pods_whose_end_was_not_seen_the_latest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evict, "_REMEMBERED", 2)

    async def script(stage: Stage) -> None:
        for name in "abcba":  # c makes a forgotten, and nothing b
            stage.queue.add(pod(name), node("n"), "Drifted")
            await stage.clock.sleep(SECOND)
        assert stage.metrics.value(PODS, reason="Drifted") == 4

    staged(script)


def test_a_hundred_are_asked_for_at_once() -> None:
    async def script(stage: Stage) -> None:
        going = 0
        most = 0

        async def slow(*_: str, **__: str) -> None:
            nonlocal going, most
            going += 1
            most = max(most, going)
            await stage.clock.sleep(SECOND)
            going -= 1

        stage.server.evict = slow  # type: ignore[method-assign]
        for number in range(250):
            stage.queue.add(pod(f"p-{number}"), node("n"), "Drifted")
        await stage.clock.sleep(10 * SECOND)
        assert most == 100
        assert stage.metrics.value(PODS, reason="Drifted") == 250

    staged(script)
