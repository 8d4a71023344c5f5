"""Which domains of a spread a bound counts, and what is proven if only those with nodes count."""

from __future__ import annotations

from dovetail.explain.pod import never
from dovetail.explain.spread_domains import as_seen
from dovetail.model.problem import Budget, Problem
from dovetail.solve.solver import solve
from dovetail.testing.problems import ZONES, Document, instance_types, node, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem

WORK = Budget(work=100_000)


def asked(rule: str, nodes: list[Document] | None = None, pods: int = 3) -> Problem:
    spec = rules("web", "api")[rule]
    waiting = [pod(f"web-{number}", "web", (1700, 3072), spec) for number in range(pods)]
    return to_problem(scenario(waiting, [pool("general")], instance_types(), nodes=nodes))


def test_zones_without_nodes_make_a_difference() -> None:
    """Three pods in three zones take three nodes. In one zone, which the scheduler takes, they share one."""
    problem = asked("spread over zones")
    plan = solve(problem, WORK)
    found = as_seen(problem, plan, never)
    together = solve(asked("plain"), WORK)
    assert found.counted
    assert found.bound is not None
    assert found.bound <= together.cost.hourly < plan.cost.lower_bound


def test_hosts_that_could_be_bought_make_a_difference() -> None:
    problem = asked("spread over hosts", pods=2)
    plan = solve(problem, WORK)
    found = as_seen(problem, plan, never)
    assert found.counted
    assert found.bound is not None
    assert found.bound <= plan.cost.lower_bound


def test_where_every_zone_has_a_node_both_are_the_same() -> None:
    full = [node(f"node-{zone}", zone, 1) for zone in ZONES]
    problem = asked("spread over zones", full)
    plan = solve(problem, WORK)
    assert plan.claims
    found = as_seen(problem, plan, never)
    assert not found.counted
    assert found.bound == plan.cost.lower_bound


def test_a_proof_without_spreads_holds_for_either() -> None:
    problem = asked("plain")
    plan = solve(problem, WORK)
    found = as_seen(problem, plan, never)
    assert (found.counted, found.bound) == (False, plan.cost.lower_bound)


def test_without_time_nothing_is_said() -> None:
    problem = asked("spread over zones")
    plan = solve(problem, WORK)
    found = as_seen(problem, plan, lambda: True)
    assert found.counted
    assert found.bound is None
