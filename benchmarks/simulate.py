"""Speed and memory of whole simulations: an evening, a crowd of pods at a limit, a day, an hour of many pods.

python -m benchmarks.simulate [--pods 1000] [--hours 24] [--day-pods 5000] [--standing-pods 5000]
    [--minutes 60] [--only NAME] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
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
from dovetail.units.quantity import parse_quantity

EVENING_RUSH = Path(__file__).parent.parent / "examples" / "evening-rush"
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
TEAMS = 10
SERVICES = 50
SIZES = (("500m", "1Gi"), ("1", "3Gi"), ("1500m", "2Gi"), ("2", "6Gi"), ("2500m", "4Gi"))  # of services' pods
ZONES = tuple(f"us-east-1{letter}" for letter in "abcd")
STANDING = ("m5.4xlarge", "m5a.4xlarge", "m6a.4xlarge", "m6i.4xlarge")  # with memory for any ten such pods
STANDING_CPU = parse_quantity("15.8")  # of these nodes for pods
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
    parser.add_argument("--standing-pods", type=int, default=5000, help="there at the start; a node for ten")
    parser.add_argument("--minutes", type=float, default=60, help="how long these are played")
    parser.add_argument("--only", choices=("evening-rush", "stress", "day", "standing"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        "evening-rush": lambda: _apart(_evening_rush),
        "stress": lambda: _apart(_stress, arguments.pods),
        "day": lambda: _apart(_day, arguments.day_pods, arguments.hours),
        "standing": lambda: _apart(_standing, arguments.standing_pods, arguments.minutes),
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


def _standing(pods: int, minutes: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        write_standing(Path(folder), pods, minutes)
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
    _write(folder / "scenario.yaml", _day_scenario("day", pods, "2026-03-02T00:00", hours * 60))
    _write_services(folder, pods)


def write_standing(folder: Path, pods: int, minutes: float) -> None:
    """The day's services on spot nodes that are there at 08:00, from when on traffic rises."""
    scenario = _day_scenario("standing", pods, "2026-03-02T08:00", minutes)
    scenario |= {"nodes": {"file": "nodes.jsonl"}, "settings": {"provider": "simulated"}}
    _write(folder / "scenario.yaml", scenario)
    _write_services(folder, pods)
    lines = [json.dumps(node) for node in _standing_nodes(max(2, pods // SERVICES))]
    (folder / "nodes.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _day_scenario(name: str, pods: int, start: str, minutes: float) -> dict[str, Any]:
    replicas = max(2, pods // SERVICES)
    return {
        "apiVersion": "simulation.dovetail.dev/v1alpha1",
        "kind": "Scenario",
        "name": name,
        "region": "us-east-1",
        "start": start,
        "duration": f"{round(minutes)}m",
        "cluster": {"name": "stress"},
        "nodeGroups": [
            {"name": "base", "instanceType": "m5.2xlarge", "count": 2, "zones": ["us-east-1a", "us-east-1b"]}
        ],
        "traffic": [_traffic(_service(number, replicas), replicas) for number in range(1, SERVICES, 2)],
    }


def _write_services(folder: Path, pods: int) -> None:
    replicas = max(2, pods // SERVICES)
    services = [_service(number, replicas) for number in range(SERVICES)]
    pool = _pool(pods)
    pool["spec"]["template"]["spec"]["requirements"] = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["8", "16"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
    ]
    pool["spec"]["limits"] = {"cpu": str(pods * 4)}
    _write(folder / "pool.json", {"apiVersion": "v1", "kind": "List", "items": [pool, node_class("stress")]})
    scalers = [_scaler(service, replicas) for number, service in enumerate(services) if number % 2]
    _write(folder / "services.json", {"apiVersion": "v1", "kind": "List", "items": services + scalers})


def _standing_nodes(replicas: int) -> Iterator[dict[str, Any]]:
    """Lines of the file of nodes: as many pods of each service in each zone, in any order on one node after
    the other.
    """
    draw = random.Random(0)
    for turn, zone in enumerate(ZONES):
        pods = [number for number in range(SERVICES) for _ in range(turn, replicas, len(ZONES))]
        draw.shuffle(pods)
        nodes = 0
        while pods:
            free, there = STANDING_CPU, Counter[str]()
            while pods and (free := free - parse_quantity(SIZES[pods[-1] % len(SIZES)][0])).nanos >= 0:
                there[f"Deployment/default/service-{pods.pop()}"] += 1
            nodes += 1
            yield {
                "name": f"node-{turn}-{nodes}",
                "nodePool": "default",
                "instanceType": draw.choice(STANDING),
                "zone": zone,
                "capacityType": "spot",
                "age": "24h",
                "pods": there,
            }


def _service(number: int, replicas: int) -> dict[str, Any]:
    service = _team(number, replicas)
    service["metadata"]["name"] = f"service-{number}"
    cpu, memory = SIZES[number % len(SIZES)]
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
