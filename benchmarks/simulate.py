"""Speed and memory of whole simulations: the evening rush, a crowd of pods at a limit, a large cluster's day.

python -m benchmarks.simulate [--pods 1000] [--hours 24] [--day-pods 5000] [--only NAME] [--json FILE]
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
from dovetail.base.collector import collect_seldom
from dovetail.cli.main import readers_may_leave
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import Scenario, load
from dovetail.testing.guests import node_class

EVENING_RUSH = Path(__file__).parent.parent / "examples" / "evening-rush"
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
TEAMS = 10
SERVICES = 50
ROW = (
    "{scenario:14} {pods:6} pods {wallSeconds:7.2f} s wall {cpuSeconds:7.2f} s CPU "
    "{speedup:6.0f} x real time {eventsPerSecond:8.0f} events/s "
    "{peakMiB:5.0f} MiB {plans:4} plans {eventLogSha256:.12}"
)


@readers_may_leave()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=1000, help="of the stress scenario")
    parser.add_argument("--hours", type=float, default=24, help="how long the day is")
    parser.add_argument("--day-pods", type=int, default=5000, help="of the day; a node for ten of them")
    parser.add_argument("--only", choices=("evening-rush", "stress", "day"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        "evening-rush": lambda: _apart(_evening_rush),
        "stress": lambda: _apart(_stress, arguments.pods),
        "day": lambda: _apart(_day, arguments.day_pods, arguments.hours),
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


def _day(pods: int, hours: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        write_day(Path(folder), pods, hours)
        return _measure(load(Path(folder)))


def _measure(scenario: Scenario) -> dict[str, Any]:
    collect_seldom()  # as the command line does
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


def write_day(folder: Path, pods: int, hours: float) -> None:
    """Fifty services of unequal pods, half of which follow a day's traffic; nodes of at most 16 vCPU."""
    services = [_service(number, max(2, pods // SERVICES)) for number in range(SERVICES)]
    moving = [service for number, service in enumerate(services) if number % 2]
    scenario = {
        "apiVersion": "simulation.dovetail.dev/v1alpha1",
        "kind": "Scenario",
        "name": "day",
        "region": "us-east-1",
        "start": "2026-03-02T00:00",
        "duration": f"{round(hours * 60)}m",
        "cluster": {"name": "stress"},
        "nodeGroups": [
            {"name": "base", "instanceType": "m5.2xlarge", "count": 2, "zones": ["us-east-1a", "us-east-1b"]}
        ],
        "traffic": [_traffic(service, max(2, pods // SERVICES)) for service in moving],
    }
    _write(folder / "scenario.yaml", scenario)
    pool = _pool(pods)
    pool["spec"]["template"]["spec"]["requirements"] = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["8", "16"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
    ]
    pool["spec"]["limits"] = {"cpu": str(pods * 4)}
    _write(folder / "pool.json", {"apiVersion": "v1", "kind": "List", "items": [pool, node_class("stress")]})
    scalers = [_scaler(service, max(2, pods // SERVICES)) for service in moving]
    _write(folder / "services.json", {"apiVersion": "v1", "kind": "List", "items": services + scalers})


def _service(number: int, replicas: int) -> dict[str, Any]:
    service = _team(number, replicas)
    service["metadata"]["name"] = f"service-{number}"
    cpu, memory = (("500m", "1Gi"), ("1", "3Gi"), ("1500m", "2Gi"), ("2", "6Gi"), ("2500m", "4Gi"))[
        number % 5
    ]
    container = service["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"] = {"cpu": cpu, "memory": memory}
    return service


def _traffic(service: dict[str, Any], replicas: int) -> dict[str, Any]:
    """Enough for half of the pods at night and for one and a half times as many at noon."""
    name = service["metadata"]["name"]
    return {
        "service": name,
        "deployment": f"default/{name}",
        "base": replicas * 0.3,
        "costPerRequest": service["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"][
            "cpu"
        ],
        "noise": 0.03,
        "peaks": [{"from": "07:00", "until": "21:00", "rise": "4h", "fall": "4h", "add": replicas * 0.6}],
    }


def _scaler(service: dict[str, Any], replicas: int) -> dict[str, Any]:
    name = service["metadata"]["name"]
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": max(1, replicas // 4),
            "maxReplicas": replicas * 2,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
                }
            ],
        },
    }


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
