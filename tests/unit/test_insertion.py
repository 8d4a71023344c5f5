"""Pods that are left over join the nodes that are bought, or get one more, as far as rules and limits go."""

from __future__ import annotations

import pytest

from dovetail.model import labels
from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.testing.problems import Document, instance_types, node, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

SMALL = (900, 1_024)


def left_over(document: Document, *, work: int = 20_000) -> int:
    """How many pods a correct plan leaves over."""
    problem = to_problem(document)
    plan = solve(problem, Budget(work=work))
    assert verify(problem, plan) == ()
    return len(plan.unschedulable)


def pods(
    app: str, count: int, rule: str, *, size: tuple[int, int] = SMALL, other: str = "db"
) -> list[Document]:
    return [pod(f"{app}-{number}", app, size, rules(app, other)[rule]) for number in range(count)]


@pytest.mark.parametrize(
    ("rule", "count", "left"),
    [
        ("rather one per host", 6, 0),  # given up by those that get no host of their own
        ("rather spread over zones", 6, 0),
        ("one per host", 3, 1),
        ("spread over hosts", 7, 0),  # no third host can be bought: the two are as full as each other
    ],
)
def test_nodes_that_are_bought_grow_within_limits(rule: str, count: int, left: int) -> None:
    document = scenario(pods("web", count, rule), [pool("general", limits={"nodes": "2"})], instance_types())
    assert left_over(document) == left


def test_pods_give_up_who_they_would_rather_be_near() -> None:
    """Those have no place at all."""
    near = pods("web", 4, "rather in the zone of another app", other="api", size=(250, 512))
    far = pods("api", 2, "plain", size=(9_000, 512))
    document = scenario([*near, *far], [pool("general")], instance_types())
    assert left_over(document) == 2


def test_a_pool_that_may_buy_nothing_is_no_place() -> None:
    wish = rules("web", "db")["rather on demand"]
    some = [pod(f"web-{number}", "web", SMALL, wish) for number in range(3)]
    there = node("node-0", "zone-a", 4)
    there["metadata"]["labels"][labels.CAPACITY_TYPE] = "spot"
    document = scenario(some, [pool("general", limits={"cpu": "1"})], instance_types(), nodes=[there])
    assert left_over(document) == 0


@pytest.mark.parametrize("cpus", [1, 4])
def test_pods_that_others_must_be_near_leave_nodes_that_are_too_small_for_both(cpus: int) -> None:
    anchors = pods("web", 3, "rather spread over zones", size=(250, 512))
    followers = pods("api", 2, "on the host of another app", other="web", size=(3_000, 4_096))
    there = node("node-0", "zone-a", cpus)
    document = scenario([*anchors, *followers], [pool("general")], instance_types(), nodes=[there])
    assert left_over(document, work=100_000) == 0
