"""Plans that the search for a proof comes upon: free room filled to the brim, limits shared, alternatives."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.model import labels
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.testing import exhaustive
from dovetail.testing.problems import Document, instance_types, node, pod, pool, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

EITHER = [
    {"matchExpressions": [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]},
    {"matchExpressions": [{"key": labels.ZONE, "operator": "In", "values": ["zone-a"]}]},
]


def sized(cpus: list[int], rule: Document) -> list[Document]:
    return [pod(f"pod-{number}", "app", (size, 64), rule) for number, size in enumerate(cpus)]


def planned(document: Document) -> Plan:
    """A plan that breaks no rule and that none is cheaper than."""
    problem = to_problem(document)
    plan = solve(problem, Budget(work=200_000))
    assert verify(problem, plan) == ()
    assert not plan.unschedulable
    assert exhaustive.cheaper(problem, plan) is None
    assert plan.cost.hourly == pytest.approx(plan.cost.lower_bound)
    return plan


def test_free_room_is_filled_to_the_brim_where_that_spares_a_node() -> None:
    nodes = [node("node-a", "zone-a", 7), node("node-b", "zone-b", 5)]
    plan = planned(
        scenario(sized([4000, 3000, 3000, 2000], {}), [pool("general")], instance_types(), nodes=nodes)
    )
    assert not plan.claims
    assert plan.cost.hourly == 0


def test_a_pool_that_is_limited_is_used_for_what_it_saves_most_on() -> None:
    spot: dict[str, Any] = pool("cheap", limits={"cpu": "4"})
    dear: dict[str, Any] = pool("dear")
    for made, kind in ((spot, "spot"), (dear, "on-demand")):
        wanted = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [kind]}
        made["spec"]["template"]["spec"]["requirements"] = [wanted]
    plan = planned(scenario(sized([3500, 3500, 1500], {}), [spot, dear], instance_types()))
    assert {claim.pool for claim in plan.claims} == {"cheap", "dear"}


def test_pods_take_the_alternative_that_costs_less_together() -> None:
    rule = {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": EITHER}}
        }
    }
    plan = planned(scenario(sized([1500, 1500, 900], rule), [pool("general")], instance_types()))
    assert all(claim.capacity_type == "spot" for claim in plan.claims)


def test_pods_that_only_a_node_that_is_there_suits_keep_their_room() -> None:
    """A proof leaves them out, as none can be bought for them: its plan gave their room to another pod."""
    pods = [*sized([500, 1000], {"nodeSelector": {labels.HOSTNAME: "node-a"}}), *sized([0, 0, 1000], {})[2:]]
    nodes = [node("node-a", "zone-a", 2)]
    problem = to_problem(scenario(pods, [pool("general")], instance_types(), nodes=nodes))
    plan = solve(problem, Budget(work=200_000))
    assert verify(problem, plan) == ()
    assert [len(claim.pods) for claim in plan.claims] == [1]


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_a_pod_with_the_ports_of_two_others_shares_a_node_with_neither(copies: int) -> None:
    waiting = []
    for number, (size, ports) in enumerate([(500, (80, 443)), (500, (80,)), (1500, (443,))]):
        for copy in range(copies):
            document = pod(f"pod-{number}-{copy}", f"app-{number}", (size, 64), {})
            document["spec"]["containers"][0]["ports"] = [
                {"containerPort": port, "hostPort": port} for port in ports
            ]
            waiting.append(document)
    problem = to_problem(scenario(waiting, [pool("general")], instance_types()))
    plan = solve(problem, Budget(work=200_000))
    assert verify(problem, plan) == ()
    assert not plan.unschedulable
    assert exhaustive.cheaper(problem, plan) is None
