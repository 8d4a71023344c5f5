"""Pods that want to share nodes: those who must follow find room where the first one went."""

from __future__ import annotations

from typing import Any

from dovetail.model.plan import Plan
from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

HOSTNAME = "kubernetes.io/hostname"


def pod(name: str, app: str, near: str = "", cpu: str = "1") -> dict[str, Any]:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    spec: dict[str, Any] = {"containers": containers}
    if near:
        term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": near}}}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"metadata": {"name": name, "namespace": "default", "labels": {"app": app}}, "spec": spec}


def planned(pods: list[dict[str, Any]], prices: dict[int, float]) -> Plan:
    """The first plan, on nodes of so many CPUs for so many dollars an hour."""
    zone = {"topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": "on-demand"}
    kinds = [
        {
            "name": f"cpu-{cpus}",
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            "offerings": [{"price": price, "available": True, "requirements": zone}],
            "capacity": {"cpu": f"{cpus}", "memory": f"{4 * cpus}Gi", "pods": "110"},
            "overhead": {},
        }
        for cpus, price in prices.items()
    ]
    reference = {"group": "example.com", "kind": "Class", "name": "any"}
    template = {"spec": {"nodeClassRef": reference, "requirements": []}}
    scenario = {
        "instanceTypes": kinds,
        "nodePools": [{"metadata": {"name": "pool"}, "spec": {"template": template}}],
        "pods": pods,
        "wellKnownLabels": ["topology.kubernetes.io/zone", "karpenter.sh/capacity-type", HOSTNAME],
    }
    problem = to_problem(scenario)
    plan = solve(problem, Budget(0))
    assert verify(problem, plan) == ()
    assert not plan.unschedulable
    return plan


def test_each_group_starts_on_a_node_that_holds_all_of_it() -> None:
    planned([pod(f"{app}-{number}", app, near=app) for app in "abcd" for number in range(6)], {8: 1.0})


def test_pods_that_others_must_be_near_are_spread_over_the_nodes_that_these_need() -> None:
    caches = [pod(f"cache-{number}", "cache") for number in range(4)]
    planned([*caches, *(pod(f"web-{number}", "web", near="cache") for number in range(18))], {8: 1.0})


def test_pods_near_others_do_not_make_one_node_grow_to_the_dearest_size() -> None:
    """448 CPUs beside forty caches: on nodes of 16 CPUs, and not all beside the first cache on one of 896."""
    caches = [pod(f"cache-{number}", "cache") for number in range(40)]
    webs = [pod(f"web-{number}", "web", near="cache", cpu="7") for number in range(64)]
    plan = planned([*caches, *webs], {8: 0.4, 16: 0.8, 896: 110.0})
    assert plan.cost.hourly <= 1.15 * plan.cost.lower_bound


def test_pods_that_nothing_ties_to_each_other_are_not_one_bundle() -> None:
    """Eight pairs of 7 CPUs each: on nodes of 8, and not all beside the first on one of 64."""
    pairs = [
        [pod(f"cache-{each}", f"cache-{each}"), pod(f"web-{each}", f"web-{each}", f"cache-{each}", cpu="6")]
        for each in range(8)
    ]
    plan = planned([one for pair in pairs for one in pair], {8: 0.4, 64: 11.0})
    assert plan.cost.hourly == 8 * 400_000_000
