"""The real scheduler and nominations that others set."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pytest

from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import eventually
from tests.cluster.world import NODES, Document, World
from tests.conformance import nomination_cases as cases
from tests.conformance.nomination_cases import CASES, Step

# A scheduler that will not change its mind has tried again after this, and its API server has reported it.
_STEADY = 1.5  # seconds


class Stage(World):
    """Plays the steps of a case."""

    def play(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._play(step)

    def _play(self, step: Step) -> None:
        match step:
            case cases.Node():
                self.send("POST", NODES, step.document())
                self._wait_for_node(step.name)
            case cases.Open():
                taints = self.read(f"{NODES}/{step.node}")["spec"].get("taints", [])
                left = [taint for taint in taints if taint["key"] != cases.TAINT["key"]]
                self.send("PATCH", f"{NODES}/{step.node}", {"spec": {"taints": left or None}})
            case cases.Gone():
                self.send("DELETE", f"{NODES}/{step.node}")
            case cases.Pods():
                for pod in step.pods:
                    self.send("POST", self._pods, pod.document())
                for pod in step.pods:
                    if pod.nominated:
                        self._nominate(pod.name, pod.nominated)
                for pod in step.pods:
                    self.send("PATCH", f"{self._pods}/{pod.name}", {"spec": {"schedulingGates": None}})
            case cases.Nominate():
                self._nominate(step.pod, step.node)
            case cases.Delete():
                self.send("DELETE", f"{self._pods}/{step.pod}")
            case cases.Then():
                eventually(self._places, lambda found: found == step.pods, seconds=30)
                time.sleep(_STEADY)
                assert self._places() == step.pods

            case cases.Says():
                eventually(self._messages, partial(_begin, step.pods), seconds=30)
                time.sleep(_STEADY)
                assert _begin(step.pods, self._messages()), self._messages()

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    def _nominate(self, pod: str, node: str) -> None:
        self.send("PATCH", f"{self._pods}/{pod}/status", {"status": {"nominatedNodeName": node or None}})

    def _wait_for_node(self, name: str) -> None:
        """Until nothing but the case's own taint keeps pods off it."""

        def others() -> list[str]:
            taints = self.read(f"{NODES}/{name}")["spec"].get("taints", [])
            return [taint["key"] for taint in taints if taint["key"] != cases.TAINT["key"]]

        eventually(others, lambda found: not found)

    def _places(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: place(pod) for pod in self.pods()}

    def _messages(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: message(pod) for pod in self.pods()}


def _begin(wanted: Mapping[str, str], found: Mapping[str, str]) -> bool:
    return wanted.keys() == found.keys() and all(
        text.startswith(wanted[name]) for name, text in found.items()
    )


def message(pod: Document) -> str:
    """Why the scheduler refused it the last time; "" where it did not."""
    conditions = pod["status"].get("conditions", ())
    refused = [one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"]
    return str(refused[0].get("message", "")) if refused else ""


def place(pod: Document) -> str:
    """As a case says."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    refused = any(
        one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable"
        for one in pod["status"].get("conditions", ())
    )
    nominated = pod["status"].get("nominatedNodeName")
    if not refused:
        return "not tried"
    return f"{cases.WAITS} for {nominated}" if nominated else cases.WAITS


@pytest.fixture
def stage(prepared: ControlPlane) -> Iterator[Stage]:
    """A namespace for one case in a cluster without any node."""
    plane = prepared
    made = Stage(plane, plane.kubeconfig, plane.folder, "nominations")
    classes = {"apiVersion": "v1", "kind": "List", "items": cases.classes()}
    plane.run("kubectl", "apply", "-f", "-", stdin=json.dumps(classes))
    plane.run("kubectl", "create", "namespace", made.name)
    try:
        yield made
    finally:
        for node in made.read(NODES)["items"]:
            made.send("DELETE", f"{NODES}/{node['metadata']['name']}")
        plane.run("kubectl", "delete", "namespace", made.name)
        plane.run("kubectl", "delete", "priorityclass", *cases.PRIORITIES)


@pytest.mark.parametrize("name", CASES)
def test_the_real_scheduler(stage: Stage, name: str) -> None:
    stage.play(CASES[name])
