"""Domains are picked with prices in mind: plans with different picks are compared."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.solve.solver import solve
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

ZONE = "topology.kubernetes.io/zone"


def offering(zone: str, price: float) -> dict[str, Any]:
    requirements = {ZONE: zone, "karpenter.sh/capacity-type": "on-demand"}
    return {"price": price, "available": True, "requirements": requirements}


def instance_type(name: str, size: tuple[int, int], prices: dict[str, float]) -> dict[str, Any]:
    return {
        "name": name,
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        "offerings": [offering(zone, price) for zone, price in prices.items()],
        "capacity": {"cpu": str(size[0]), "memory": f"{size[1]}Gi", "pods": "110"},
        "overhead": {},
    }


def pod(name: str, app: str, requests: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    containers = [{"name": "main", "resources": {"requests": requests}}]
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {"containers": containers, **spec},
    }


def spread(app: str, most: int) -> dict[str, Any]:
    rule = {
        "maxSkew": most,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [rule]}


def problem_of(types: list[dict[str, Any]], pods: list[dict[str, Any]]) -> Problem:
    reference = {"group": "example.com", "kind": "Class", "name": "any"}
    template = {"spec": {"nodeClassRef": reference, "requirements": []}}
    scenario = {
        "instanceTypes": types,
        "nodePools": [{"metadata": {"name": "pool"}, "spec": {"template": template}}],
        "pods": pods,
        "wellKnownLabels": [ZONE, "karpenter.sh/capacity-type", "kubernetes.io/arch"],
    }
    return to_problem(scenario)


def planned(types: list[dict[str, Any]], pods: list[dict[str, Any]]) -> Plan:
    problem = problem_of(types, pods)
    plan = solve(problem)
    assert verify(problem, plan) == ()
    assert not plan.unschedulable
    return plan


def test_shapes_that_fill_one_node_share_a_zone() -> None:
    types = [
        instance_type("lean", (8, 8), {"zone-a": 1.0, "zone-b": 1.01}),
        instance_type("rich", (8, 64), {"zone-a": 1.31, "zone-b": 1.3}),
    ]
    pods = [pod(f"lean-{n}", "lean", {"cpu": "1", "memory": "1Gi"}, spread("lean", 9)) for n in range(3)]
    pods += [pod(f"rich-{n}", "rich", {"cpu": "1", "memory": "9Gi"}, spread("rich", 9)) for n in range(3)]
    assert [claim.price for claim in planned(types, pods).claims] == [1_300_000_000]


@pytest.mark.parametrize(("most", "zones"), [(1, [3, 3]), (4, [5, 1])])
def test_the_cheaper_zone_takes_what_the_skew_allows(most: int, zones: list[int]) -> None:
    types = [instance_type("small", (1, 2), {"zone-a": 2.0, "zone-b": 1.0})]
    pods = [pod(f"web-{n}", "web", {"cpu": "1", "memory": "1Gi"}, spread("web", most)) for n in range(6)]
    counts = {"zone-a": 0, "zone-b": 0}
    for claim in planned(types, pods).claims:
        counts[claim.zone] += len(claim.pods)
    assert [counts["zone-b"], counts["zone-a"]] == zones


def test_a_single_pod_goes_where_a_whole_node_is_cheapest() -> None:
    types = [
        instance_type("small", (2, 4), {"zone-a": 0.3, "zone-b": 0.2}),
        instance_type("large", (64, 128), {"zone-a": 1.0}),
    ]
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "other"}}}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    plan = planned(types, [pod("web", "web", {"cpu": "1", "memory": "1Gi"}, apart)])
    assert [claim.price for claim in plan.claims] == [200_000_000]


def test_a_zone_where_a_spread_counts_no_node_is_open_to_the_nodes_of_others() -> None:
    """By nodeAffinityPolicy Honor, the default, nodes that the pods' own selector rules out do not count."""
    size = {"cpu": "6", "memory": "6Gi"}
    bound = {"nodeSelector": {ZONE: "zone-b"}, **spread("bound", 1)}
    pods = [pod(f"bound-{number}", "bound", size, bound) for number in range(3)]
    pods += [pod(f"free-{number}", "free", size, {}) for number in range(3)]
    plan = planned([instance_type("lean", (8, 8), {"zone-a": 1.0, "zone-b": 1.3})], pods)
    zones = {pod.split("/")[1].split("-")[0]: claim.zone for claim in plan.claims for pod in claim.pods}
    assert zones == {"bound": "zone-b", "free": "zone-a"}
    assert plan.cost.hourly == pytest.approx(6.9e9)
