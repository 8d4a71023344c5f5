"""What offerings of all pools draw on: a plan never takes more of it than is left."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from dovetail.model.offering import InstanceType, Offering
from dovetail.model.problem import Budget, Problem
from dovetail.solve.solver import solve
from dovetail.testing import problems
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

WORK = Budget(40_000)


def drawing(problem: Problem, commons: Mapping[str, int]) -> Problem:
    """The problem with vCPUs per capacity type and addresses per zone to share."""

    def drawn(kind: InstanceType, item: Offering) -> Offering:
        cpus = kind.capacity["cpu"] // 1000
        return replace(item, draws=((f"{item.capacity_type} vCPUs", cpus), (f"addresses in {item.zone}", 1)))

    pools = tuple(
        replace(
            pool,
            instance_types=tuple(
                replace(kind, offerings=tuple(drawn(kind, item) for item in kind.offerings))
                for kind in pool.instance_types
            ),
        )
        for pool in problem.pools
    )
    return replace(problem, pools=pools, commons=commons)


def plain(pods: int, *, rule: str = "plain") -> Problem:
    spec = problems.rules("web", "db")[rule]
    some = [problems.pod(f"web-{number}", "web", (1500, 3072), spec) for number in range(pods)]
    return to_problem(
        problems.scenario(some, [problems.pool("one"), problems.pool("two")], problems.instance_types())
    )


def shortage(seed: int) -> Mapping[str, int]:
    dice = random.Random(seed)
    commons = {f"{kind} vCPUs": dice.choice((0, 2, 5, 8, 12, 40)) for kind in ("on-demand", "spot")}
    commons |= {f"addresses in {zone}": dice.choice((0, 1, 2, 50)) for zone in problems.ZONES}
    return {name: left for name, left in commons.items() if dice.random() < 0.7}


@pytest.mark.parametrize("block", range(4))
def test_made_up_problems_keep_to_what_is_left(block: int) -> None:
    for seed in range(block * 15, block * 15 + 15):
        problem = drawing(to_problem(problems.random_scenario(seed)), shortage(seed))
        assert list(verify(problem, solve(problem, WORK))) == [], seed


def test_a_quota_ends_the_plan_and_is_reported() -> None:
    problem = drawing(plain(20), {"on-demand vCPUs": 9, "spot vCPUs": 0})
    plan = solve(problem, WORK)
    assert list(verify(problem, plan)) == []
    assert len(plan.unschedulable) == 20 - 5  # five such pods to eight vCPUs; a ninth is of no use
    assert {item.reason for item in plan.unschedulable} == {
        "not enough is left of on-demand vCPUs, spot vCPUs"
    }


def test_nothing_left_at_all_is_reported() -> None:
    problem = drawing(plain(3), {"on-demand vCPUs": 1, "spot vCPUs": 0})
    plan = solve(problem, WORK)
    assert not plan.claims
    assert plan.unschedulable[0].reason == "not enough is left of on-demand vCPUs, spot vCPUs"


def test_nodes_go_to_the_zones_that_have_addresses() -> None:
    commons = {"addresses in zone-a": 1, "addresses in zone-b": 0}
    problem = drawing(plain(20), commons)
    plan = solve(problem, WORK)
    assert list(verify(problem, plan)) == []
    assert not plan.unschedulable
    zones = [claim.zone for claim in plan.claims]
    assert zones.count("zone-a") <= 1
    assert "zone-b" not in zones


def test_plenty_changes_nothing() -> None:
    problem = plain(12)
    much = drawing(problem, {"on-demand vCPUs": 10_000, "addresses in zone-a": 4_000})
    assert solve(much, WORK) == solve(problem, WORK)


def test_pods_apart_count_as_nodes() -> None:
    problem = drawing(plain(12, rule="one per host"), {"on-demand vCPUs": 10, "spot vCPUs": 6})
    plan = solve(problem, WORK)
    assert list(verify(problem, plan)) == []
    assert len(plan.claims) == 8  # of two vCPUs each


def test_the_checker_sees_what_is_overdrawn() -> None:
    problem = plain(12)
    plan = solve(problem, WORK)
    short = drawing(problem, {"on-demand vCPUs": 3, "spot vCPUs": 3})
    assert any(item.rule == "commons" for item in verify(short, plan))
