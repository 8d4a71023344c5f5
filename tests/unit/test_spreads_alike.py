"""Spreads that count the same pods bind all their owners together, however their selectors read."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.model.plan import Plan
from dovetail.solve.solver import solve
from dovetail.testing.problems import instance_types, pool, scenario
from dovetail.testing.proofs import proof_faults
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

BY_GROUP = {"matchLabels": {"group": "g"}}
BY_NAME = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["one", "other"]}]}
ONE_ALONE = {"matchLabels": {"app": "one"}}


def pods(app: str, number: int, key: str, selector: dict[str, Any]) -> list[dict[str, Any]]:
    spread = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    requests = {"cpu": "100m", "memory": "100Mi"}
    return [
        {
            "metadata": {
                "name": f"{app}-{index}",
                "namespace": "default",
                "labels": {"app": app, "group": "g"},
            },
            "spec": {
                "containers": [{"name": "main", "resources": {"requests": requests}}],
                "topologySpreadConstraints": [spread],
            },
        }
        for index in range(number)
    ]


def plan_of(key: str, one: dict[str, Any], other: dict[str, Any]) -> Plan:
    documents = [*pods("one", 2, key, one), *pods("other", 1, key, other)]
    problem = to_problem(scenario(documents, [pool("general")], instance_types()))
    plan = solve(problem)
    assert verify(problem, plan) == ()
    assert plan.unschedulable == ()
    assert proof_faults(problem, plan) == ()
    return plan


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
def test_the_bound_knows_that_they_are_as_one(key: str) -> None:
    plan = plan_of(key, BY_GROUP, BY_NAME)
    assert plan.cost.lower_bound == pytest.approx(plan.cost.hourly, rel=0.01)


def test_each_pod_has_a_host_where_both_spreads_count_both() -> None:
    assert len(plan_of("kubernetes.io/hostname", BY_GROUP, BY_NAME).claims) == 3


def test_who_counts_others_may_share_their_host_where_they_do_not_count_back() -> None:
    assert len(plan_of("kubernetes.io/hostname", ONE_ALONE, BY_NAME).claims) == 2
