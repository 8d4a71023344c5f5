"""Pods of a trace come and go at their times, whatever happens to them in between."""

from __future__ import annotations

import asyncio
from typing import Any

from dovetail.api.core import Pod
from dovetail.base.clock import SECOND
from dovetail.kube.memory import MemoryServer
from dovetail.kube.memory.store import Change
from dovetail.model.resources import pod_requests
from dovetail.simulate.scenario.trace import GPU, Row, Visit, play
from dovetail.simulate.time.clock import VirtualClock, run_virtual

START = 1_000_000 * SECOND


def visit(name: str, start: int, end: int, gpus: int = 0) -> Visit:
    requests = {"cpu": 2500, "memory": 1024**3, **({GPU: gpus} if gpus else {})}
    return Visit(Row(2, name, start, end, requests), start * SECOND, end * SECOND)


PLAYED = (visit("a", 0, 30), visit("b", 10, 20, gpus=2), visit("c", 15, 40), visit("d", 50, 50))


def test_pods_come_and_go_and_one_that_was_disrupted_is_not_missed() -> None:
    changes: list[tuple[int, str, str]] = []

    async def main(clock: VirtualClock) -> dict[str, Pod]:
        server = MemoryServer(clock)
        client = server.client()
        found: dict[str, Pod] = {}

        def seen(change: Change[Any]) -> None:
            if change.after.kind is Pod and change.type != "MODIFIED":
                name = change.after.document["metadata"]["name"]
                changes.append(((clock.now() - START) // SECOND, change.type, name))

        async def disrupt() -> None:
            await clock.sleep(18 * SECOND)
            found.update((pod.metadata.name, pod) for pod in (await client.list(Pod)).items)
            await client.delete(Pod, "c", "default", grace_period_seconds=0)

        server.observe(seen)
        await asyncio.gather(play(client, clock, PLAYED, "default"), disrupt())
        return found

    found = run_virtual(main, start=START)
    assert changes == [
        (0, "ADDED", "a"),
        (10, "ADDED", "b"),
        (15, "ADDED", "c"),
        (18, "DELETED", "c"),
        (20, "DELETED", "b"),
        (30, "DELETED", "a"),
        (50, "ADDED", "d"),
        (50, "DELETED", "d"),
    ]
    assert pod_requests(found["b"]) == {"cpu": 2500, "memory": 1024**3, GPU: 2, "pods": 1}
    assert found["b"].spec.containers[0].resources.limits[GPU].value() == 2
