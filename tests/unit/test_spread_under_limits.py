"""Limits: what they refuse counts for no spread, and must not leave the other domains too far ahead."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.solve.solver import solve
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

ZONES = ("z-a", "z-b", "z-c")


def offering(zone: str, price: float) -> dict[str, Any]:
    requirements = {"topology.kubernetes.io/zone": zone, "karpenter.sh/capacity-type": "on-demand"}
    return {"price": price, "available": True, "requirements": requirements}


def instance_type(cpus: int) -> dict[str, Any]:
    return {
        "name": f"c.{cpus}",
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        # The third zone is the cheapest: price alone would put all pods there.
        "offerings": [offering(zone, cpus * (0.05 - 0.01 * index)) for index, zone in enumerate(ZONES)],
        "capacity": {"cpu": str(cpus), "memory": f"{4 * cpus}Gi", "pods": "110"},
        "overhead": {},
    }


def node(zone: str, cpus: int) -> dict[str, Any]:
    name = f"base-{zone}"
    room = {"cpu": str(cpus), "memory": f"{4 * cpus}Gi", "pods": "110"}
    marks = {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}
    return {
        "metadata": {"name": name, "labels": marks},
        "status": {"capacity": room, "allocatable": room},
    }


def pod(number: int, key: str = "topology.kubernetes.io/zone") -> dict[str, Any]:
    spread = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return {
        "metadata": {"name": f"web-{number}", "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "web", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
            "topologySpreadConstraints": [spread],
        },
    }


def scenario(limits: dict[str, str], pods: int) -> dict[str, Any]:
    reference = {"group": "example.com", "kind": "Class", "name": "any"}
    template = {"spec": {"nodeClassRef": reference, "requirements": []}}
    return {
        "nodePools": [{"metadata": {"name": "general"}, "spec": {"template": template, "limits": limits}}],
        "instanceTypes": [instance_type(cpus) for cpus in (2, 8, 32)],
        "nodes": [node("z-a", 0), node("z-b", 0)],
        "boundPods": [],
        "wellKnownLabels": [
            "topology.kubernetes.io/zone",
            "karpenter.sh/capacity-type",
            "kubernetes.io/arch",
        ],
        "daemonSets": [],
        "namespaces": [{"metadata": {"name": "default"}}],
        "pods": [pod(number) for number in range(pods)],
    }


@pytest.mark.parametrize(
    ("limits", "least", "most"),
    [
        ({"nodes": "1"}, 1, 1),  # one zone, one pod ahead of the empty ones
        ({"nodes": "2"}, 30, 30),  # in the zones of the nodes that exist: then no node can open the third
        ({"nodes": "3"}, 30, 30),
        ({"cpu": "10"}, 8, 9),
        ({"cpu": "2"}, 1, 1),
    ],
    ids=str,
)
def test_what_limits_refuse_holds_the_other_zones_back(limits: dict[str, str], least: int, most: int) -> None:
    problem = to_problem(scenario(limits, 30))
    plan = solve(problem)
    assert verify(problem, plan) == ()
    placed = sum(len(claim.pods) for claim in plan.claims)
    assert least <= placed <= most
    assert placed + len(plan.unschedulable) == 30


@pytest.mark.parametrize(
    ("limits", "rooms", "placed"),
    [
        ({"nodes": "0"}, (4, 4), 8),
        ({"nodes": "0"}, (8, 2), 5),  # the second is full, the first one ahead of it
        ({"nodes": "0"}, (8, 0), 1),
        ({"cpu": "1"}, (3, 3), 6),  # no type is that small
        ({"cpu": "100"}, (4, 4), 8),
    ],
    ids=str,
)
def test_hosts_that_cannot_be_bought_do_not_count_as_empty(
    limits: dict[str, str], rooms: tuple[int, int], placed: int
) -> None:
    document = scenario(limits, 0)
    document["nodes"] = [node(zone, cpus) for zone, cpus in zip(ZONES[:2], rooms, strict=True)]
    document["pods"] = [pod(number, "kubernetes.io/hostname") for number in range(8)]
    problem = to_problem(document)
    plan = solve(problem)
    assert verify(problem, plan) == ()
    assert 8 - len(plan.unschedulable) == placed
