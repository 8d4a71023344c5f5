"""Plans that are made for the order of the scheduler's queue, and whether that is worth it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_openings import played, refitted

from dovetail.controllers.provisioning.by_queue import BIASES, ByQueue, Followed
from dovetail.controllers.provisioning.openings import FEW_PODS, MOST_PODS, Filled, Openings, one_by_one
from dovetail.controllers.provisioning.planned import planned_node
from dovetail.model import labels
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.offering import Offering
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, Problem
from dovetail.solve.solver import solve
from dovetail.testing.problems import Document, instance_types, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

RULES = rules("web", "api")


def asked(pods: list[Document], limits: Document | None = None) -> Problem:
    return to_problem(scenario(pods, [pool("general", limits=limits)], instance_types()))


def unlike(number: int, rule: Document) -> list[Document]:
    """Pods that ask for CPUs, and then as many that ask for memory: a cheap plan mixes them."""
    web = [pod(f"a-{n:03}", "web", (1700, 256), rule) for n in range(number)]
    return [*web, *(pod(f"b-{n:03}", "api", (100, 3500), {}) for n in range(number))]


def plan_of(problem: Problem) -> Plan:
    return solve(problem, Budget(work=100_000))


def by_queue(problem: Problem) -> ByQueue:
    pods = {one.key: one for one in problem.pods}
    return ByQueue(problem, ClusterView(()), problem.pods, plan_of(problem).claims, pods)


def opened(problem: Problem, found: Followed | Plan) -> Filled:
    """What becomes of the pods when the nodes open in the order of the claims."""
    pods = {one.key: one for one in problem.pods}
    nodes = [planned_node(problem, one, pods) for one in found.claims]
    view = ClusterView(map(NodeView.planned, nodes))
    names = [node.name for node in nodes]
    return Openings(view, problem.pods, names).play(one_by_one(names))


@pytest.mark.parametrize(
    "rule",
    ["plain", "spread over zones", "spread over hosts", "one per host", "all in one zone", "in zone-a"],
)
def test_a_plan_by_the_queue_has_a_place_for_each_pod_when_its_nodes_open(rule: str) -> None:
    problem = asked(unlike(12, RULES[rule]))
    drawing = by_queue(problem)
    for number in range(len(BIASES) + 1):
        found = drawing.draw(number)
        assert found is not None
        assert found.at.keys() == {one.key for one in problem.pods}
        assert set(found.at.values()) == {one.name for one in found.claims}
        assert not opened(problem, found).left
        assert drawing.draw(number) == found


def test_nothing_is_bought_that_pools_and_quotas_do_not_allow() -> None:
    problem = asked(unlike(12, {}))
    assert by_queue(problem).draw(0) is not None
    assert by_queue(replace(problem, pools=asked([], {"cpu": "8"}).pools)).draw(0) is None

    def drawing(one: Offering) -> Offering:
        return replace(one, draws=(("vcpus", 8),))

    pools = tuple(
        replace(
            one,
            instance_types=tuple(
                replace(kind, offerings=tuple(map(drawing, kind.offerings))) for kind in one.instance_types
            ),
        )
        for one in problem.pools
    )
    assert by_queue(replace(problem, pools=pools, commons={"vcpus": 1_000})).draw(0) is not None
    assert by_queue(replace(problem, pools=pools, commons={"vcpus": 8})).draw(0) is None


@pytest.mark.parametrize("rule", ["plain", "spread over zones", "in zone-a", "all in one zone"])
def test_for_many_pods_that_ask_for_unlike_things_nodes_are_bought_by_the_queue(rule: str) -> None:
    problem = asked(unlike(FEW_PODS // 2 + 10, RULES[rule]))
    found = refitted(problem, plan_of(problem))
    assert not verify(problem, found)
    assert sorted(key for one in found.claims for key in one.pods) == sorted(one.key for one in problem.pods)
    assert not played(problem, found).left


def test_claims_are_in_the_zone_that_their_pods_must_be_in() -> None:
    """What a claim was made for may say nothing of zones."""
    problem = asked(unlike(FEW_PODS // 2 + 10, RULES["in zone-a"]))
    found = refitted(problem, plan_of(problem))
    for claim in found.claims:
        if any(key.startswith("default/a-") for key in claim.pods):
            zones = claim.requirements.get(labels.ZONE)
            assert zones is not None
            assert zones.values == {"zone-a"}


def test_nodes_that_are_filled_alike_open_at_once_and_others_in_turn() -> None:
    """Evened out over all nodes, the small ones would leave no room for the large ones."""
    pods = [pod(f"a-{n:03}", "web", (900, 512), {}) for n in range(FEW_PODS)]
    problem = asked([*pods, *(pod(f"b-{n:02}", "api", (3600, 512), {}) for n in range(40))])
    found = refitted(problem, plan_of(problem))
    turns = [one.opens for one in found.claims]
    assert turns == sorted(turns)
    assert 1 < len(set(turns)) < len(turns)
    assert not played(problem, found).left


def test_many_nodes_open_at_once_where_that_costs_less() -> None:
    """In turn the first nodes are full of what need not be spread, and the others hold one pod each."""
    pods = [pod(f"a-{n:03}", "api", (900, 512), {}) for n in range(FEW_PODS)]
    pods += [pod(f"b-{n:03}", "web", (900, 512), RULES["spread over hosts"]) for n in range(40)]
    problem = asked(pods)
    found = refitted(problem, plan_of(problem))
    assert not verify(problem, found)
    turns = [one.opens for one in found.claims]
    assert turns.count(1) > 30
    assert sorted(set(turns)) == list(range(1, max(turns) + 1))
    assert not played(problem, found).left


def test_of_so_many_pods_that_orders_are_not_played_all_nodes_of_the_plan_open_at_once() -> None:
    problem = asked(unlike(MOST_PODS // 2 + 10, {}))
    plan = plan_of(problem)
    found = refitted(problem, plan)
    assert not verify(problem, found)
    assert found.cost.hourly >= plan.cost.hourly
    assert [one.opens for one in found.claims].count(1) > len(found.claims) // 2
    assert not played(problem, found).left
