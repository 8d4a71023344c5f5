"""Pods that obey spreads over several labels: only ways to stand in the end that have an order count."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.model.selector import Selector
from dovetail.model.spread import SpreadRule
from dovetail.solve.solver import solve
from dovetail.testing.between import ways
from dovetail.testing.problems import instance_types, pool, scenario
from dovetail.testing.proofs import proof_faults
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

ZONE, CAPACITY = "topology.kubernetes.io/zone", "karpenter.sh/capacity-type"
CELLS = [("a", "spot"), ("a", "od"), ("b", "spot"), ("b", "od")]


def rule(key: str, skew: int = 1, fewest: int = 1) -> SpreadRule:
    return SpreadRule(key, "default", Selector.read(None), skew, hard=True, min_domains=fewest)


def test_the_second_pod_is_in_the_other_domain_of_both_labels() -> None:
    found = ways([rule(ZONE), rule(CAPACITY)], CELLS, 2, [2, 2])
    assert found == [(0, 1, 1, 0), (1, 0, 0, 1)]


def test_one_spread_alone_leaves_the_other_label_open() -> None:
    assert len(ways([rule(ZONE), rule(CAPACITY, skew=9)], CELLS, 2, [2, 2])) == 4


def test_too_few_domains_allow_only_the_first_pods() -> None:
    assert ways([rule(ZONE, fewest=3)], [("a",), ("b",)], 2, [2]) == [(1, 1)]
    assert ways([rule(ZONE, fewest=3)], [("a",), ("b",)], 3, [2]) == []


def pods(number: int) -> list[dict[str, Any]]:
    spreads = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        for key in (ZONE, CAPACITY)
    ]
    requests = {"cpu": "1500m", "memory": "1Gi"}
    return [
        {
            "metadata": {"name": f"web-{index}", "namespace": "default", "labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "main", "resources": {"requests": requests}}],
                "topologySpreadConstraints": spreads,
            },
        }
        for index in range(number)
    ]


@pytest.mark.parametrize("number", [2, 5, 7])
def test_plan_and_bound_meet(number: int) -> None:
    problem = to_problem(scenario(pods(number), [pool("general")], instance_types()))
    plan = solve(problem)
    assert verify(problem, plan) == ()
    assert plan.unschedulable == ()
    assert proof_faults(problem, plan) == ()
    assert plan.cost.lower_bound == pytest.approx(plan.cost.hourly, rel=0.01)
