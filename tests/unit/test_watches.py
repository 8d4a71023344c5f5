"""Watches that fail: what the gauge, the log and the probes say, and when all is well again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dovetail.api.core import Namespace, Node, Pod
from dovetail.api.meta import Object
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, Forbidden, NotFound, Unavailable
from dovetail.kube.memory import MemoryServer
from dovetail.kube.memory.client import MemoryClient
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.runtime.watches import FAILING, Watches
from dovetail.simulate.time.clock import VirtualClock, run_virtual


class Flaky(MemoryClient):
    """Answers nothing about kinds in `broken` but the error."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server)
        self.broken: dict[type[Object], Exception] = {}
        self._open: list[asyncio.Event] = []

    async def list(self, kind: type[Any], namespace: str = "", **selectors: str) -> Any:
        if kind in self.broken:
            raise self.broken[kind]
        return await super().list(kind, namespace, **selectors)

    def watch(self, kind: type[Any], namespace: str = "", **rest: Any) -> AsyncIterator[Any]:
        inner, cut = super().watch(kind, namespace, **rest), asyncio.Event()
        self._open.append(cut)

        async def changes() -> AsyncIterator[Any]:
            while True:
                step = asyncio.ensure_future(anext(inner))
                end = asyncio.ensure_future(cut.wait())
                await asyncio.wait((step, end), return_when=asyncio.FIRST_COMPLETED)
                end.cancel()
                if cut.is_set():
                    step.cancel()
                    raise self.broken.get(kind, Unavailable("closed"))
                yield step.result()

        return changes()

    def cut(self) -> None:
        """End every open watch."""
        for event in self._open:
            event.set()
        self._open = []


class Stage:
    """Watches of three kinds that run, and what they log."""

    def __init__(self, clock: VirtualClock, optional: tuple[type[Object], ...] = ()) -> None:
        self.clock, self.metrics = clock, MemoryMetrics()
        self.server = MemoryServer(clock)
        self.client = Flaky(self.server)
        self.logged: list[tuple[str, dict[str, object]]] = []
        self.seen: list[tuple[str, str]] = []
        self.watches = Watches(
            self.client,
            (Pod, Node, Namespace),
            lambda change, obj: self.seen.append((change, obj.key)),
            clock=clock,
            log=self,
            metrics=self.metrics,
            optional=optional,
        )

    def record(self, kind: str, /, **fields: object) -> None:
        """As an event log."""
        self.logged.append((kind, fields))

    def failing(self, kind: type[Object]) -> float | None:
        return self.metrics.value(FAILING, kind=kind.KIND)

    def nodes(self) -> list[tuple[str, str]]:
        return [(change, key) for change, key in self.seen if key.startswith("n")]


def staged(script: Any, optional: tuple[type[Object], ...] = ()) -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock, optional)
        running = asyncio.ensure_future(stage.watches.run())
        await script(stage)
        running.cancel()
        await asyncio.wait((running,))

    run_virtual(main)


def put(stage: Stage, name: str) -> None:
    stage.server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})


def test_before_the_first_lists_the_controller_is_blind_and_then_it_is_not() -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock)
        kinds = ("pods", "nodes", "namespaces")
        text = "; ".join(f"{kind}: the first list has not come yet" for kind in kinds)
        assert stage.watches.blind() == text and not stage.watches.synced
        running = asyncio.ensure_future(stage.watches.run())
        await stage.watches.wait_synced()
        assert stage.watches.synced and stage.watches.blind() == ""
        await clock.sleep(MINUTE)
        assert [stage.failing(kind) for kind in (Pod, Node, Namespace)] == [0, 0, 0]
        assert stage.logged == []
        running.cancel()
        await asyncio.wait((running,))

    run_virtual(main)


def test_a_kind_that_cannot_be_watched_is_logged_after_a_minute_once() -> None:
    async def script(stage: Stage) -> None:
        await stage.watches.wait_synced()
        await stage.clock.sleep(5 * MINUTE)
        stage.client.broken[Node] = Unavailable("no answer")
        stage.client.cut()
        await stage.clock.sleep(50 * SECOND)
        assert stage.watches.blind() == "" and stage.logged == []
        assert 30 <= (stage.failing(Node) or 0) <= 50
        await stage.clock.sleep(30 * SECOND)
        assert stage.watches.blind().startswith("nodes cannot be watched for 80s: no answer")
        await stage.clock.sleep(10 * MINUTE)
        (one,) = stage.logged
        assert one[0] == "watch.failing" and one[1]["what"] == "nodes" and one[1]["message"] == "no answer"
        assert 60 <= int(str(one[1]["seconds"])) <= 75
        assert (stage.failing(Node) or 0) > 600
        assert stage.failing(Pod) == stage.failing(Namespace) == 0
        stage.client.broken[Node] = Unavailable("another cause")
        await stage.clock.sleep(MINUTE)
        assert [fields["message"] for _, fields in stage.logged] == ["no answer", "another cause"]

    staged(script)


def test_what_came_meanwhile_is_shown_and_the_next_failure_is_logged_anew() -> None:
    async def script(stage: Stage) -> None:
        await stage.watches.wait_synced()
        for number in range(2):
            await stage.clock.sleep(5 * MINUTE)
            stage.client.broken[Node] = Unavailable("no answer")
            stage.client.cut()
            put(stage, f"n{number}")
            await stage.clock.sleep(2 * MINUTE)
            assert stage.watches.blind()
            assert ("ADDED", f"n{number}") not in stage.seen
            stage.client.broken.clear()
            await stage.clock.sleep(2 * MINUTE)
            assert ("ADDED", f"n{number}") in stage.seen
            assert stage.watches.blind() == "" and stage.failing(Node) == 0
        assert [kind for kind, _ in stage.logged] == ["watch.failing"] * 2
        assert stage.nodes() == [("ADDED", "n0"), ("ADDED", "n1")]

    staged(script)


@pytest.mark.parametrize("error", [Forbidden("pods is forbidden"), NotFound("no such kind")])
def test_a_kind_that_a_cluster_may_lack_has_no_objects_until_it_has(error: ApiError) -> None:
    async def script(stage: Stage) -> None:
        stage.client.broken[Node] = error
        await stage.watches.wait_synced()
        await stage.clock.sleep(5 * MINUTE)
        put(stage, "n")
        assert stage.watches.blind() == "" and stage.failing(Node) == 0 and stage.nodes() == []
        stage.client.broken.clear()
        await stage.clock.sleep(2 * MINUTE)
        assert stage.nodes() == [("ADDED", "n")]
        stage.client.broken[Node] = error
        stage.client.cut()
        await stage.clock.sleep(2 * MINUTE)
        assert stage.watches.blind() == "" and stage.nodes() == [("ADDED", "n"), ("DELETED", "n")]

    staged(script, optional=(Node,))


def test_a_right_that_is_lacking_is_logged_at_once_and_shown_by_probes_after_a_minute() -> None:
    async def script(stage: Stage) -> None:
        stage.client.broken[Pod] = Forbidden("pods is forbidden")
        await stage.clock.sleep(SECOND)
        assert stage.logged == [("watch.refused", {"what": "pods", "message": "pods is forbidden"})]
        assert stage.watches.blind() == "pods: the first list has not come yet"
        await stage.clock.sleep(2 * MINUTE)
        assert [kind for kind, _ in stage.logged] == ["watch.refused", "watch.failing"]
        assert "pods cannot be watched for" in stage.watches.blind()
        stage.client.broken.clear()
        await stage.clock.sleep(2 * MINUTE)
        assert stage.watches.blind() == ""

    staged(script)
