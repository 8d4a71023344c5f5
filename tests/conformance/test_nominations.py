"""The simulated scheduler treats nominations that others set as the real one does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dovetail.api import core
from dovetail.api.admission import admit
from dovetail.api.meta import condition
from dovetail.base.clock import MINUTE, SECOND
from dovetail.kube.memory.server import MemoryServer
from dovetail.simulate.scheduler.scheduler import Scheduler
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from tests.conformance import nomination_cases as cases
from tests.conformance.nomination_cases import CASES, Step


class Stage:
    """Plays the steps of a case."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._server = MemoryServer(clock, admit=admit)
        self._client = self._server.client()
        self.scheduler = Scheduler(self._client, clock, 1)
        for document in cases.classes():
            self._server.create(document)

    async def play(self, steps: Sequence[Step]) -> None:
        for step in steps:
            await self._play(step)
            await self._clock.sleep(SECOND // 10)

    async def _play(self, step: Step) -> None:
        match step:
            case cases.Node():
                self._server.create(step.document())
            case cases.Open():
                await self._client.patch(core.Node, step.node, merge={"spec": {"taints": None}})
            case cases.Gone():
                await self._client.delete(core.Node, step.node)
            case cases.Pods():
                for pod in step.pods:
                    document = pod.document()
                    document["metadata"]["namespace"] = "default"
                    self._server.create(document)
                for pod in step.pods:
                    if pod.nominated:
                        await self._nominate(pod.name, pod.nominated)
                for pod in step.pods:
                    merge = {"spec": {"schedulingGates": None}}
                    await self._client.patch(core.Pod, pod.name, "default", merge=merge)
            case cases.Nominate():
                await self._nominate(step.pod, step.node)
            case cases.Delete():
                await self._client.delete(core.Pod, step.pod, "default")
            case cases.Then():
                await self._clock.sleep(MINUTE)
                found = (await self._client.list(core.Pod)).items
                assert {pod.metadata.name: place(pod) for pod in found} == step.pods

            case cases.Says():
                await self._clock.sleep(MINUTE)
                found = (await self._client.list(core.Pod)).items
                assert sorted(pod.metadata.name for pod in found) == sorted(step.pods)
                for pod in found:
                    assert message(pod).startswith(step.pods[pod.metadata.name]), message(pod)

    async def _nominate(self, pod: str, node: str) -> None:
        merge = {"status": {"nominatedNodeName": node or None}}
        await self._client.patch(core.Pod, pod, "default", merge=merge, status=True)


def place(pod: core.Pod) -> str:
    """As a case says."""
    if pod.spec.node_name:
        assert not pod.status.nominated_node_name, "a nomination ends with the binding"
        return pod.spec.node_name
    refused = condition(pod.status.conditions, "PodScheduled")
    if refused is None or refused.reason != "Unschedulable":
        return "not tried"
    nominated = pod.status.nominated_node_name
    return f"{cases.WAITS} for {nominated}" if nominated else cases.WAITS


def message(pod: core.Pod) -> str:
    """Why the scheduler refused it the last time; "" where it did not."""
    refused = condition(pod.status.conditions, "PodScheduled")
    return refused.message if refused is not None and refused.status == "False" else ""


@pytest.mark.parametrize("name", CASES)
def test_the_simulated_scheduler(name: str) -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock)
        scheduling = asyncio.get_running_loop().create_task(stage.scheduler.run())
        await clock.sleep(SECOND)
        await stage.play(CASES[name])
        scheduling.cancel()

    run_virtual(main)
