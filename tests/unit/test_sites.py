"""Labels that pools leave open: pods that ask for different values of one pay for a node each."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.model.plan import Plan
from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.testing.problems import instance_types, pod, pool, scenario
from dovetail.testing.proofs import proof_faults
from dovetail.testing.scenarios import to_problem

RACK = "example.com/rack"
SIZE = (250, 256)


def on_racks(operator: str, *values: str) -> dict[str, Any]:
    expression = {"key": RACK, "operator": operator, "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def planned(*rules: dict[str, Any]) -> Plan:
    """A small pod for each rule, where nodes may be on one of three racks."""
    asked = pool("general")
    choice = {"key": RACK, "operator": "In", "values": ["r1", "r2", "r3"]}
    asked["spec"]["template"]["spec"]["requirements"] = [choice]
    pods = [pod(f"pod-{number}", "app", SIZE, rule) for number, rule in enumerate(rules)]
    problem = to_problem(scenario(pods, [asked], instance_types()))
    plan = solve(problem, Budget(work=100_000))
    assert proof_faults(problem, plan) == ()
    assert not plan.unschedulable
    return plan


@pytest.mark.parametrize(
    ("rules", "nodes"),
    [
        ([{}, on_racks("In", "r1")], 1),
        ([on_racks("In", "r1"), on_racks("In", "r2")], 2),
        ([on_racks("In", "r1"), on_racks("NotIn", "r1")], 2),
        ([on_racks("In", "r1", "r2"), on_racks("In", "r2", "r3")], 1),
        ([on_racks("NotIn", "r1"), on_racks("NotIn", "r2")], 1),
        ([on_racks("In", "r1"), on_racks("In", "r2"), on_racks("Exists"), {}], 2),
        ([on_racks("In", "r1"), on_racks("In", "r2"), on_racks("In", "r3"), {}], 3),
    ],
)
def test_what_cannot_share_a_node_is_paid_for(rules: list[dict[str, Any]], nodes: int) -> None:
    plan = planned(*rules)
    assert len(plan.claims) == nodes
    assert plan.cost.lower_bound == pytest.approx(plan.cost.hourly)
