"""The checker on 370 recorded answers of the original: it finds the faults that are there, and no others.

An answer counts as faulty where the recording says so, or where it is listed here with its reason.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Namespace, Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import DaemonSet
from dovetail.cloud.catalog.file import parse_instance_types
from dovetail.cluster.problem import ClusterObjects, build
from dovetail.model.labels import INSTANCE_TYPE, NODEPOOL
from dovetail.model.plan import Cost, Plan, PlannedClaim, Unschedulable
from dovetail.model.problem import Options, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.resources import amounts
from dovetail.units.money import NANO_DOLLARS
from dovetail.units.quantity import parse_quantity
from dovetail.verify import verify

SCENARIOS = Path(__file__).parent / "vectors/scheduling"
Document = dict[str, Any]

_RESERVED = "lists types that have no reserved offering on a claim that is for reserved capacity only"
_OPEN = "leaves the zone open although a spread constraint counts the pods by zone"
FAULTY = {
    "reserved-capacity-000": _RESERVED,
    "reserved-capacity-001": _RESERVED,
    "reserved-capacity-003": _RESERVED,
    "reserved-capacity-004": _RESERVED,
    "self-affinity-bootstrap-000": "leaves the zone open on two nodes whose pods must share one",
    "spread-cross-selector-000": _OPEN,
    "spread-cross-selector-003": _OPEN,
    "spread-min-domains-shared-001": "takes minDomains of one constraint for that of another",
}
_CLOSED = "the pool may buy nothing, and over the nodes there are the scheduler finds the pods balanced"
NO_FAULT = {
    "spread-relaxed-affinity-000": _CLOSED,
    "spread-relaxed-affinity-001": _CLOSED,
    "spread-relaxed-affinity-003": _CLOSED,
    "spread-relaxed-affinity-004": _CLOSED,
}


def problem_of(scenario: Document) -> Problem:
    types = parse_instance_types(scenario["instanceTypes"])
    chosen = scenario.get("instanceTypesForNodePool") or {}
    options = scenario.get("options") or {}
    nodes = scenario.get("nodes") or []
    pools = {item["metadata"]["name"]: item for item in scenario["nodePools"]}
    objects = ClusterObjects(
        pools=tuple(decode(item, NodePool) for item in pools.values()),
        nodes=tuple(decode(item, Node) for item in nodes),
        claims=tuple(claim_of(item, pools) for item in nodes if NODEPOOL in item["metadata"]["labels"]),
        pods=tuple(decode(item, Pod) for item in scenario.get("boundPods") or []),
        daemonsets=tuple(decode(item, DaemonSet) for item in scenario.get("daemonSets") or []),
        namespaces=tuple(decode(item, Namespace) for item in scenario.get("namespaces") or []),
    )
    return build(
        objects,
        tuple(decode(item, Pod) for item in scenario["pods"]),
        lambda pool: tuple(
            item for item in types if item.name in chosen.get(pool.metadata.name, {item.name})
        ),
        Options(
            respect_preferences=options.get("preferencePolicy") != "Ignore",
            strict_min_values=options.get("minValuesPolicy") != "BestEffort",
            well_known=frozenset(scenario["wellKnownLabels"]),
        ),
        require_ready=False,
    )


def claim_of(node: Document, pools: dict[str, Document]) -> NodeClaim:
    """Every node of a pool has a claim of the same name, labels and capacity."""
    template = pools[node["metadata"]["labels"][NODEPOOL]]["spec"]["template"]["spec"]
    return decode(
        {
            "metadata": {"name": node["metadata"]["name"], "labels": node["metadata"]["labels"]},
            "spec": template,
            "status": {
                **{name: node["status"][name] for name in ("capacity", "allocatable")},
                "providerID": node["spec"]["providerID"],
                "nodeName": node["metadata"]["name"],
            },
        },
        NodeClaim,
    )


def plan_of(problem: Problem, expected: Document) -> Plan:
    keys = {pod.metadata.name: pod.key for pod in problem.pods} | {pod.key: pod.key for pod in problem.pods}
    taints = {pool.name: pool.taints for pool in problem.pools}
    claims = []
    for index, item in enumerate(expected["newNodeClaims"]):
        types = tuple(item["instanceTypeOptions"])
        asked = Requirements.of(
            Requirement.new(entry["key"], entry["operator"], entry.get("values") or ())
            for entry in item["requirements"]
        )
        claims.append(
            PlannedClaim(
                name=f"{item['nodePool']}-{index}",
                pool=item["nodePool"],
                pods=tuple(sorted(keys[name] for name in item["pods"])),
                requirements=asked.add(Requirement.new(INSTANCE_TYPE, "In", types)),
                instance_types=types,
                requests=amounts({name: parse_quantity(text) for name, text in item["requests"].items()}),
                instance_type=item["cheapestInstanceType"],
                zone=item["cheapestZone"],
                capacity_type=item["cheapestCapacityType"],
                price=round(item["cheapestPrice"] * NANO_DOLLARS),
                worst=max(
                    offering.price
                    for pool in problem.pools
                    for kind in pool.instance_types
                    for offering in kind.offerings
                    if pool.name == item["nodePool"]
                    and kind.name in types
                    and offering.available
                    and not asked.intersects(offering.requirements)
                ),
                taints=taints[item["nodePool"]],
                min_values_relaxed=not problem.options.strict_min_values,
            )
        )
    left = {**(expected["podErrors"] or {}), **dict.fromkeys(expected.get("ignored") or (), "ignored")}
    return Plan(
        claims=tuple(claims),
        existing={
            item["node"]: tuple(keys[name] for name in item["pods"]) for item in expected["existing"] or ()
        },
        unschedulable=tuple(Unschedulable(keys[name], str(why)) for name, why in left.items()),
        cost=Cost(sum(item.price for item in claims), 0),
    )


@pytest.mark.parametrize(
    "path", sorted(SCENARIOS.glob("*.jsonl.gz")), ids=lambda path: path.name.split(".")[0]
)
def test_recorded_answers(path: Path) -> None:
    for line in gzip.decompress(path.read_bytes()).splitlines():
        record = json.loads(line)
        name, expected = record["name"], record["expected"]
        problem = problem_of(record["scenario"])
        found = verify(problem, plan_of(problem, expected))
        faulty = name in FAULTY or (bool(expected.get("upstreamViolations")) and name not in NO_FAULT)
        assert bool(found) == faulty, f"{name}: {found}"
