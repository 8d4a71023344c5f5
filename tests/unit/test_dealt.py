"""Pods that are alike and must be spread over zones are dealt out over the nodes of their zone."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
import test_even
from hypothesis import given, settings
from hypothesis import strategies as st
from test_even import OPEN, plain, problem, where
from test_order import node, pod, spread

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.meta import OwnerReference
from dovetail.api.workloads import DaemonSet
from dovetail.controllers.provisioning import dealt as module
from dovetail.controllers.provisioning.dealt import dealt
from dovetail.model.labels import CAPACITY_TYPE, HOSTNAME, NODEPOOL, ZONE
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Budget, Problem
from dovetail.model.requirement import Requirements
from dovetail.model.resources import fits, pod_requests, total
from dovetail.solve.solver import solve
from dovetail.verify import verify

ROOM = 7_920  # milli-CPUs that a node has for pods
SPREAD = spread(ZONE)


def bought(name: str, zone: str, *pods: Pod) -> PlannedClaim:
    """A node to buy in that zone and no other."""
    claim = test_even.bought(name, zone, *pods)
    return replace(claim, requirements=Requirements.from_labels({ZONE: zone}))


def owned(one: Pod, owner: str) -> Pod:
    """The pod as a ReplicaSet of that name made it."""
    reference = OwnerReference(
        api_version="apps/v1", kind="ReplicaSet", name=owner, uid=owner, controller=True
    )
    meta = msgspec.structs.replace(one.metadata, owner_references=(reference,))
    return msgspec.structs.replace(one, metadata=meta)


def webs(names: str, *rules: dict[str, Any], app: str = "web", cpu: str = "1", **spec: Any) -> list[Pod]:
    """Pods of one-letter names that are alike; the rule is a spread over zones unless others are given."""
    made = [owned(pod(name, *(rules or (SPREAD,)), app=app, cpu=cpu), app) for name in names]
    return [msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, **spec)) for one in made]


def counts(plan: Plan, letters: str) -> str:
    """How many of these pods each claim has, in order."""
    return " ".join(str(sum(key.removeprefix("d/") in letters for key in one.pods)) for one in plan.claims)


def clumped(*pods: Pod, first: str = "abcdef", **more: Any) -> tuple[Problem, Plan]:
    """Two nodes of one zone: those of the names in `first` are on the first one."""
    here = [one for one in pods if one.metadata.name in first]
    rest = [one for one in pods if one.metadata.name not in first]
    plan = Plan(claims=(bought("one", "a", *here), bought("two", "a", *rest)))
    return problem(*pods, **more), plan


def test_half_of_them_go_where_there_is_room() -> None:
    asked, plan = clumped(*webs("abcdef"))
    found = dealt(asked, plan)
    assert counts(found, "abcdef") == "3 3"
    pods = {one.key: one for one in asked.pods}
    for one in found.claims:
        assert one.requests == total(pod_requests(pods[key]) for key in one.pods)
        assert one.pods == tuple(sorted(one.pods))
    assert replace(found, claims=()) == replace(plan, claims=())


def test_full_nodes_exchange_pods_of_as_much() -> None:
    """Two of half a CPU for one of a whole one, but for the last: both nodes have 0.92 CPUs left."""
    others = [owned(plain(name, "500m"), "plain") for name in "nopqrstuvwxyz{"]
    asked, plan = clumped(*webs("abcdefg"), *others, first="abcdefg")
    found = dealt(asked, plan)
    assert counts(found, "abcdefg") in ("4 3", "3 4")
    assert sorted(one.requests["cpu"] for one in found.claims) == [6_500, 7_500]


def test_two_that_must_be_spread_exchange_theirs() -> None:
    asked, plan = clumped(*webs("abcdefg"), *webs("tuvwxyz", spread(ZONE, matchLabels={"app": "x"}), app="x"))
    found = dealt(asked, replace(plan, claims=tuple(plan.claims)))
    assert Counter(counts(found, "abcdefg").split()) == {"3": 1, "4": 1}
    assert Counter(counts(found, "tuvwxyz").split()) == {"3": 1, "4": 1}


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param((spread(HOSTNAME),), id="of nodes"),
        pytest.param((SPREAD, spread("rack", "ScheduleAnyway")), id="of other domains, softly"),
        pytest.param((spread(ZONE, "ScheduleAnyway"),), id="none must be spread"),
        pytest.param((spread(ZONE, matchLabels={"app": "other"}),), id="they do not count each other"),
    ],
)
def test_these_stay(rules: tuple[dict[str, Any], ...]) -> None:
    asked, plan = clumped(*webs("abcdef", *rules))
    assert dealt(asked, plan) is plan


@pytest.mark.parametrize(
    ("spec", "moves"),
    [
        ({"node_selector": {ZONE: "a", NODEPOOL: "general"}}, True),
        ({"node_selector": {"disk": "ssd"}}, False),
        ({"containers": "open"}, False),
    ],
)
def test_what_else_binds_them_to_a_node(spec: dict[str, Any], moves: bool) -> None:
    if "containers" in spec:
        spec = {"containers": plain("x", containers=OPEN).spec.containers}
    asked, plan = clumped(*webs("abcdef", **spec))
    assert (dealt(asked, plan) is not plan) == moves


def test_those_that_rules_of_others_count_stay() -> None:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    asked, plan = clumped(*webs("abcdef"))
    assert dealt(asked, plan) is not plan
    judge = plain("judge", affinity=apart)
    assert dealt(replace(asked, pods=(*asked.pods, judge)), plan) is plan
    guard = plain("guard", affinity=apart, nodeName="old")
    assert dealt(replace(asked, nodes=(node("old", "b", guard),)), plan) is plan


@pytest.mark.parametrize(
    "change",
    [
        {"requirements": Requirements.from_labels({ZONE: "b"})},
        {"requirements": Requirements()},  # it may be bought in another zone
        {"pool": "other"},
        {"taints": (object(),)},
        {"labels": {"team": "a"}},
        {"requirements": Requirements.from_labels({ZONE: "a", CAPACITY_TYPE: "spot"})},
        {"instance_types": ()},
    ],
)
def test_none_goes_to_a_node_of_another_sort_or_without_room(change: dict[str, Any]) -> None:
    asked, plan = clumped(*webs("abcdef"))
    one, two = plan.claims
    changed = replace(plan, claims=(one, replace(two, **change)))
    assert counts(dealt(asked, changed), "abcdef") == "6 0"


def test_it_ends_where_the_time_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CASES", 0)
    asked, plan = clumped(*webs("abcdef"))
    assert dealt(asked, plan) is plan


_SIZES = st.sampled_from([100, 250, 500, 1_000, 2_000])


@st.composite
def _plans(draw: st.DrawFn) -> tuple[Problem, Plan]:
    """Deployments of one size each, whose pods are on nodes of two zones, as many as there is room for."""
    number = draw(st.integers(2, 6))
    rooms = [ROOM] * number
    content: list[list[Pod]] = [[] for _ in rooms]
    for app in range(draw(st.integers(1, 5))):
        size, name = draw(_SIZES), f"app-{app}"
        rules = [spread(ZONE, matchLabels={"app": name})] if draw(st.booleans()) else []
        for replica in range(draw(st.integers(1, 12))):
            place = draw(st.integers(0, number - 1))
            if rooms[place] >= size:
                rooms[place] -= size
                made = pod(f"{name}-{replica}", *rules, app=name, cpu=f"{size}m")
                content[place].append(owned(made, name))
    claims = [bought(f"n{n}", "ab"[n % 2], *pods) for n, pods in enumerate(content)]
    return problem(*(one for pods in content for one in pods)), Plan(claims=tuple(claims))


def _pairs(asked: Problem, plan: Plan) -> int:
    """Of pods that are alike, must be spread and are on one node."""
    pods = {one.key: one for one in asked.pods}
    crowds = Counter(
        (claim.name, pods[key].metadata.labels["app"])
        for claim in plan.claims
        for key in claim.pods
        if pods[key].spec.topology_spread_constraints
    )
    return sum(many * (many - 1) // 2 for many in crowds.values())


@settings(max_examples=200)
@given(_plans())
def test_any_plan_keeps_its_pods_their_zones_and_what_nodes_have_room_for(case: tuple[Problem, Plan]) -> None:
    asked, plan = case
    found = dealt(asked, plan)
    pods = {one.key: one for one in asked.pods}
    zones = {claim.name: claim.zone for claim in plan.claims}
    before, after = where(plan), where(found)
    assert {key: zones[name] for key, name in before.items()} == {
        key: zones[name] for key, name in after.items()
    }
    for claim in found.claims:
        requests = total(pod_requests(pods[key]) for key in claim.pods)
        assert claim.requests == requests
        assert fits(requests, {"cpu": ROOM, "pods": 1_000})
    assert _pairs(asked, found) <= _pairs(asked, plan)
    assert (found is plan) == (before == after)
    assert _pairs(asked, found) < _pairs(asked, plan) or found is plan
    assert dealt(asked, found) is found


@settings(max_examples=100)
@given(st.integers(1, 6), st.integers(1, 5), st.data())
def test_the_table_keeps_what_there_is(nodes: int, kinds: int, data: st.DataObject) -> None:
    asked = np.array([[data.draw(_SIZES), data.draw(_SIZES)] for _ in range(kinds)], float)
    had = np.array([[data.draw(st.integers(0, 9)) for _ in range(kinds)] for _ in range(nodes)])
    free = np.array([[data.draw(st.integers(0, 3_000)) for _ in "ab"] for _ in range(nodes)], float)
    spread_ones = np.array([data.draw(st.booleans()) for _ in range(kinds)])
    table = module._Table(asked, had.copy(), free.copy(), spread_ones)
    table.deal(10_000_000)
    assert (table.counts.sum(axis=0) == had.sum(axis=0)).all()
    assert (table.counts >= 0).all()
    left = free + (had - table.counts) @ asked
    assert (left >= 0).all()
    assert np.allclose(left, table._free)


def test_daemons_need_their_room() -> None:
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "5"}}}]}}
    document = {"metadata": {"name": "agent", "namespace": "d"}, "spec": {"template": template}}
    asked, plan = clumped(*webs("abcdef"))
    daemons = (decode(document, DaemonSet),)
    assert counts(dealt(replace(asked, daemonsets=daemons), plan), "abcdef") == "4 2"


@pytest.mark.parametrize("seed", range(6))
def test_plans_of_the_solver_stay_legal(seed: int) -> None:
    """Nodes whose zone the plan leaves open take none of those that must be spread."""
    draw = random.Random(seed)
    pods = []
    for app in range(6):
        name, cpu = f"app-{app}", draw.choice(["100m", "250m", "500m", "1", "2"])
        rules = [spread(ZONE, matchLabels={"app": name})] if app % 2 else []
        pods += [
            owned(pod(f"{name}-{n}", *rules, app=name, cpu=cpu), name) for n in range(draw.randint(8, 30))
        ]
    asked = problem(*pods)
    plan = solve(asked, Budget(200_000))
    assert not verify(asked, plan)
    found = dealt(asked, plan)
    assert not verify(asked, found)
    assert _pairs(asked, found) <= _pairs(asked, plan)
