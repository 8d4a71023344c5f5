"""Pods that have to be near others stay away where limits refuse those others."""

from __future__ import annotations

import pytest

from dovetail.model import labels
from dovetail.solve.solver import solve
from dovetail.testing.problems import instance_types, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify


@pytest.mark.parametrize(("limit", "placed"), [("4", 0), ("100", 8)])
def test_no_node_is_bought_for_a_pod_without_those_it_has_to_be_near(limit: str, placed: int) -> None:
    near = rules("web", "db")["in the zone of another app"]
    far = rules("api", "web")["in the zone of another app"]  # near the first ones, and so no more than they
    large = {"nodeSelector": {labels.INSTANCE_TYPE: "m.xlarge"}}
    pods = [
        *(pod(f"db-{number}", "db", (5_000, 1_024), large) for number in range(2)),
        *(pod(f"web-{number}", "web", (250, 512), near) for number in range(3)),
        *(pod(f"api-{number}", "api", (250, 512), far) for number in range(3)),
    ]
    problem = to_problem(scenario(pods, [pool("general", limits={"cpu": limit})], instance_types()))
    plan = solve(problem)
    assert verify(problem, plan) == ()
    assert sum(len(claim.pods) for claim in plan.claims) == placed
