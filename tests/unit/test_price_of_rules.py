"""What rules cost: lifted alone, measured against plans whose cost can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dovetail.explain.cost import CostStory, comparison, cost_story
from dovetail.explain.node import node_story
from dovetail.model.plan import OUT_OF_TIME, Plan, Unschedulable
from dovetail.model.problem import Problem
from dovetail.solve.solver import solve
from dovetail.testing.scenarios import to_problem

ZONE, ARCH, HOST = "topology.kubernetes.io/zone", "kubernetes.io/arch", "kubernetes.io/hostname"
CAPACITY, CONTROLLED = (
    "karpenter.sh/capacity-type",
    {"kind": "ReplicaSet", "apiVersion": "apps/v1", "uid": "1"},
)


def instance_type(name: str, cpu: int, price: float, arch: str = "amd64") -> dict[str, Any]:
    requirements = {ZONE: "z-a", CAPACITY: "on-demand"}
    spot = {ZONE: "z-a", CAPACITY: "spot"}
    return {
        "name": name,
        "requirements": [
            {"key": ZONE, "operator": "In", "values": ["z-a"]},
            {"key": ARCH, "operator": "In", "values": [arch]},
        ],
        "offerings": [
            {"price": price, "available": True, "requirements": requirements},
            {"price": price / 2, "available": True, "requirements": spot},
        ],
        "capacity": {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "20"},
        "overhead": {},
    }


def pods(name: str, count: int, **spec: Any) -> list[dict[str, Any]]:
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    owner = {**CONTROLLED, "name": name, "controller": True}
    return [
        {
            "metadata": {
                "name": f"{name}-{number}",
                "namespace": "shop",
                "labels": {"app": name},
                "ownerReferences": [owner],
            },
            "spec": {"containers": [container], **spec},
        }
        for number in range(count)
    ]


def apart(app: str) -> dict[str, Any]:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def asked(pending: list[dict[str, Any]], *requirements: dict[str, Any], **more: Any) -> Problem:
    reference = {"group": "example.com", "kind": "Class", "name": "any"}
    spec: dict[str, Any] = {"nodeClassRef": reference, "requirements": list(requirements)}
    scenario = {
        "nodePools": [{"metadata": {"name": "np"}, "spec": {"template": {"spec": spec}}}],
        "instanceTypes": [
            instance_type("one", 1, 0.1),
            instance_type("four", 4, 0.16),
            instance_type("arm", 4, 0.12, "arm64"),
        ],
        "wellKnownLabels": [ZONE, CAPACITY, ARCH, HOST],
        "pods": pending,
        **more,
    }
    return to_problem(scenario)


def story(pending: list[dict[str, Any]], *requirements: dict[str, Any], **more: Any) -> CostStory:
    problem = asked(pending, *requirements, **more)
    return cost_story(comparison(problem, solve(problem), solve), 20, solve, lambda _: None)


def saved(found: CostStory) -> dict[tuple[str, str], float]:
    """Dollars per hour by rule."""
    return {(item.rule.what, item.rule.who): item.saved / 1e9 for item in found.prices}


ON_DEMAND = {"key": CAPACITY, "operator": "In", "values": ["on-demand"]}
AMD64 = {"key": ARCH, "operator": "In", "values": ["amd64"]}


def test_four_nodes_instead_of_one_are_what_anti_affinity_costs() -> None:
    found = story(pods("web", 4, affinity=apart("web")), ON_DEMAND, AMD64)
    prices = saved(found)
    assert prices["pod anti-affinity over hostname", "ReplicaSet shop/web"] == pytest.approx(0.4 - 0.16)
    assert prices["capacity type on-demand", "NodePool np"] == pytest.approx(0.2)
    assert found.prices[0].rule.what == "pod anti-affinity over hostname"
    assert all(0 <= item.least <= max(item.saved, 0) <= item.most for item in found.prices)


def test_a_proven_saving() -> None:
    found = story(pods("web", 4, nodeSelector={CAPACITY: "on-demand"}), AMD64)
    (rule,) = [item for item in found.prices if item.rule.what == "capacity type on-demand"]
    assert rule.saved / 1e9 == pytest.approx(0.08)
    assert rule.least / 1e9 == pytest.approx(0.08)
    assert rule.most / 1e9 == pytest.approx(0.08)


def test_pools_and_daemons_have_their_price_too() -> None:
    agent = {
        "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
            },
        },
    }
    prices = saved(story(pods("web", 4), ON_DEMAND, AMD64, daemonSets=[agent]))
    # With the agent, four pods of one CPU need two nodes of four.
    assert prices["its share of every node", "DaemonSet kube-system/agent"] == pytest.approx(0.16)
    assert prices["architecture amd64", "NodePool np"] == pytest.approx(0.08)


def test_pods_that_are_left_over_are_not_part_of_the_comparison() -> None:
    found = story(pods("web", 2, nodeSelector={"no": "such"}) + pods("api", 4), ON_DEMAND, AMD64)
    assert found.base.plan.cost.hourly == 160_000_000
    assert {item.rule.who for item in found.prices} == {"NodePool np"}


def test_a_hurried_plan_may_leave_over_others_than_the_one_before() -> None:
    """All plans that are compared place the same pods, whichever these are in the end."""
    hurried = iter((3,))  # the next plan has time for three pods of four

    def in_a_hurry(problem: Problem) -> Plan:
        most = next(hurried, len(problem.pods))
        plan = solve(replace(problem, pods=problem.pods[:most]))
        late = tuple(Unschedulable(pod.key, OUT_OF_TIME, {}) for pod in problem.pods[most:])
        return replace(plan, unschedulable=(*plan.unschedulable, *late))

    problem = asked(pods("web", 5), ON_DEMAND, AMD64)
    left = tuple(Unschedulable(pod.key, OUT_OF_TIME, {}) for pod in problem.pods[4:])
    found = comparison(problem, Plan(unschedulable=left), in_a_hurry)
    assert not found.plan.unschedulable
    assert len(found.problem.pods) == 3
    assert all(0 <= item.least <= item.most for item in cost_story(found, 20, solve, lambda _: None).prices)


def test_rules_that_keep_nothing_out_are_not_tried() -> None:
    both = {"key": ARCH, "operator": "In", "values": ["amd64", "arm64"]}
    rules = {(rule.what, rule.who) for rule in story(pods("web", 1), both, ON_DEMAND).base.rules}
    assert rules == {("capacity type on-demand", "NodePool np")}


def test_weights_of_pools_have_a_price() -> None:
    reference = {"group": "example.com", "kind": "Class", "name": "any"}

    def pool(name: str, weight: int, arch: str) -> dict[str, Any]:
        only = {"key": ARCH, "operator": "In", "values": [arch]}
        spec = {"nodeClassRef": reference, "requirements": [only, ON_DEMAND]}
        return {"metadata": {"name": name}, "spec": {"weight": weight, "template": {"spec": spec}}}

    found = story(pods("web", 4), nodePools=[pool("dear", 10, "amd64"), pool("cheap", 1, "arm64")])
    assert saved(found)["weights: the heaviest first", "all NodePools"] == pytest.approx(0.04)


def test_a_node_says_why_it_is_not_smaller() -> None:
    reference = {"group": "example.com", "kind": "Class", "name": "any"}
    scenario = {
        "nodePools": [
            {
                "metadata": {"name": "np"},
                "spec": {
                    "template": {"spec": {"nodeClassRef": reference, "requirements": [AMD64, ON_DEMAND]}}
                },
            }
        ],
        "instanceTypes": [
            instance_type("one", 1, 0.1),
            instance_type("four", 4, 0.16),
            instance_type("six", 6, 0.3),
            instance_type("arm", 4, 0.12, "arm64"),
        ],
        "wellKnownLabels": [ZONE, CAPACITY, ARCH, HOST],
        "pods": pods("web", 4),
    }
    problem = to_problem(scenario)
    found = node_story(problem, solve(problem), "np-0")
    assert [item.offer.instance_type for item in found.possible] == ["four", "six"]
    assert found.possible[1].offer.price - found.possible[0].offer.price == 140_000_000
    why = {item.offer.instance_type: [miss.text for miss in item.misses] for item in found.cheaper}
    assert why["one"] == ["needs 3 more CPU than one has for pods (4 of 1)"]
    assert why["arm"] == ["the pool wants architecture amd64, arm has arm64"]
    assert found.worth is not None
    assert found.worth <= 160_000_000
