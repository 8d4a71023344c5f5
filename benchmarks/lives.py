"""What the life of one pod and of one node costs in CPU, part by part: made, bound, ready, gone.

python -m benchmarks.lives [--pods 400] [--nodes 60] [--json FILE]

Three simulations of half an hour of the same cluster: nothing happens; a Deployment gets pods that find room
on nodes which are there, and loses them; another gets pods that need a node each, which are bought, and go
again when their pods went. What each takes beyond the first, by one of what came and went.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.parts import sampled
from dovetail.base.collector import collect_seldom
from dovetail.cli.main import readers_may_leave
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load
from dovetail.testing.guests import node_class

_PER_NODE = 40  # pods that come, on each node of the group that is there
_POOL = {"karpenter.sh/nodepool": "default"}


@readers_may_leave()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lives", description=__doc__)
    parser.add_argument("--pods", type=int, default=400, help="that come to nodes which are there")
    parser.add_argument("--nodes", type=int, default=60, help="that are bought, for a pod each")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    group = max(2, -(-arguments.pods // _PER_NODE))
    idle = _apart(group, 0, 0)
    pods = _apart(group, arguments.pods, 0)
    nodes = _apart(group, 0, arguments.nodes)
    of_pod = each(pods, idle, arguments.pods)
    beside = each(nodes, idle, arguments.nodes)
    of_node = {part: beside[part] - of_pod.get(part, 0) for part in beside}
    rows = [(part, of_pod.get(part, 0.0), of_node.get(part, 0.0)) for part in pods | nodes]
    rows.sort(key=lambda row: (-row[1] - row[2], row[0]))
    rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    print(f"{'ms of CPU for one':36} {'pod':>8} {'node':>8}")
    for part, pod, node in rows:
        print(f"{part:36} {pod:8.2f} {node:8.2f}")
    if arguments.json:
        named = [{"part": part, "pod": pod, "node": node} for part, pod, node in rows]
        arguments.json.write_text(json.dumps(named, indent=2) + "\n", encoding="utf-8")


def each(busy: Mapping[str, float], idle: Mapping[str, float], lives: int) -> dict[str, float]:
    """Milliseconds that one life takes of each part."""
    return {part: (busy[part] - idle.get(part, 0)) * 1000 / lives for part in busy}


def _apart(group: int, pods: int, nodes: int) -> dict[str, float]:
    """In a process of its own: no run finds what another one remembered."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_played, group, pods, nodes).result()


def _played(group: int, pods: int, nodes: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), group, pods, nodes)
        scenario = load(Path(folder))
        collect_seldom()  # as the command line does
        with sampled() as seconds:
            result = simulate(scenario)
    kinds = Counter(record["kind"] for record in result.records)
    came = kinds["pod.created"], kinds["pod.deleted"], kinds["node.created"] - group, kinds["node.deleted"]
    if came != (pods + nodes, pods + nodes, nodes, nodes) or kinds["violation"]:
        raise SystemExit(f"pods and nodes that came and went: {came}, violations: {kinds['violation']}")
    return seconds


def write(folder: Path, group: int, pods: int, nodes: int) -> None:
    """The scenario: what comes does so after five minutes, and goes after fifteen."""
    base = {"name": "base", "instanceType": "m5.4xlarge", "count": group, "zones": ["us-east-1a"]}
    scenario = {
        "apiVersion": "simulation.dovetail.dev/v1alpha1",
        "kind": "Scenario",
        "name": "lives",
        "region": "us-east-1",
        "start": "2026-03-02T08:00",
        "duration": "30m",
        "cluster": {"name": "stress"},
        "nodeGroups": [base],
        "changes": [
            {"at": "08:05", "file": "changes/come.json"},
            {"at": "08:15", "file": "changes/go.json"},
        ],
        "settings": {"efficiencyPeriod": "1h"},
    }
    (folder / "changes").mkdir()
    _write(folder / "scenario.yaml", scenario)
    _write(folder / "pool.json", _list(_pool(), node_class("stress")))
    for name, many in (("come", (pods, nodes)), ("go", (0, 0))):
        guests, hosts = _deployment("guests", many[0]), _deployment("hosts", many[1])
        hosts["spec"]["template"]["spec"] |= {"nodeSelector": _POOL, "affinity": _apart_from(hosts)}
        _write(folder / "changes" / f"{name}.json", _list(guests, hosts))


def _pool() -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": []}},
            "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]},
        },
    }


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    own = {"app": name}
    resources = {"requests": {"cpu": "250m", "memory": "256Mi"}}
    container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": own},
            "template": {"metadata": {"labels": own}, "spec": {"containers": [container]}},
        },
    }


def _apart_from(deployment: Mapping[str, Any]) -> dict[str, Any]:
    term = {"labelSelector": deployment["spec"]["selector"], "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _list(*items: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
