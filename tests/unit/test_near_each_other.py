"""Pods that want to share nodes: those who must follow find room where the first one went."""

from __future__ import annotations

from typing import Any

from dovetail.solve.solver import solve
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

HOSTNAME = "kubernetes.io/hostname"


def pod(name: str, app: str, near: str = "") -> dict[str, Any]:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
    spec: dict[str, Any] = {"containers": containers}
    if near:
        term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": near}}}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"metadata": {"name": name, "namespace": "default", "labels": {"app": app}}, "spec": spec}


def all_placed(pods: list[dict[str, Any]]) -> bool:
    zone = {"topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": "on-demand"}
    kind = {
        "name": "medium",
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        "offerings": [{"price": 1.0, "available": True, "requirements": zone}],
        "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        "overhead": {},
    }
    reference = {"group": "example.com", "kind": "Class", "name": "any"}
    template = {"spec": {"nodeClassRef": reference, "requirements": []}}
    scenario = {
        "instanceTypes": [kind],
        "nodePools": [{"metadata": {"name": "pool"}, "spec": {"template": template}}],
        "pods": pods,
        "wellKnownLabels": ["topology.kubernetes.io/zone", "karpenter.sh/capacity-type", HOSTNAME],
    }
    problem = to_problem(scenario)
    plan = solve(problem)
    assert verify(problem, plan) == ()
    return not plan.unschedulable


def test_each_group_starts_on_a_node_that_holds_all_of_it() -> None:
    assert all_placed([pod(f"{app}-{number}", app, near=app) for app in "abcd" for number in range(6)])


def test_pods_that_others_must_be_near_are_spread_over_the_nodes_that_these_need() -> None:
    caches = [pod(f"cache-{number}", "cache") for number in range(4)]
    assert all_placed([*caches, *(pod(f"web-{number}", "web", near="cache") for number in range(18))])
