"""Rules between pods where it matters which pods share a node: bounds that meet plans."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.model import labels
from dovetail.model.plan import BETWEEN_PODS, Plan
from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.testing import exhaustive
from dovetail.testing.problems import Document, both, instance_types, pod, pool, rules, scenario
from dovetail.testing.proofs import proof_faults
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(app: str, key: str = labels.HOSTNAME) -> Document:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def near(app: str) -> Document:
    return {"affinity": {"podAffinity": {REQUIRED: [term(app)]}}}


def planned(pods: list[Document], pools: list[Document]) -> Plan:
    """A plan that breaks no rule and that none is cheaper than, with a proof that holds."""
    problem = to_problem(scenario(pods, pools, instance_types()))
    plan = solve(problem, Budget(work=300_000))
    assert verify(problem, plan) == ()
    assert not plan.unschedulable
    assert exhaustive.cheaper(problem, plan) is None
    assert proof_faults(problem, plan) == ()
    assert plan.cost.hourly == pytest.approx(plan.cost.lower_bound, rel=1e-4)
    return plan


def test_pods_that_others_must_be_near_go_to_several_nodes_where_those_are_cheaper() -> None:
    pods = [pod(f"web-{number}", "web", (500, 512), near("anchor")) for number in range(2)]
    pods += [pod(f"anchor-{number}", "anchor", (250, 256), {}) for number in range(2)]
    plan = planned([*pods, pod("free", "free", (750, 256), {})], [pool("general")])
    assert plan.proof.method == BETWEEN_PODS


def test_a_group_that_wants_to_be_together_starts_once() -> None:
    planned([pod(f"web-{number}", "web", (700, 900), near("web")) for number in range(4)], [pool("general")])


def test_preferences_that_are_kept_count_in_the_bound_with_limits_too() -> None:
    weighted = {"weight": 10, "podAffinityTerm": term("web")}
    apart: dict[str, Any] = {"affinity": {"podAntiAffinity": {PREFERRED: [weighted]}}}
    pods = [pod(f"web-{number}", "web", (250, 256), apart) for number in range(3)]
    plan = planned(pods, [pool("general"), pool("other", limits={"cpu": "100"})])
    assert len(plan.claims) == 3


@pytest.mark.parametrize("number", [2, 3, 5])
def test_zones_that_pods_would_rather_not_be_in_still_hold_a_spread_down(number: int) -> None:
    """As many as can be are in zone-c; the others give that up and not the spread, which they rather keep."""
    rule = both(rules("web", "")["rather spread over zones"], rules("web", "")["rather in zone-c"])
    plan = planned(
        [pod(f"web-{index}", "web", (500, 512), rule) for index in range(number)], [pool("general")]
    )
    assert len(plan.claims) == min(3, number)
    assert len(plan.relaxed) == number - -(-number // 3)
