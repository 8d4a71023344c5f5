"""What becomes of plans when the scheduler places their pods."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, Problem
from dovetail.simulate.scheduler.forecast import Forecast, forecast
from dovetail.solve.solver import solve
from dovetail.testing.problems import Document, instance_types, node, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem

RULES = rules("web", "api")


def asked(pods: list[Document], *, nodes: tuple[Document, ...] = ()) -> tuple[Problem, Plan]:
    problem = to_problem(scenario(pods, [pool("general")], instance_types(), nodes=list(nodes)))
    plan = solve(problem, Budget(work=100_000))
    assert not plan.unschedulable
    return problem, plan


def mixed(rule: Document) -> list[Document]:
    """Pods of two applications, of which one has a rule."""
    sizes = ((1700, 1024), (250, 512), (900, 3072), (250, 512), (900, 3072), (250, 512))
    web = [pod(f"web-{number}", "web", size, rule) for number, size in enumerate(sizes)]
    return [*web, *(pod(f"api-{number}", "api", (500, 512), {}) for number in range(4))]


def played(problem: Problem, plan: Plan, **options: Any) -> Forecast:
    found = forecast(problem, plan, **options)
    assert found is not None
    return found


def test_pods_that_are_nominated_go_where_the_plan_put_them() -> None:
    problem, plan = asked(mixed({}))
    found = played(problem, plan)
    assert found.least == found.expected == found.most == plan.cost.hourly
    assert found.here >= 0.9
    assert set(found.causes.values()) <= {"taint"}  # room that is free takes pods whose node is not up


def test_without_nominations_nodes_open_in_an_order_in_which_large_pods_find_room() -> None:
    small = [pod(f"small-{number}", "web", (1700, 1024), {}) for number in range(6)]
    problem, plan = asked([*small, *(pod(f"large-{number}", "api", (6500, 1024), {}) for number in range(2))])
    alone, nominated = played(problem, plan, nominate=False), played(problem, plan)
    assert nominated.most == alone.most == plan.cost.hourly
    assert alone.here < nominated.here == 1.0


def test_without_nominations_small_pods_take_the_room_of_large_ones_on_nodes_that_are_there() -> None:
    small = [pod(f"small-{number}", "web", (1700, 1024), {}) for number in range(2)]
    problem, plan = asked([*small, pod("large", "api", (6500, 1024), {})], nodes=(node("old", "zone-a", 8),))
    meant = replace(plan, existing={"old": ("default/large",)}, claims=plan.claims)
    assert plan.existing == meant.existing
    alone = played(problem, plan, nominate=False)
    assert alone.most > plan.cost.hourly
    assert any("large" in key for one in alone.outcomes for key in one.left)


@pytest.mark.parametrize("nominate", [True, False])
@pytest.mark.parametrize("name", [name for name in RULES if name != "not in the zone of another app"])
def test_every_pod_of_the_plan_is_accounted_for(name: str, nominate: bool) -> None:
    problem = to_problem(scenario(mixed(RULES[name]), [pool("general")], instance_types()))
    plan = solve(problem, Budget(work=100_000))
    found = played(problem, plan, nominate=nominate, tries=3)
    placed = {key for one in plan.claims for key in one.pods}
    for one in found.outcomes:
        assert one.here + len(one.elsewhere) == len(placed)
        assert set(one.left) <= set(one.elsewhere) <= placed
        assert set(one.stranded) <= set(one.left)
        more = one.hourly > plan.cost.hourly
        assert (
            more == (len(one.stranded) < len(one.left)) if nominate else one.hourly >= plan.cost.lower_bound
        )
    assert played(problem, plan, nominate=nominate, tries=3) == found


def test_causes_name_what_the_scheduler_would_not_do() -> None:
    low = pod("low", "web", (3000, 512), {})
    high = pod("high", "api", (3000, 512), {"priority": 100})
    problem, plan = asked([low, high], nodes=(node("old", "zone-a", 4),))
    claims = tuple(replace(one, pods=("default/high",)) for one in plan.claims)
    meant = Plan(claims=claims, existing={"old": ("default/low",)}, cost=plan.cost)
    found = played(problem, meant, nominate=False, tries=1)
    assert found.causes == {"default/high": "taint", "default/low": "priority"}


def test_a_pod_that_is_spread_too_early_is_marked_so() -> None:
    zones = tuple(node(f"old-{zone[-1]}", zone, 4) for zone in ("zone-a", "zone-b"))
    pods = [pod(f"web-{number}", "web", (500, 512), RULES["spread over zones"]) for number in range(9)]
    problem, plan = asked(pods, nodes=zones)
    found = played(problem, plan)
    assert set(Counter(found.causes.values())) <= {"spread", "score", "taint"}


def test_a_forecast_ends_with_its_time() -> None:
    problem, plan = asked(mixed({}))
    assert forecast(problem, plan, over=lambda: True) is None
    calls = iter(range(1_000))
    found = played(problem, plan, over=lambda: next(calls) > 80)
    assert 1 <= len(found.outcomes) < 5
