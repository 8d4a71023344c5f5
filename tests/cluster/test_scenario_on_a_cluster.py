"""`dovetail simulate --kubeconfig`: the scenario on a real API server, and nothing left of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.start import ControlPlane

EXAMPLES = Path(__file__).parents[2] / "examples"


def simulate(plane: ControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = (
        sys.executable,
        "-m",
        "dovetail",
        "simulate",
        *arguments,
        "--kubeconfig",
        str(plane.kubeconfig),
    )
    return subprocess.run(
        command, env=plane.environment(), capture_output=True, text=True, timeout=400, check=False
    )


@pytest.fixture(scope="module")
def empty() -> Any:
    """A cluster of its own: it must be empty, and other tests leave nodes and pools in theirs meanwhile."""
    with ControlPlane(build()) as plane:
        define(plane)
        yield plane


def test_both_runs_are_shown_and_nothing_is_left(empty: ControlPlane) -> None:
    done = simulate(empty, str(EXAMPLES / "zones"), "-o", "json", "--until", "2m")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    # How long pods waited, and which were seen together, depends on what else the machine does.
    found = {row["figure"]: row for row in summary["comparison"]}
    assert found["pods bound"]["simulated"] == found["pods bound"]["cluster"]
    assert set(found) == {"pods bound", "pending p50", "pending p90", "peak nodes", "node-hours", "cost"}
    for bought in ("peak nodes", "node-hours", "cost"):
        assert 0.5 <= found[bought]["cluster"] / found[bought]["simulated"] <= 2, summary["comparison"]
    assert summary["cluster"]["pods"]["unbound"] == summary["simulated"]["pods"]["unbound"] == 0
    assert summary["cluster"]["violations"] == []
    kinds = "nodes,nodepools,nodeclaims,ec2nodeclasses,deployments,pods"
    assert empty.run("kubectl", "get", kinds, "-A", "-o", "name") == ""


def test_a_cluster_that_is_used_is_refused(empty: ControlPlane) -> None:
    node = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "somebodys"}}'
    empty.run("kubectl", "create", "-f", "-", stdin=node)
    done = simulate(empty, str(EXAMPLES / "burst"))
    assert done.returncode == 2
    assert "the cluster has nodes already, such as somebodys" in done.stderr
    assert empty.run("kubectl", "get", "nodes", "-o", "name").split() == ["node/somebodys"]
