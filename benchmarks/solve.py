"""Times and costs of the solver: recorded scenarios, a mix of pods with all kinds of rules, a trace.

python benchmarks/solve.py [--pods 1000] [--trace FILE [--region us-east-1]] [--json FILE]

A trace is a CSV file as `simulate` reads it; all of its pods are planned at once, on all amd64 types that the
catalogue prices on demand, and those that CPUs alone suffice for on a pool of ordinary types as well.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dovetail.api.codec import decode
from dovetail.api.core import Container, Pod, PodSpec, ResourceRequirements
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Meta
from dovetail.cloud.catalog import instance_types
from dovetail.cloud.catalog.file import parse_instance_types
from dovetail.cluster.problem import ClusterObjects, build, well_known_keys
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.problem import Options, Problem
from dovetail.model.resources import quantities
from dovetail.simulate.trace import GPU, Row, read_trace
from dovetail.solve.solver import solve
from dovetail.testing.scenarios import features, read_scenarios

FOLDER = Path(__file__).parent.parent / "tests" / "conformance" / "vectors" / "scheduling"
# Requirements of a pool as people write them: no accelerators, nothing old, nothing huge.
ORDINARY = (
    {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
    {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]},
    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["33"]},
)
ZONES = ("zone-1", "zone-2", "zone-3")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--trace", type=Path, help="plan this trace's pods instead of the other cases")
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.trace:
        figures = _trace(arguments.trace, arguments.region)
    else:
        figures = _cases(arguments.pods)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _cases(pods: int) -> dict[str, Any]:
    figures = {"vectors": [_feature(name) for name in features(FOLDER)], "mix": _mix(pods)}
    for row in figures["vectors"]:
        print("{feature:40} {scenarios:3} scenarios {seconds:7.2f} s  cost / recorded {ratio}".format(**row))
    print("mix: {pods} pods, {nodes} nodes, {unschedulable} left, {seconds:.2f} s".format(**figures["mix"]))
    return figures


def _trace(path: Path, region: str) -> dict[str, Any]:
    rows = read_trace(path)
    types = instance_types(region)
    figures = {}
    for name, (most_cpu, extra) in {"all types": (None, ()), "ordinary types": (31_000, ORDINARY)}.items():
        chosen = [
            row
            for row in rows
            if most_cpu is None or (row.requests.get("cpu", 0) <= most_cpu and not row.requests.get(GPU))
        ]
        figures[name] = _measured(_on_demand(chosen, types, extra), len(chosen))
        print(
            "{name}: {pods} pods, {nodes} nodes, {unschedulable} left, ${hourly:.2f}/h, "
            "at least ${lowerBound:.2f}/h, {seconds:.2f} s".format(name=name, **figures[name])
        )
    return figures


def _on_demand(
    rows: Sequence[Row], types: tuple[InstanceType, ...], extra: Sequence[dict[str, Any]]
) -> Problem:
    requirements = [
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
        {"key": labels.ARCH, "operator": "In", "values": ["amd64"]},
        *extra,
    ]
    reference = {"group": "example.com", "kind": "NodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": requirements}}
    pool = {"metadata": {"name": "default"}, "spec": {"template": template}}
    pods = tuple(_traced(row) for row in rows)
    return build(
        ClusterObjects(pools=(decode(pool, NodePool),)),
        pods,
        lambda _: types,
        Options(well_known=labels.AWS_WELL_KNOWN),
        require_ready=False,
    )


def _traced(row: Row) -> Pod:
    resources = ResourceRequirements(requests=quantities(row.requests))
    container = Container(name="main", resources=resources)
    return Pod(metadata=Meta(name=row.name, namespace="default"), spec=PodSpec(containers=(container,)))


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
    return _measured(diverse(count), count)


def _measured(problem: Problem, count: int) -> dict[str, Any]:
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
