"""How many nodes an attempt of the scheduler looks at, and which."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.model import labels
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.filters import feasible_nodes, unschedulable_message
from dovetail.model.selector import named_nodes, node_rule
from dovetail.simulate.scheduler.cluster import Cluster
from dovetail.simulate.scheduler.feasible import Feasibility, Nominations
from dovetail.simulate.scheduler.sampling import NodeList, enough


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        (0, 0),
        (1, 1),
        (99, 99),
        (100, 100),
        (124, 100),  # 50 % are 62
        (250, 120),  # 48 %
        (300, 144),
        (1000, 420),
        (5000, 500),
        (5624, 337),  # 6 %
        (5625, 281),  # 5 % from here on
        (15000, 750),
    ],
)
def test_how_many_are_enough(nodes: int, wanted: int) -> None:
    assert enough(nodes) == wanted


def listed(*steps: tuple[str, str]) -> list[str]:
    """After steps of (node, zone), zone "-" for a node that goes."""
    made = NodeList()
    for name, zone in steps:
        if zone == "-":
            made.drop(name)
        else:
            made.set(name, {labels.ZONE: zone} if zone else {})
    return list(made.names)


A3_B2_C1 = (("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a"), ("c1", "c"), ("b2", "b"))


@pytest.mark.parametrize(
    ("steps", "names"),
    [
        ((), ""),
        ((("x", ""), ("y", "")), "x y"),
        ((("y", ""), ("x", "")), "y x"),  # not by name
        (A3_B2_C1, "a1 b1 c1 a2 b2 a3"),
        ((*A3_B2_C1, ("b1", "-")), "a1 b2 c1 a2 a3"),
        ((*A3_B2_C1, ("a1", "-"), ("a1", "a")), "a2 b1 c1 a3 b2 a1"),
        ((*A3_B2_C1, ("c1", "-"), ("none", "-")), "a1 b1 a2 b2 a3"),
        ((*A3_B2_C1, ("c1", "-"), ("c2", "c")), "a1 b1 c2 a2 b2 a3"),
        ((*A3_B2_C1, ("a2", "a")), "a1 b1 c1 a2 b2 a3"),  # what is known changes nothing
        ((*A3_B2_C1, ("a1", "c")), "a2 b1 c1 a3 b2 a1"),
        ((("x", ""), ("a1", "a"), ("x", "a")), "a1 x"),
    ],
)
def test_zones_take_turns(steps: tuple[tuple[str, str], ...], names: str) -> None:
    assert listed(*steps) == names.split()


def test_a_zone_is_a_regions() -> None:
    made = NodeList()
    for number, region in enumerate(("r", "r", "s")):
        made.set(f"n{number}", {labels.REGION: region, labels.ZONE: "a"})
    assert made.names == ("n0", "n2", "n1")


def of_names(*values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": "metadata.name", "operator": operator, "values": list(values)}


EXISTS = {"key": "a", "operator": "Exists"}


@pytest.mark.parametrize(
    ("terms", "named"),
    [
        (None, None),
        ([{"matchFields": [of_names("x")]}], {"x"}),
        ([{"matchFields": [of_names("x", "y"), of_names("y", "z")]}], {"y"}),
        ([{"matchFields": [of_names("x")]}, {"matchFields": [of_names("y")]}], {"x", "y"}),
        ([{"matchFields": [of_names("x")]}, {"matchExpressions": [EXISTS]}], None),
        ([{"matchFields": [of_names("x", operator="NotIn")]}], None),
        ([{"matchFields": [of_names("x"), of_names("y")]}], set()),
    ],
)
def test_pods_that_name_their_nodes(terms: list[Any] | None, named: set[str] | None) -> None:
    assert named_nodes(node_rule(pod("p", terms))) == named


NOT_HELPFUL = (
    " no new claims to deallocate, "
    "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
)
NOT_MATCHED, NOT_NAMED = (
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't satisfy plugin(s) [NodeAffinity]",
)


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ([{"matchFields": [of_names("n0"), of_names("n1")]}], "pod affinity terms conflict. not found"),
        ([{"matchFields": [of_names("gone")]}], f"3 {NOT_NAMED}."),
        (
            [{"matchFields": [of_names("n0")], "matchExpressions": [EXISTS]}],
            f"1 {NOT_MATCHED}, 2 {NOT_NAMED}.",
        ),
        (
            [{"matchFields": [of_names("n0"), of_names("n0", operator="NotIn")]}],
            f"1 {NOT_MATCHED}, 2 {NOT_NAMED}.",
        ),
        (
            [{"matchFields": [of_names("n0", operator="NotIn")], "matchExpressions": [EXISTS]}],
            f"3 {NOT_MATCHED}.",
        ),
        ([{}, {"matchFields": [of_names("gone")]}], f"3 {NOT_MATCHED}."),
        (
            [{"matchFields": [of_names("n2")]}],
            f"1 Insufficient cpu, 2 {NOT_NAMED}.",
        ),
    ],
)
def test_what_is_said_of_nodes_that_a_pod_does_not_name(terms: list[Any], told: str) -> None:
    """As a real scheduler (1.36.3) wrote it."""
    amounts = ("2", "2", "500m")
    nodes = [
        decode(
            {"metadata": {"name": f"n{index}"}, "status": {"allocatable": {"cpu": cpu, "pods": "9"}}}, Node
        )
        for index, cpu in enumerate(amounts)
    ]
    view = ClusterView(nodes=[NodeView.of(node) for node in nodes])
    asked = pod("p", terms)
    ending = "" if told.endswith("not found") else NOT_HELPFUL
    assert feasible_nodes(asked, view) == []
    assert unschedulable_message(asked, view) == f"0/3 nodes are available: {told}{ending}"


def pod(name: str, terms: list[Any] | None = None) -> Pod:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec: dict[str, Any] = {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}
    if terms is not None:
        spec["affinity"] = {"nodeAffinity": required}
    meta = {"name": name, "namespace": "default", "uid": name}
    return decode({"metadata": meta, "spec": spec}, Pod)


def of_size(count: int, full: frozenset[int] = frozenset()) -> tuple[Cluster, Feasibility]:
    """Nodes n000 and so on, some of them without room."""
    made = Cluster()
    for number in range(count):
        room = {"cpu": "0" if number in full else "9", "memory": "1Gi", "pods": "9"}
        name = f"n{number:03}"
        made.set_node(decode({"metadata": {"name": name}, "status": {"allocatable": room}}, Node))
    made.check()
    return made, Feasibility(made, Nominations(made.view))


def places(feasibility: Feasibility, *asked: Pod) -> list[list[int]]:
    """Per attempt the numbers of the nodes that it found."""
    return [[int(node.name[1:]) for node in feasibility.judge(one).nodes] for one in asked]


def test_each_attempt_goes_on_where_the_last_one_ended() -> None:
    _, small = of_size(99)
    assert places(small, pod("p"), pod("q")) == [[*range(99)]] * 2
    _, large = of_size(150)
    first, second, third = places(large, pod("p"), pod("q"), pod("r"))
    assert first == [*range(100)]
    assert second == [*range(50), *range(100, 150)]
    assert third == [*range(50, 150)]


def test_nodes_without_room_are_passed_over_and_count_as_looked_at() -> None:
    _, it = of_size(240, frozenset(range(0, 240, 2)))
    first, second = places(it, pod("p"), pod("q"))
    assert first == [*range(1, 234, 2)]  # 117 of 240, 49 %; the search ends at the next that would do, 235
    assert second == [*range(1, 228, 2), *range(235, 240, 2)]


def test_where_fewer_have_room_all_are_looked_at() -> None:
    _, it = of_size(150, frozenset(range(60, 150)))
    assert places(it, pod("p"), pod("q")) == [[*range(60)]] * 2


def test_a_pod_that_names_its_nodes_moves_the_search_on_by_as_many() -> None:
    _, it = of_size(150)
    named = pod("named", [{"matchFields": [of_names("n007", "n140", "gone")]}])
    assert places(it, named, pod("p")) == [[7, 140], [*range(2, 102)]]


def test_a_nominated_node_is_tried_before_the_search_which_stays_where_it_is() -> None:
    made, it = of_size(150)
    nominated = decode({"metadata": {"name": "x", "uid": "x"}, "status": {"nominatedNodeName": "n149"}}, Pod)
    assert places(it, nominated, pod("p")) == [[149], [*range(100)]]
    made.drop_node("n149")
    assert places(it, nominated) == [[*range(51), *range(100, 149)]]


def test_a_pod_that_no_node_may_take_is_told_of_all() -> None:
    _, it = of_size(150, frozenset(range(150)))
    verdict = it.judge(pod("p"))
    assert verdict.message.startswith("0/150 nodes are available: 150 Insufficient cpu.")
    named = it.judge(pod("named", [{"matchFields": [of_names("n007")]}]))
    assert named.message.startswith(
        "0/150 nodes are available: 1 Insufficient cpu, 149 node(s) didn't satisfy"
    )


def test_what_is_known_of_nodes_is_what_the_filters_say_of_them() -> None:
    """After each of many changes, for pods of four kinds: what is remembered, and filters asked anew."""
    draw = random.Random(7)
    made = Cluster()
    nominations = Nominations(made.view)
    it = Feasibility(made, nominations)
    names = [f"n{number}" for number in range(12)]
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    pods = [
        decode(
            {
                "metadata": {
                    "name": f"p{n}",
                    "namespace": "default",
                    "uid": f"p{n}",
                    "labels": {"app": "ab"[n % 2]},
                },
                "spec": {
                    "containers": [{"resources": {"requests": {"cpu": "12"[n % 4 // 2]}}}],
                    "topologySpreadConstraints": [spread] if n % 2 else [],
                },
            },
            Pod,
        )
        for n in range(40)
    ]
    bound: set[str] = set()
    outcomes = set[str]()
    for _ in range(600):
        number, name = draw.randrange(len(pods)), draw.choice(names)
        pod = pods[number]
        match draw.randrange(6):
            case 0:
                status = {"allocatable": {"cpu": str(draw.randrange(4)), "pods": "3"}}
                meta = {"name": name, "labels": {"zone": draw.choice("xyz")}}
                made.set_node(decode({"metadata": meta, "status": status}, Node))
            case 1 if len(made.view.nodes) > 6:
                made.drop_node(name)
            case 2 if pod.key not in bound:
                place = draw.choice([name, ""])
                pod = pods[number] = replace(pod, status=replace(pod.status, nominated_node_name=place))
                nominations.set(pod, place)
            case 3 | 4 if pod.key not in bound and name in made.view.nodes:
                nominations.drop(pod.metadata.uid)
                made.bind(pod, name)
                bound.add(pod.key)
            case _:
                made.unbind(pod.key)
                bound.discard(pod.key)
        for asked in draw.sample(pods, 4):
            if asked.key in bound:
                continue
            found, ahead = it.judge(asked), partial(nominations.ahead_of, asked)
            wanted = feasible_nodes(asked, made.view, ahead)
            if (own := asked.status.nominated_node_name) in wanted:
                wanted = [own]  # no other is looked at
            assert [node.name for node in found.nodes] == wanted
            assert found.message == ("" if wanted else unschedulable_message(asked, made.view, ahead))
            outcomes.add(found.message)
    assert len(outcomes) > 30, "all of it was alike"
