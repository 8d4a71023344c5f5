"""The real scheduler evicts what the simulated one does, and says the same of the pods that wait."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping

import pytest

from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import eventually
from tests.cluster.world import NODES, World
from tests.conformance import preemption_cases as cases
from tests.conformance.test_preemption import play

BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


class Stage(World):
    """Plays all cases at once."""

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    def prepare(self) -> None:
        for document in cases.node_documents():
            self.send("POST", NODES, document)
        names = [document["metadata"]["name"] for document in cases.node_documents()]
        for document, _ in cases.budget_documents():
            self.send("POST", BUDGETS.format(self.name), document)
        eventually(lambda: self._closed(names), lambda found: not found)
        started = {}
        for document, minutes in cases.running_pods():
            self.send("POST", self.path, document)
            instant = time.gmtime(time.time() - 60 * minutes)
            started[document["metadata"]["name"]] = time.strftime("%Y-%m-%dT%H:%M:%SZ", instant)
        eventually(self.running, lambda found: len(found) == len(started))
        for name, instant in started.items():
            self.send("PATCH", f"{self.path}/{name}/status", {"status": {"startTime": instant}})
        allowed = {one["metadata"]["name"]: n for one, n in cases.budget_documents()}
        eventually(self._allowed, lambda found: found == allowed)

    def states(self) -> dict[str, str]:
        found = self.read(self.path)["items"]
        return {pod["metadata"]["name"]: cases.state_of(pod) for pod in found}

    def refused(self) -> Mapping[str, str]:
        return cases.messages(self.read(self.path)["items"])

    def release(self) -> None:
        """Let go of what finalizers hold."""
        for document, _ in cases.running_pods():
            name = document["metadata"]["name"]
            self.send("PATCH", f"{self.path}/{name}", {"metadata": {"finalizers": None}})

    def _closed(self, names: list[str]) -> list[str]:
        """Those whose controllers have taints on them still."""
        found = self.read(NODES)["items"]
        own = cases.TAINT["key"]
        return [
            node["metadata"]["name"]
            for node in found
            if node["metadata"]["name"] in names
            and any(taint["key"] != own for taint in node["spec"].get("taints", ()))
        ]

    def _allowed(self) -> dict[str, int]:
        found = self.read(BUDGETS.format(self.name))["items"]
        return {one["metadata"]["name"]: one.get("status", {}).get("disruptionsAllowed", -1) for one in found}


@pytest.fixture
def stage(prepared: ControlPlane) -> Iterator[Stage]:
    """A namespace in a cluster without any other node."""
    made = Stage(prepared, prepared.kubeconfig, prepared.folder, "preemption")
    classes = {"apiVersion": "v1", "kind": "List", "items": cases.classes()}
    prepared.run("kubectl", "apply", "-f", "-", stdin=json.dumps(classes))
    prepared.run("kubectl", "create", "namespace", made.name)
    try:
        yield made
    finally:
        made.release()
        prepared.run("kubectl", "delete", "namespace", made.name, "--wait=false")
        for document in cases.node_documents():
            made.send("DELETE", f"{NODES}/{document['metadata']['name']}")
        prepared.run(
            "kubectl", "delete", "priorityclass", *(one["metadata"]["name"] for one in cases.classes())
        )


def test_what_goes_and_what_is_said(stage: Stage) -> None:
    stage.prepare()
    for coming, wanted in cases.waves():
        for document in coming:
            stage.send("POST", stage.path, document)
        eventually(stage.states, lambda found, wanted=wanted: found == wanted, seconds=60)
    _, simulated = play()
    said = cases.messages(simulated)
    eventually(stage.refused, lambda found: found == said, seconds=60)
