"""What docs/guides/sweep.md has users apply is taken by a server that enforces the restricted profile."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import eventually

MANIFESTS = Path(__file__).parents[2] / "deploy" / "sweep" / "sweep.yaml"


def test_scheduler_and_workers_are_made(prepared: ControlPlane) -> None:
    """Pods that break the namespace's profile would never be there."""
    prepared.run("kubectl", "apply", "--validate=strict", "-f", str(MANIFESTS))
    try:
        pods = ("kubectl", "-n", "sweep", "get", "pods", "-o", "json")
        found = eventually(
            lambda: json.loads(prepared.run(*pods))["items"], lambda items: len(items) == 41, seconds=60
        )
        workers = [one for one in found if one["metadata"]["labels"]["app"] == "worker"]
        assert {one["spec"]["priority"] for one in workers} == {-5}
        (service,) = json.loads(prepared.run("kubectl", "-n", "sweep", "get", "services", "-o", "json"))[
            "items"
        ]
        # What the workers' command dials is the Service.
        (command,) = {tuple(one["spec"]["containers"][0]["command"]) for one in workers}
        port = service["spec"]["ports"][0]["port"]
        assert f"tcp://{service['metadata']['name']}:{port}" in command
    finally:
        prepared.run("kubectl", "delete", "-f", str(MANIFESTS), "--wait=true")
