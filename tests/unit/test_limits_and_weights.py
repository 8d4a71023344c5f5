"""Limits of NodePools in plans and their bounds, and what they leave of weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.solve import inputs
from dovetail.model import labels
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, Problem
from dovetail.solve.solver import solve
from dovetail.testing.problems import Document, instance_types, pod, pool, scenario
from dovetail.testing.proofs import proof_faults
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify


def problem(pools: list[Document], pods: int) -> Problem:
    sizes = [(900, 1024) if number % 2 else (500, 2048) for number in range(pods)]
    waiting = [pod(f"web-{number:03}", "web", size, {}) for number, size in enumerate(sizes)]
    return to_problem(scenario(waiting, pools, instance_types()))


def bought(plan: Plan) -> Counter[str]:
    """Pods per pool."""
    return Counter({claim.pool: 0 for claim in plan.claims}) + Counter(
        claim.pool for claim in plan.claims for _ in claim.pods
    )


@pytest.mark.parametrize("limits", [{"cpu": "16"}, {"nodes": "2"}, {"memory": "64Gi", "cpu": "100"}])
def test_a_heavier_pool_is_filled_before_a_cheaper_one(limits: Document) -> None:
    """However long the solver looks: an integer program once moved all pods to the lighter pool, on which
    those that fit nowhere else could be had for less.
    """
    heavy = pool("heavy", weight=10, limits=limits, capacity=("on-demand",))
    asked = problem([heavy, pool("light", weight=1, capacity=("spot",))], 40)
    first = bought(solve(asked, Budget(work=1)))
    plan = solve(asked, Budget(work=100_000))
    assert verify(asked, plan) == ()
    assert bought(plan)["heavy"] >= first["heavy"] > 0
    assert plan.cost.gap < 0.01
    assert proof_faults(asked, plan) == ()


def test_what_limits_end_is_paid_for_elsewhere() -> None:
    """Spot for a few pods and on demand for all others: without a price on the limit all of them count as
    spot.
    """
    spot = pool("spot", limits={"cpu": "24"}, capacity=("spot",))
    asked = problem([spot, pool("on-demand", capacity=("on-demand",))], 200)
    plan = solve(asked, Budget(work=1))
    assert {item.pool for item in plan.proof.limits} == {"spot"}
    assert plan.cost.gap < 0.15
    assert proof_faults(asked, plan) == ()
    free = replace(plan, proof=replace(plan.proof, limits=()))
    assert any("holds more than its price" in fault for fault in proof_faults(asked, free))


@pytest.mark.parametrize("limit", [{"cpu": "24"}, {"cpu": "24", "memory": "96Gi"}, {"nodes": "3"}])
def test_the_price_of_a_limit_is_found_where_no_cheap_offering_keeps_to_it(limit: Document) -> None:
    """The program of the relaxation began with the cheapest offerings, all of the pool that has the limit,
    found no optimum, and took what the library had left for prices: the gap was 64 %.
    """
    spot = pool("spot", weight=100, limits=limit, capacity=("spot",))
    asked = problem([spot, pool("on-demand", limits={"cpu": "400"}, capacity=("on-demand",))], 200)
    plan = solve(asked, Budget(work=1))
    assert bought(plan)["on-demand"] > bought(plan)["spot"] > 0
    assert {item.pool for item in plan.proof.limits} == {"spot"}
    assert plan.cost.gap < 0.2
    assert proof_faults(asked, plan) == ()


@pytest.mark.parametrize("zones", [False, True])
def test_pods_that_must_be_on_demand_for_their_spread_are_proven_to_be(*, zones: bool) -> None:
    """Spot comes first, and a spread over capacity types asks for half of the pods on demand. Promises tell
    the pods of a Deployment apart, so that no rule was about one kind, and all counted as spot: 46 and 49 %.
    """
    waiting = []
    for app in range(12):
        spread = [inputs.spread(key, {"app": f"app-{app}"}) for key in (labels.ZONE, labels.CAPACITY_TYPE)]
        spec = {"topologySpreadConstraints": spread if zones else spread[1:]}
        size = (250 + 250 * (app % 4), 512 << app % 3)
        waiting += [pod(f"app-{app}-{number}", f"app-{app}", size, spec) for number in range(4 + app)]
    pools = [pool("spot", weight=50, capacity=("spot",)), pool("on-demand", capacity=("on-demand",))]
    asked = to_problem(scenario(waiting, pools, instance_types()))
    plan = solve(asked, Budget(work=30_000))
    assert verify(asked, plan) == ()
    assert plan.left == ()
    assert plan.cost.gap < 0.15


def test_types_that_are_too_large_for_what_is_left_are_not_for_sale() -> None:
    """The pods fit on no type that spot still may have, and nothing is bought from it."""
    spot = pool("spot", limits={"cpu": "3"}, capacity=("spot",))
    waiting = [pod(f"db-{number}", "db", (3000, 4096), {}) for number in range(20)]
    asked = to_problem(
        scenario(waiting, [spot, pool("on-demand", capacity=("on-demand",))], instance_types())
    )
    plan = solve(asked, Budget(work=1))
    assert bought(plan) == {"on-demand": 20}
    assert plan.cost.gap < 0.25
