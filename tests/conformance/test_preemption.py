"""The simulated scheduler evicts for pods that fit nowhere what the real one does."""

from __future__ import annotations

import asyncio
from typing import Any

from dovetail.api.admission import admit
from dovetail.api.codec import encode
from dovetail.api.core import Node, Pod
from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.kube.client import Client
from dovetail.kube.memory.server import MemoryServer
from dovetail.simulate.scheduler.scheduler import Scheduler
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.units.timestamp import to_rfc3339
from tests.conformance import preemption_cases as cases

START = 1_772_409_600 * SECOND


async def prepare(server: MemoryServer, client: Client, clock: Clock) -> None:
    """Everything but the pods that come; the budgets have counted them."""
    for document in (*cases.classes(), *cases.node_documents()):
        server.create(document)
    for document, _ in cases.budget_documents():
        server.create(in_default(document))
    for document, minutes in cases.running_pods():
        server.create(in_default(document))
        ready = [{"type": "Ready", "status": "True"}]
        started = to_rfc3339(clock.now() - minutes * MINUTE)
        status = {"phase": "Running", "conditions": ready, "startTime": started}
        await client.patch(
            Pod, document["metadata"]["name"], "default", merge={"status": status}, status=True
        )


def in_default(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], "namespace": "default"}}


def play() -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """What came of the pods after each wave, and the pods in the end."""
    states = []

    async def main(clock: VirtualClock) -> list[dict[str, Any]]:
        server = MemoryServer(clock, admit=admit)
        client = server.client()
        loop = asyncio.get_running_loop()
        parts = [server.run_disruption(), Scheduler(client, clock, 1).run()]
        tasks = [loop.create_task(part) for part in parts]
        await prepare(server, client, clock)
        await clock.sleep(SECOND)
        for coming, _ in cases.waves():
            for document in coming:
                server.create(in_default(document))
            await clock.sleep(MINUTE)
            pods = [encode(pod) for pod in (await client.list(Pod)).items]
            states.append({pod["metadata"]["name"]: cases.state_of(pod) for pod in pods})
        for task in tasks:
            task.cancel()
        return pods

    return states, run_virtual(main, start=START)


def test_what_goes_and_where_the_others_wait() -> None:
    states, _ = play()
    assert states == [state for _, state in cases.waves()]


def test_victims_leave_and_the_pod_takes_their_place() -> None:
    """Gracefully: the pod waits on its nominated node for as long as they need."""

    async def main(clock: VirtualClock) -> tuple[list[str], list[str]]:
        server = MemoryServer(clock, admit=admit)
        client = server.client()
        task = asyncio.get_running_loop().create_task(Scheduler(client, clock, 1).run())
        for document in cases.classes():
            server.create(document)
        number = next(n for n, name in enumerate(cases.CASES) if name.startswith("the only pod"))
        node = cases.label(number, "n1")
        for document in cases.node_documents():
            if document["metadata"]["name"] == node:
                server.create(document)
        case = list(cases.CASES.values())[number]
        for pod in (*case.pods, *case.waves[0][0]):
            server.create(in_default(cases.pod_document(number, pod)))
        places = []
        for _ in range(2):
            await clock.sleep(20 * SECOND)
            waiting = await client.get(Pod, cases.label(number, "new"), "default")
            places.append(f"{waiting.spec.node_name} {waiting.status.nominated_node_name}")
            if len(places) == 1:
                meta = {"metadata": {"finalizers": None}}
                await client.patch(Pod, cases.label(number, "a"), "default", merge=meta)
                await client.delete(Pod, cases.label(number, "a"), "default", grace_period_seconds=0)
        assert (await client.get(Node, node)).metadata.name == node
        task.cancel()
        return places, [f" {node}", f"{node} "]

    found, wanted = run_virtual(main, start=START)
    assert found == wanted
