"""The local copy of a kind, and Kubernetes Events, against the embedded server in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dovetail.api.core import Event, Node, Pod
from dovetail.api.meta import Meta
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.errors import ApiError
from dovetail.kube import recorder as recorder_module
from dovetail.kube.client import Client
from dovetail.kube.informer import Informer
from dovetail.kube.memory import MemoryServer
from dovetail.kube.memory.store import Change
from dovetail.kube.recorder import Recorder
from dovetail.simulate.time.clock import VirtualClock, run_virtual

Script = Callable[[MemoryServer, VirtualClock], Coroutine[Any, Any, None]]


def run(script: Script, **options: int) -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock, **options)
        await script(server, clock)
        server.check()

    run_virtual(main, start=1_772_409_600 * SECOND)


def add(server: MemoryServer, name: str) -> None:
    server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})


def label(server: MemoryServer, name: str, value: str) -> None:
    server.patch(Node, name, merge_patch={"metadata": {"labels": {"x": value}}})


def test_an_informer_reports_every_difference_once() -> None:
    async def script(server: MemoryServer, clock: VirtualClock) -> None:
        seen: list[str] = []
        informer = Informer(
            server.client(), Node, lambda kind, node: seen.append(f"{kind} {node.metadata.name}")
        )
        add(server, "a")
        task = asyncio.get_running_loop().create_task(informer.run())
        assert not informer.synced
        await informer.wait_synced()
        assert seen == ["ADDED a"]
        add(server, "b")
        label(server, "a", "1")
        server.delete(Node, "b")
        await clock.sleep(1)
        assert seen == ["ADDED a", "ADDED b", "MODIFIED a", "DELETED b"]
        assert list(informer.objects) == ["a"] and informer.objects["a"].metadata.labels == {"x": "1"}
        task.cancel()

    run(script)


def test_an_informer_that_fell_behind_lists_again() -> None:
    async def script(server: MemoryServer, clock: VirtualClock) -> None:
        seen: list[str] = []
        informer = Informer(
            server.client(), Node, lambda kind, node: seen.append(f"{kind} {node.metadata.name}")
        )
        for name in "abc":
            add(server, name)
        task = asyncio.get_running_loop().create_task(informer.run())
        await clock.sleep(1)
        seen.clear()
        # More changes at one instant than the server keeps: the watch cannot follow.
        for turn in range(20):
            label(server, "a", str(turn))
        server.delete(Node, "b")
        server.delete(Node, "c")
        add(server, "c")
        server.compact()
        await clock.sleep(1)
        assert seen == ["DELETED b", "DELETED c", "MODIFIED a", "ADDED c"]
        task.cancel()

    run(script, history=4)


def events(server: MemoryServer) -> list[tuple[str, str, int]]:
    return [(item.view.reason, item.view.message, item.view.count) for item in server.list(Event)]


def test_events_are_written_once_per_dedupe_time() -> None:
    async def script(server: MemoryServer, clock: VirtualClock) -> None:
        recorder = Recorder(server.client(), clock)
        add(server, "a")
        node = server.record(Node, "a").view
        for _ in range(3):
            await recorder.publish(node, "Normal", "DisruptionBlocked", "node isn't initialized")
            await recorder.publish(node, "Normal", "DisruptionBlocked", "another text, the same key")
        assert events(server) == [("DisruptionBlocked", "Node isn't initialized", 1)]
        (written,) = (item.view for item in server.list(Event))
        assert (written.source.component, written.involved_object.kind) == ("karpenter", "Node")
        assert (written.metadata.namespace, written.involved_object.uid) == ("default", node.metadata.uid)
        await clock.sleep(2 * MINUTE)
        await recorder.publish(node, "Normal", "DisruptionBlocked", "node isn't initialized")
        assert events(server) == [("DisruptionBlocked", "Node isn't initialized", 2)]
        await recorder.publish(node, "Warning", "FailedDraining", "x", dedupe=("a", "1"))
        await recorder.publish(node, "Warning", "FailedDraining", "y", dedupe=("a", "2"))
        assert len(events(server)) == 3

    run(script)


def test_it_is_known_until_when_another_report_of_an_event_writes_nothing() -> None:
    async def script(server: MemoryServer, clock: VirtualClock) -> None:
        recorder = Recorder(server.client(), clock)
        add(server, "a")
        node = server.record(Node, "a").view
        began = clock.monotonic()
        for _ in range(2):
            assert await recorder.publish(node, "Normal", "Blocked", "x", ttl=MINUTE) == began + MINUTE
            await clock.sleep(SECOND)
        assert await recorder.publish(node, "Normal", "Blocked", "x", ttl=HOUR) == began + MINUTE
        await clock.sleep(MINUTE)
        now = clock.monotonic()
        assert await recorder.publish(node, "Normal", "Blocked", "x", ttl=HOUR) == now + HOUR

        async def refuse(*_: object, **__: object) -> None:
            raise ApiError("down")

        recorder = Recorder(cast("Client", SimpleNamespace(create=refuse, patch=refuse)), clock)
        assert await recorder.publish(node, "Normal", "Blocked", "x") == now  # the next one is written

    run(script)


def test_events_of_many_objects_count_up_like_those_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_MANY", 4)

    async def script(server: MemoryServer, clock: VirtualClock) -> None:
        recorder = Recorder(server.client(), clock)
        for index in range(10):
            add(server, f"n{index}")
        for _ in range(3):
            for record in server.list(Node):
                await recorder.publish(record.view, "Normal", "Unconsolidatable", "it is so")
            await clock.sleep(2 * MINUTE)
        assert events(server) == [("Unconsolidatable", "It is so", 3)] * 10

    run(script)


@pytest.mark.parametrize(("wait", "written"), [(0, 10), (SECOND // 5, 11), (SECOND, 15), (MINUTE, 20)])
@pytest.mark.parametrize("reason", ["Nominated", "InsufficientCapacityError"])
def test_crowds_of_pods_have_ten_events_at_once_and_five_a_second(
    reason: str, wait: int, written: int
) -> None:
    async def script(server: MemoryServer, clock: VirtualClock) -> None:
        recorder = Recorder(server.client(), clock)
        add(server, "a")
        node = server.record(Node, "a").view
        pod = Pod(metadata=Meta(name="p", namespace="default", uid="p"))
        for index in range(30):
            if index == 15:
                await clock.sleep(wait)
            await recorder.publish(pod, "Normal", reason, f"n {index}", dedupe=(str(index),))
        assert len(events(server)) == written
        for index in range(30, 60):
            await recorder.publish(node, "Normal", reason, f"n {index}", dedupe=(str(index),))
        assert len(events(server)) == written + 30

    run(script)


def test_events_live_for_an_hour() -> None:
    async def script(server: MemoryServer, clock: VirtualClock) -> None:
        recorder = Recorder(server.client(), clock)
        add(server, "a")
        node = server.record(Node, "a").view
        await recorder.publish(node, "Normal", "First", "x")
        await clock.sleep(HOUR)
        await recorder.publish(node, "Normal", "Second", "x")
        assert [item[0] for item in events(server)] == ["Second"]
        await recorder.publish(node, "Normal", "First", "x")
        assert sorted(item[0] for item in events(server)) == ["First", "Second"]

    run(script)


def test_observers_learn_of_each_others_changes_in_order() -> None:
    async def script(server: MemoryServer, _: VirtualClock) -> None:
        seen: list[tuple[str, str]] = []

        def answer(change: Change[Any]) -> None:
            if change.type == "ADDED" and change.after.view.key == "a" and change.before is None:
                label(server, "a", "1")

        server.observe(answer)
        server.observe(lambda change: seen.append((change.type, change.after.view.key)))
        add(server, "a")
        assert seen == [("ADDED", "a"), ("MODIFIED", "a")]

    run(script)


def test_the_meta_of_a_view_is_a_copy() -> None:
    async def script(server: MemoryServer, _: VirtualClock) -> None:
        made = await server.client().create(Node(metadata=Meta(name="a", labels={"x": "1"})))
        made.metadata.labels["x"] = "2"
        assert server.get(Node, "a")["metadata"]["labels"] == {"x": "1"}

    run(script)


def test_a_quiet_watch_gets_bookmarks() -> None:
    async def script(server: MemoryServer, _: VirtualClock) -> None:
        watch = server.client().watch(Pod, resource_version=str(server.store.version))
        for index in range(10):
            add(server, f"n{index}")
        event = await anext(watch)
        assert (event.type, event.object) == ("BOOKMARK", None)
        assert int(event.resource_version) % 5 == 0

    run(script, bookmark_every=5)
