"""Times and costs of the solver: recorded scenarios, and a synthetic mix of pods with all kinds of rules.

python benchmarks/solve.py [--pods 1000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.cloud.catalog.file import parse_instance_types
from dovetail.cluster.problem import ClusterObjects, build, well_known_keys
from dovetail.model import labels
from dovetail.model.problem import Options, Problem
from dovetail.solve.solver import solve
from dovetail.testing.scenarios import features, read_scenarios

FOLDER = Path(__file__).parent.parent / "tests" / "conformance" / "vectors" / "scheduling"
ZONES = ("zone-1", "zone-2", "zone-3")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = {"vectors": [_feature(name) for name in features(FOLDER)], "mix": _mix(arguments.pods)}
    for row in figures["vectors"]:
        print("{feature:40} {scenarios:3} scenarios {seconds:7.2f} s  cost / recorded {ratio}".format(**row))
    print("mix: {pods} pods, {nodes} nodes, {unschedulable} left, {seconds:.2f} s".format(**figures["mix"]))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _feature(name: str) -> dict[str, Any]:
    seconds, ratios = 0.0, []
    scenarios = list(read_scenarios(FOLDER / f"{name}.jsonl.gz"))
    for scenario in scenarios:
        start = time.perf_counter()
        plan = solve(scenario.problem)
        seconds += time.perf_counter() - start
        recorded = max(run["totalPrice"] for run in scenario.expected["runs"])
        scheduled = sum(len(claim.pods) for claim in plan.claims) + sum(map(len, plan.existing.values()))
        if recorded and scheduled == len(scenario.expected["summary"]["scheduled"]):
            ratios.append(plan.cost.hourly / 1e9 / recorded)
    ratio = round(sum(ratios) / len(ratios), 3) if ratios else None
    return {"feature": name, "scenarios": len(scenarios), "seconds": round(seconds, 3), "ratio": ratio}


def _mix(count: int) -> dict[str, Any]:
    problem = diverse(count)
    start = time.perf_counter()
    plan = solve(problem)
    seconds = time.perf_counter() - start
    return {
        "pods": count,
        "nodes": len(plan.claims),
        "unschedulable": len(plan.unschedulable),
        "hourly": plan.cost.hourly / 1e9,
        "lowerBound": plan.cost.lower_bound / 1e9,
        "work": plan.work,
        "seconds": round(seconds, 3),
    }


def diverse(count: int) -> Problem:
    """A fifth each: plain, zone spread, hostname spread, zone affinity to itself, hostname anti-affinity."""
    draw = random.Random(42)
    makers = (_plain, _zone_spread, _host_spread, _zone_affinity, _host_anti_affinity)
    pods = [_pod(number, draw, makers[number % len(makers)](draw)) for number in range(count)]
    types = parse_instance_types([_type(cpus) for cpus in range(1, 401)])
    reference = {"group": "example.com", "kind": "NodeClass", "name": "default"}
    pool = {"metadata": {"name": "default"}, "spec": {"template": {"spec": {"nodeClassRef": reference}}}}
    return build(
        ClusterObjects(pools=(decode(pool, NodePool),)),
        tuple(pods),
        lambda _: types,
        Options(well_known=well_known_keys(types)),
        require_ready=False,
    )


def _pod(number: int, draw: random.Random, extra: tuple[dict[str, str], dict[str, Any]]) -> Pod:
    own_labels, spec = extra
    requests = {
        "cpu": f"{draw.choice((100, 250, 500, 1000, 1500))}m",
        "memory": f"{draw.choice((100, 256, 512, 1024, 2048, 4096))}Mi",
    }
    meta = {"name": f"pod-{number:05}", "namespace": "default", "labels": own_labels}
    containers = [{"name": "main", "resources": {"requests": requests}}]
    return decode({"metadata": meta, "spec": {"containers": containers, **spec}}, Pod)


def _plain(_: random.Random) -> tuple[dict[str, str], dict[str, Any]]:
    return {"kind": "plain"}, {}


def _zone_spread(draw: random.Random) -> tuple[dict[str, str], dict[str, Any]]:
    return _spread(labels.ZONE, {"zone-spread": draw.choice("abcdefg")})


def _host_spread(draw: random.Random) -> tuple[dict[str, str], dict[str, Any]]:
    return _spread(labels.HOSTNAME, {"host-spread": draw.choice("abcdefg")})


def _spread(key: str, own: dict[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    rule = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": own},
    }
    return own, {"topologySpreadConstraints": [rule]}


def _zone_affinity(draw: random.Random) -> tuple[dict[str, str], dict[str, Any]]:
    return _near("podAffinity", labels.ZONE, {"affinity": draw.choice("abcdefg")})


def _host_anti_affinity(_: random.Random) -> tuple[dict[str, str], dict[str, Any]]:
    return _near("podAntiAffinity", labels.HOSTNAME, {"alone": "true"})


def _near(kind: str, key: str, own: dict[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": own}}
    return own, {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _type(cpus: int) -> dict[str, Any]:
    values = {labels.INSTANCE_TYPE: f"type-{cpus}", labels.ARCH: "amd64", labels.OS: "linux"}
    offered = [
        {"price": cpus * 0.04, "requirements": {labels.ZONE: zone, labels.CAPACITY_TYPE: "on-demand"}}
        for zone in ZONES
    ]
    return {
        "name": f"type-{cpus}",
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in values.items()],
        "offerings": offered,
        "capacity": {"cpu": str(cpus), "memory": f"{2 * cpus}Gi", "pods": str(10 * cpus)},
    }


if __name__ == "__main__":
    main()
