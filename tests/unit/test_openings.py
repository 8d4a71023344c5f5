"""In which order nodes open where nothing is nominated, and plans that are made for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.api.core import Taint
from dovetail.controllers.provisioning.openings import (
    PLAYS,
    Filled,
    Openings,
    one_by_one,
    planned_first,
)
from dovetail.controllers.provisioning.planned import planned_node
from dovetail.controllers.provisioning.refit import Refit
from dovetail.model import labels
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.plan import Plan
from dovetail.model.problem import Budget, ExistingNode, Problem
from dovetail.model.requirement import Requirement
from dovetail.model.resources import CPU, MEMORY, PODS, pod_requests, total
from dovetail.solve.solver import solve
from dovetail.testing.problems import Document, daemon_set, instance_types, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

GIB = 1024**3
RULES = rules("web", "api")


def asked(pods: list[Document]) -> Problem:
    return to_problem(scenario(pods, [pool("general")], instance_types()))


def openings(pods: list[Document], cpus: dict[str, int]) -> tuple[Openings, ClusterView]:
    """Closed nodes of so many CPUs in one zone, and the pods in their order."""
    rooms = {name: {CPU: 1000 * many, MEMORY: 64 * GIB, PODS: 20} for name, many in cpus.items()}
    nodes = [ExistingNode(name, {labels.ZONE: "zone-a"}, (), room, room) for name, room in rooms.items()]
    view = ClusterView(map(NodeView.planned, nodes))
    return Openings(view, asked(pods).pods, cpus), view


def small_and_large() -> list[Document]:
    """Five pods of 2 CPUs, whose turn comes first, and one of 4."""
    small = [pod(f"a-{number}", "web", (2000, 512), {}) for number in range(5)]
    return [*small, pod("b-large", "api", (4000, 512), {})]


@pytest.mark.parametrize(
    ("order", "left"),
    [
        (("six", "eight"), []),
        (("eight", "six"), []),
        (("six",), ["default/a-3", "default/a-4", "default/b-large"]),
    ],
)
def test_what_becomes_of_pods_hangs_on_which_nodes_open(order: tuple[str, ...], left: list[str]) -> None:
    made, _ = openings(small_and_large(), {"six": 6, "eight": 8})
    found = made.play(one_by_one(order))
    assert [one.key for one in found.left] == left
    assert len(found.at) + len(found.left) == 6
    assert (found.weight == 0) == (not left)


def test_nodes_without_a_pod_for_them_open_with_the_first_that_has_one() -> None:
    large = [pod("large", "web", (4000, 512), {})]
    made, _ = openings(large, {"one": 1, "two": 2, "eight": 8, "six": 6})
    assert made.play(one_by_one(("two", "one", "eight", "six"))).order == (("two", "one", "eight"), ("six",))


def test_a_node_that_has_a_pod_once_another_is_open_opens_with_that_one() -> None:
    """Or the scheduler would be waited for, as if it had come to none of the pods yet."""
    follower = pod("follower", "web", (2000, 512), RULES["in the zone of another app"])
    made, _ = openings([follower, pod("large", "api", (4000, 512), {})], {"two": 2, "four": 4, "six": 6})
    found = made.play(one_by_one(("two", "four", "six")))
    assert found.at == {"default/large": "four", "default/follower": "two"}
    assert found.idle == {"two", "six"}
    assert found.order == (("two", "four"), ("six",))


def test_pods_that_a_rule_about_others_refused_are_tried_again_when_one_of_those_is_bound() -> None:
    """They come after all others then."""
    follower = pod("follower", "web", (2000, 512), RULES["on the host of another app"])
    others = [pod("api", "api", (2000, 512), {}), pod("cache", "cache", (2000, 512), {})]
    made, _ = openings([follower, *others], {"three": 3, "two": 2})
    found = made.play((("three",),))
    assert found.at == {"default/api": "three"}
    assert [one.key for one in found.left] == ["default/cache", "default/follower"]
    wide, _ = openings([follower, *others], {"six": 6})
    assert [*wide.play((("six",),)).at] == ["default/api", "default/cache", "default/follower"]


def test_pods_of_a_higher_priority_come_first() -> None:
    high = pod("b-large", "api", (4000, 512), {"priority": 10})
    made, _ = openings([*small_and_large()[:5], high], {"four": 4, "eight": 8})
    assert made.play(one_by_one(("four", "eight"))).at["default/b-large"] == "four"


@given(
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=12),
    cpus=st.lists(st.integers(2, 12), min_size=1, max_size=5),
    rule=st.sampled_from(["plain", "spread over hosts", "spread over zones"]),
)
def test_a_search_only_gets_better_and_leaves_the_view_as_it_was(
    sizes: list[int], cpus: list[int], rule: str
) -> None:
    pods = [pod(f"web-{n:02}", "web", (500 * size, 256), RULES[rule]) for n, size in enumerate(sizes)]
    made, view = openings(pods, {f"n{number}": many for number, many in enumerate(cpus)})
    found = list[Filled](made.search(plays=20))
    assert 1 <= len(found) <= 20 < PLAYS
    weights = [one.weight for one in found]
    assert weights == sorted(weights, reverse=True)
    for one in found:
        assert sorted(one.turns) == sorted(made.closed)
        assert {*one.at} | {left.key for left in one.left} == {
            f"default/web-{n:02}" for n in range(len(sizes))
        }
    view.check()
    assert not any(node.pods for node in view.nodes.values())
    assert found == list(made.search(plays=20))


def test_the_given_order_comes_first() -> None:
    made, _ = openings(small_and_large(), {"six": 6, "eight": 8, "four": 4})
    assert next(made.search(("eight", "gone", "six"))).turns == ("eight", "six", "four")


def test_nodes_that_open_at_once_are_filled_evenly_and_others_after_them() -> None:
    made, _ = openings(small_and_large(), {"six": 6, "eight": 8, "four": 4})
    found = made.play((("eight", "six"), ("four",)))
    assert [found.at[f"default/a-{n}"] for n in range(4)].count("six") == 2
    assert found.at["default/b-large"] == "four"
    assert not found.left
    assert found.order == (("eight", "six"), ("four",))
    assert made.play(one_by_one(("eight", "six", "four"))).at["default/a-1"] == "eight"


def test_which_nodes_were_planned_to_open_first() -> None:
    assert planned_first({"a": 1, "b": 2, "c": 1, "d": 0}) == ("a", "c")
    assert planned_first({"a": 3, "b": 2}) == ("b",)
    assert planned_first({"a": 0}) == planned_first({}) == ()


def refitted(problem: Problem, plan: Plan) -> Plan:
    async def ask(question: Problem, work: int) -> Plan:
        return solve(question, Budget(work=work * 50_000))

    async def pause() -> None:
        await asyncio.sleep(0)

    return asyncio.run(Refit(problem, [one.key for one in problem.pods], ask, pause).better(plan))


def test_a_planned_node_is_in_the_partition_that_its_claim_asks_for() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": labels.PARTITION,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    rule = {"topologySpreadConstraints": [spread]}
    problem = asked([pod(f"a-{n}", "web", (250, 512), rule) for n in range(6)])
    partitions = Requirement.new(labels.PARTITION, "In", ("1", "2", "3"))
    (known,) = problem.pools
    kinds = tuple(
        replace(kind, requirements=kind.requirements.add(partitions)) for kind in known.instance_types
    )
    sold = replace(known, requirements=known.requirements.add(partitions), instance_types=kinds)
    options = replace(problem.options, well_known=problem.options.well_known | {labels.PARTITION})
    problem = replace(problem, pools=(sold,), options=options)
    plan = solve(problem, Budget(work=10_000))
    pods = {one.key: one for one in problem.pods}
    found: Counter[str] = Counter()
    for claim in plan.claims:
        found[planned_node(problem, claim, pods).labels[labels.PARTITION]] += len(claim.pods)
    assert found == {"1": 2, "2": 2, "3": 2}


def played(problem: Problem, plan: Plan, beyond: int = 0) -> Filled:
    """With so many thousandths of their memory more on nodes than planned."""
    pods = {one.key: one for one in problem.pods}
    nodes = [planned_node(problem, one, pods) for one in plan.claims]
    for number, node in enumerate(nodes):
        memory = node.allocatable[MEMORY] + node.capacity[MEMORY] * beyond // 1_000
        nodes[number] = replace(node, allocatable={**node.allocatable, MEMORY: memory})
    made = Openings(ClusterView(map(NodeView.planned, nodes)), problem.pods, [node.name for node in nodes])
    turns = groupby(plan.claims, lambda one: one.opens or one.name)
    return made.play(tuple(tuple(one.name for one in some) for _, some in turns))


@pytest.mark.parametrize(
    "rule", ["plain", "spread over zones", "not on the host of another app", "spread over hosts"]
)
def test_a_plan_is_made_for_the_order_in_which_its_nodes_are_filled(rule: str) -> None:
    sizes = ((1700, 1024), (250, 512), (900, 3072), (250, 512), (900, 3072), (1250, 512))
    web = [pod(f"a-{n:02}", "web", sizes[n % 6], RULES[rule]) for n in range(14)]
    problem = asked([*web, *(pod(f"b-{n}", "api", (6500, 1024), {}) for n in range(3))])
    plan = solve(problem, Budget(work=100_000))
    found = refitted(problem, plan)
    assert not verify(problem, found)
    assert found.cost.lower_bound <= plan.cost.lower_bound <= found.cost.hourly
    assert sorted(key for one in found.claims for key in one.pods) == sorted(one.key for one in problem.pods)
    assert refitted(problem, plan) == found
    if rule == "plain":
        assert not played(problem, found).left


def test_a_plan_has_room_for_what_a_little_more_memory_on_its_nodes_shuts_out() -> None:
    """Of fourteen pods seven are planned onto each of two nodes, beside one of more CPUs; with 60 MiB more
    eight fit on the first.
    """
    web = [pod(f"a-{number:02}", "web", (900, 4066), {}) for number in range(14)]
    problem = asked([*web, *(pod(f"b-{number}", "api", (1500, 256), {}) for number in range(2))])
    plan = solve(problem, Budget(work=100_000))
    assert [one.key for one in played(problem, plan, 10).left] == ["default/b-1"]
    found = refitted(problem, plan)
    assert not verify(problem, found)
    assert [len(played(problem, found, beyond).left) for beyond in (0, 3, 8, 15)] == [0, 0, 0, 0]


def test_what_is_clear_stays_as_it_is() -> None:
    problem = asked([pod("web", "web", (500, 512), {})])
    plan = solve(problem, Budget(work=20_000))
    assert refitted(problem, plan) is plan


def test_nodes_that_are_closed_already_are_opened_in_a_play_alike() -> None:
    made, view = openings(small_and_large(), {"six": 6, "eight": 8})
    assert all(
        Taint(key="dovetail.dev/opening", effect="NoSchedule") in n.taints for n in view.nodes.values()
    )
    assert not made.play(one_by_one(("six", "eight"))).left


def test_what_a_plan_becomes_has_its_daemons_and_says_in_which_order_its_nodes_open() -> None:
    """A node that is there keeps no more room for daemons than those that it has take."""
    pods = [pod(f"web-{n:02}", "web", (1700, 1024), {}) for n in range(12)]
    pods += [pod(f"big-{n}", "api", (6500, 1024), {}) for n in range(3)]
    agents = [daemon_set("agent", (200, 256)), daemon_set("mesh", (100, 128))]
    problem = to_problem(scenario(pods, [pool("general")], instance_types()) | {"daemonSets": agents})
    plan = refitted(problem, solve(problem, Budget(work=100_000)))
    assert [one.opens for one in plan.claims] == list(range(1, len(plan.claims) + 1))
    kinds = {one.name: one for one in problem.pools[0].instance_types}
    for claim in plan.claims:
        node = planned_node(problem, claim, {one.key: one for one in problem.pods})
        assert node.allocatable == kinds[claim.instance_type].allocatable()
        assert total(map(pod_requests, node.pods)) == {CPU: 300, MEMORY: 384 * GIB // 1024, PODS: 2}
        rest = pod("rest", "rest", (node.allocatable[CPU] - 300, 256), {})
        found = solve(replace(problem, pods=asked([rest]).pods, nodes=(node,)), Budget(work=10_000))
        assert found.existing == {claim.name: ("default/rest",)}
