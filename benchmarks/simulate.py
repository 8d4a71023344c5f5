"""Speed and memory of whole simulations: the evening rush, and a pool at its limit with a crowd of pods.

python -m benchmarks.simulate [--pods 1000] [--only NAME] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.machine import peak_mib
from dovetail.base.pipe import readers_may_leave
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import Scenario, load
from dovetail.testing.manifests import node_class

EVENING_RUSH = Path(__file__).parent.parent / "examples" / "evening-rush"
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
TEAMS = 10
ROW = (
    "{scenario:14} {pods:6} pods {wallSeconds:7.2f} s wall {cpuSeconds:7.2f} s CPU "
    "{speedup:6.0f} x real time {eventsPerSecond:8.0f} events/s "
    "{peakMiB:5.0f} MiB {plans:4} plans {eventLogSha256:.12}"
)


@readers_may_leave()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=1000, help="of the stress scenario")
    parser.add_argument("--only", choices=("evening-rush", "stress"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        "evening-rush": lambda: _apart(_evening_rush),
        "stress": lambda: _apart(_stress, arguments.pods),
    }
    rows = [run() for name, run in runs.items() if arguments.only in (None, name)]
    for row in rows:
        print(ROW.format(**row))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def _apart(run: Callable[..., dict[str, Any]], *arguments: int) -> dict[str, Any]:
    """In a process of its own, so that its peak memory is its own too."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(run, *arguments).result()


def _evening_rush() -> dict[str, Any]:
    return _measure(load(EVENING_RUSH))


def _stress(pods: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        write_stress(Path(folder), pods)
        return _measure(load(Path(folder)))


def _measure(scenario: Scenario) -> dict[str, Any]:
    started = time.process_time()
    result = simulate(scenario)
    used = time.process_time() - started
    simulated = (result.end - result.start) / 1e9
    kinds = [record["kind"] for record in result.records]
    return {
        "scenario": scenario.file.name,
        "pods": kinds.count("pod.created"),
        "bound": kinds.count("pod.bound"),
        "plans": kinds.count("solve"),
        "events": len(kinds),
        "wallSeconds": round(result.wall_seconds, 3),
        "cpuSeconds": round(used, 3),  # steadier than wall time on a machine with other work to do
        "simulatedSeconds": simulated,
        "speedup": round(simulated / result.wall_seconds, 1),
        "eventsPerSecond": round(len(kinds) / result.wall_seconds, 1),
        "peakMiB": round(peak_mib(), 1),
        "violations": kinds.count("violation"),
        "eventLogSha256": result.sha256,
    }


def write_stress(folder: Path, pods: int) -> None:
    """Ten teams' Deployments ask for `pods` pods of 1 CPU; the pool may buy a fifth of that."""
    scenario = {
        "apiVersion": "simulation.dovetail.dev/v1alpha1",
        "kind": "Scenario",
        "name": "stress",
        "region": "us-east-1",
        "duration": "15m",
        "cluster": {"name": "stress"},
        "nodeGroups": [
            {"name": "base", "instanceType": "m5.2xlarge", "count": 2, "zones": ["us-east-1a", "us-east-1b"]}
        ],
    }
    _write(folder / "scenario.yaml", scenario)
    _write(
        folder / "pool.json",
        {"apiVersion": "v1", "kind": "List", "items": [_pool(pods), node_class("stress")]},
    )
    teams = [_team(number, pods // TEAMS) for number in range(TEAMS)]
    _write(folder / "teams.json", {"apiVersion": "v1", "kind": "List", "items": teams})


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _pool(pods: int) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {"nodeClassRef": CLASS, "requirements": []}},
            "limits": {"cpu": str(pods // 5)},
        },
    }


def _team(number: int, replicas: int) -> dict[str, Any]:
    """Every other team spreads its pods over zones."""
    own = {"app": f"team-{number}"}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": own},
    }
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": own["app"], "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": own},
            "template": {
                "metadata": {"labels": own},
                "spec": {
                    "containers": [container],
                    "topologySpreadConstraints": [spread] if number % 2 else [],
                },
            },
        },
    }


if __name__ == "__main__":
    main()
