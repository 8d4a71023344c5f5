"""Ranks of nodes for pods' deletion costs, and costs of evictions, as Karpenter 1.15 has them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.deletion_cost import LOWEST, deletion_costs
from dovetail.disrupt.pods import Budgets, eviction, eviction_by_own_cost
from dovetail.model import labels
from dovetail.units.timestamp import parse_rfc3339

VECTORS = Path(__file__).parent / "vectors" / "karpenter-1.15" / "deletion_cost.jsonl.gz"
REF = {"group": "g", "kind": "k", "name": "n"}
Case = dict[str, Any]


def _cases(kind: str) -> list[Case]:
    with gzip.open(VECTORS, "rt") as lines:
        return [case for case in map(json.loads, lines) if case["kind"] == kind]


def _pod(item: Case) -> Pod:
    meta = {
        "name": item["name"],
        "namespace": item.get("namespace", "default"),
        "annotations": item.get("annotations", {}),
    }
    kind, _, name = item.get("owner", "").partition("/")
    if kind:
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name}
        meta["ownerReferences"] = [{**owner, "controller": not item.get("ownerIsNotController", False)}]
    spec = {"containers": [], "nodeName": item.get("node", ""), "priority": item.get("priority", 0)}
    return decode({"metadata": meta, "spec": spec, "status": {"phase": "Running"}}, Pod)


def _pool(item: Case) -> NodePool:
    spec: Case = {"template": {"spec": {"nodeClassRef": REF}}}
    spec["disruption"] = {"budgets": item.get("budgets", [{"nodes": "100%"}])}
    for name, where in (("consolidateAfter", spec["disruption"]), ("replicas", spec)):
        if name in item:
            where[name] = item[name]
    return decode({"metadata": {"name": item["name"]}, "spec": spec}, NodePool)


def _view(item: Case, given: Case, pools: dict[str, NodePool], pods: tuple[Pod, ...]) -> NodeView:
    name = item["name"]
    marks = {labels.NODEPOOL: item["pool"]}
    taints = [{"key": labels.DISRUPTED_TAINT, "effect": "NoSchedule"}] if item.get("disruptedTaint") else []
    if not item.get("uninitialized"):
        marks[labels.INITIALIZED] = "true"
    ready = [{"type": "Ready", "status": "True"}]
    node = {
        "metadata": {"name": name, "labels": marks, "annotations": item.get("annotations", {})},
        "spec": {"taints": taints},
        "status": {"conditions": ready},
    }
    drift = [{"type": "Drifted", "status": "True"}] if item.get("drifted") else []
    claim = {
        "metadata": {"name": name, "labels": marks},
        "spec": {"nodeClassRef": REF},
        "status": {"conditions": drift},
    }
    (sold,) = (one["instanceTypes"] for one in given["nodePools"] if one["name"] == item["pool"])
    price = next(
        (
            int(offering["price"] * 1e9)
            for kind in sold
            if kind["name"] == item["instanceType"]
            for offering in kind["offerings"]
            if (offering["capacityType"], offering["zone"]) == (item["capacityType"], item["zone"])
        ),
        None,
    )
    return NodeView(
        decode(claim, NodeClaim),
        decode(node, Node),
        pools[item["pool"]],
        tuple(pod for pod in pods if pod.spec.node_name == name),
        nominated=bool(item.get("nominated")),
        going=bool(item.get("markedForDeletion")),
        price=price,
        costs_written=True,
    )


@pytest.mark.parametrize("case", _cases("deletion-cost-rank"), ids=lambda case: str(case["name"]))
def test_nodes_are_ranked_alike(case: Case) -> None:
    given, (expected,) = case["input"], case["outcomes"]
    pools = {item["name"]: _pool(item) for item in given["nodePools"]}
    pods = tuple(map(_pod, given.get("pods", ())))
    views = [_view(item, given, pools, pods) for item in given["nodes"]]
    found = deletion_costs(pools.values(), views, Budgets(()), parse_rfc3339(given["now"]))
    assert sorted(name for name, cost in found.items() if cost is None) == (expected["cleared"] or [])
    assert sorted(name for name, cost in found.items() if cost == LOWEST) == (expected["minInt32"] or [])
    ranked = {name: cost for name, cost in found.items() if cost not in (None, LOWEST)}
    assert ranked == {item["node"]: item["podDeletionCost"] for item in expected["ranked"] or ()}


@pytest.mark.parametrize("case", _cases("eviction-cost"), ids=lambda case: str(case["name"]))
def test_evictions_cost_the_same(case: Case) -> None:
    asked = eviction_by_own_cost if case["input"]["gates"]["PodDeletionCostManagement"] else eviction
    (expected,) = case["outcomes"]
    found = [asked(_pod(item)).cost for item in case["input"]["pods"]]
    assert found == pytest.approx([item["cost"] for item in expected], abs=1e-12)
