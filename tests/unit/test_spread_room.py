"""When nodes are seen to stay because spread pods of theirs find no room in the domains that lack some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as replaced
from test_consolidation_candidates import ROOM, existing, kind

from dovetail.api.codec import decode
from dovetail.api.core import Pod, Taint
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.price import SPOT_DISABLED
from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.disrupt.consolidation.search import search
from dovetail.disrupt.consolidation.spread_room import Reach, SpreadRoom, shared_out
from dovetail.model import labels
from dovetail.model.offering import Offering
from dovetail.model.problem import Budget, ExistingNode, Options, Pool, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.resources import pod_requests
from dovetail.solve.budget import SolveBudget
from dovetail.solve.solver import solve

DOLLAR = 1_000_000_000
LARGE = {**ROOM, "pods": 100}


def offering(zone: str, capacity: str, price: int) -> Offering:
    wanted = ((labels.ZONE, zone), (labels.CAPACITY_TYPE, capacity))
    asked = Requirements.of(tuple(Requirement.new(key, "In", (value,)) for key, value in wanted))
    return Offering(zone, capacity, price, asked)


def pool(zones: str, **more: Any) -> Pool:
    """It sells nodes in these zones, dear ones on demand."""
    offerings = [
        offering(zone, *sold) for zone in zones for sold in (("spot", DOLLAR), ("on-demand", 9 * DOLLAR))
    ]
    sold = replace(kind(DOLLAR), offerings=tuple(offerings), capacity=LARGE)
    return Pool("p", NodeClassRef(group="", kind="", name=""), Requirements.of(()), {}, (sold,), **more)


def pod(name: str, cpu: str = "1", app: str = "a", **rule: Any) -> Pod:
    """Of an application, spread over zones if its rule says how."""
    spread = {
        "maxSkew": 1,
        "topologyKey": labels.ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}},
        **rule,
    }
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
            "topologySpreadConstraints": [spread] if rule else [],
        },
    }
    return decode(document, Pod)


SOFT: dict[str, Any] = {"maxSkew": 1}
HARD: dict[str, Any] = {"whenUnsatisfiable": "DoNotSchedule"}


def standing(name: str, zone: str, free: int, *pods: Pod, **more: Any) -> ExistingNode:
    """A node with so many CPUs free."""
    cpu = 1000 * free + sum(pod_requests(one)["cpu"] for one in pods)
    return replace(
        existing(name), labels={labels.ZONE: zone}, allocatable={**LARGE, "cpu": cpu}, pods=pods, **more
    )


def asked(
    leaving: Sequence[Pod], *nodes: ExistingNode, zone: str = "a", sold: Pool | None = None, **more: Any
) -> Question:
    """May the node with these pods go, from its zone to these nodes?"""
    own = standing("own", zone, 0, *leaving)
    one = Candidate("own", "p", ("m", zone, "spot"), 2 * DOLLAR, 1.0, tuple(leaving))
    return Question(Problem((), (sold or pool("abc"),), (own, *nodes)), (one,), {"p": 5}, **more)


def stays(question: Question, reach: Reach | None = None) -> bool:
    return SpreadRoom(question, reach or Reach()).lacks(question.candidates[0])


ONE = (pod("one", **SOFT),)
# Zone b has two of its pods and room, c one and none.
FULL = standing("n1", "b", 4, pod("x", **SOFT), pod("y", **SOFT)), standing("n2", "c", 0, pod("z", **SOFT))


@pytest.mark.parametrize(
    ("question", "stay"),
    [
        (asked(ONE, *FULL), True),
        (asked((pod("one", **HARD),), *FULL), True),
        (asked((pod("one", maxSkew=2),), *FULL), True),
        (asked((pod("one", maxSkew=3),), *FULL), False),
        # There is room where there are too few of them, or they are as many everywhere.
        (asked(ONE, *FULL, standing("n3", "a", 1)), False),
        (asked(ONE, *FULL, standing("n3", "a", 1), restless=frozenset({"n3"})), True),
        (asked(ONE, *FULL, standing("n3", "a", 1), closed=frozenset({"n3"})), True),
        (asked(ONE, *FULL, standing("n3", "a", 1, taints=(Taint(key="t", effect="NoSchedule"),))), True),
        (asked(ONE, FULL[0], standing("n2", "c", 1, pod("z", **SOFT))), True),  # zone a has none
        (asked(ONE, FULL[0], standing("n2", "c", 0), sold=pool("b"), zone="b"), False),
        # Nothing says how to spread them.
        (asked((pod("one"),), *FULL), False),
        (asked(ONE, standing("n1", "b", 4), standing("n2", "c", 0)), False),
        # Two fit only where one more than one is too many.
        (asked((*ONE, pod("two", **SOFT)), standing("n1", "b", 4), standing("n2", "c", 0)), True),
        (asked((*ONE, pod("two", **SOFT)), standing("n1", "b", 4), standing("n2", "c", 1)), False),
        # Others that it counts go along, or wait for a place.
        (asked((*ONE, pod("two", app="b", **SOFT)), *FULL), True),
        (asked((*ONE, pod("two")), *FULL), False),
        (asked((*ONE, pod("two", "2", **SOFT)), *FULL), False),
        # A zone in which nothing may be bought: the plan may give up the spread.
        (asked(ONE, *FULL, sold=pool("ab")), False),
        # A limit that refuses some types refuses zones perhaps; one that refuses none does not matter.
        (asked(ONE, *FULL, sold=pool("abc", limits={"cpu": LARGE["cpu"], "nodes": 1})), True),
        (asked(ONE, *FULL, sold=pool("abc", limits={"cpu": LARGE["cpu"]}, usage={"cpu": 1})), False),
        (asked(ONE, *FULL, sold=pool("abc", limits={"nodes": 1}, usage={"nodes": 1})), False),
        (asked(ONE, *FULL, sold=pool("abc", taints=(Taint(key="t", effect="PreferNoSchedule"),))), False),
    ],
)
def test_a_node_stays_where_its_spread_pods_find_no_room(question: Question, stay: bool) -> None:
    assert stays(question) is stay
    if stay:
        assert left(question)


def left(question: Question) -> bool:
    """True iff a plan that buys nothing leaves a pod of the node."""
    (one,) = question.candidates
    plan = solve(replace(question.without((one,), quiet=True), buys=False), Budget(20_000))
    placed = {name for pods in plan.existing.values() for name in pods}
    return any(leaving.key not in placed for leaving in one.pods)


def test_the_search_ends_without_a_plan_and_says_why() -> None:
    question = asked(ONE, *FULL)
    with pytest.raises(StopIteration) as stopped:
        next(search(question, Memory(), SolveBudget(Budget(1_000_000)), 0))
    finding = stopped.value.value
    assert [(item.name, item.text) for item in finding.refusals] == [("own", SPOT_DISABLED)]
    assert (finding.move, finding.complete, finding.next) == (None, True, ())


def test_a_pod_that_waits_and_counts_for_the_spread_leaves_it_open() -> None:
    question = asked(ONE, *FULL)
    for waiting, stay in ((pod("w"), False), (pod("w", app="b"), True)):
        problem = replace(question.problem, pods=(waiting,))
        assert stays(replace(question, problem=problem)) is stay


def test_where_preferences_do_not_count_only_what_must_hold_does() -> None:
    for rule, stay in ((SOFT, False), (HARD, True)):
        question = asked((pod("one", **rule),), *FULL)
        problem = replace(question.problem, options=Options(respect_preferences=False))
        assert stays(replace(question, problem=problem)) is stay


def test_pods_that_keep_others_out_of_whole_zones_leave_it_open() -> None:
    term = {"topologyKey": labels.ZONE, "labelSelector": {"matchLabels": {"app": "other"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    plain = pod("guard", app="g")
    guard = replaced(
        plain, spec=replaced(plain.spec, affinity=decode({"affinity": apart}, type(plain.spec)).affinity)
    )
    assert stays(asked(ONE, *FULL, standing("n4", "b", 0, plain)))
    assert not stays(asked(ONE, *FULL, standing("n4", "b", 0, guard)))


def test_offers_that_change_are_read_anew() -> None:
    reach = Reach()
    for zones, stay in (("abc", True), ("ab", False), ("abc", True)):
        assert stays(asked(ONE, *FULL, sold=pool(zones)), reach) is stay


@pytest.mark.parametrize(
    ("domains", "pods", "skew", "able"),
    [
        ([(0, 1)], 1, 1, True),
        ([(0, 0)], 1, 1, False),
        ([(5, 9), (0, 0)], 1, 1, False),
        ([(5, 9), (0, 0)], 1, 6, True),
        ([(5, 9), (0, 4)], 4, 1, True),
        ([(5, 9), (0, 4)], 5, 1, False),
        ([(5, 9), (0, 5)], 6, 1, True),
        ([(5, 9), (0, 5)], 7, 1, False),
        ([(1, 2), (1, 2), (2, 0)], 4, 1, True),
        ([(1, 3), (1, 3), (2, 0)], 5, 1, False),
        ([(1, 3), (1, 3), (2, 0)], 5, 2, True),
    ],
)
def test_pods_are_shared_out_as_far_as_skew_and_room_allow(
    domains: list[tuple[int, int]], pods: int, skew: int, able: bool
) -> None:
    assert shared_out(domains, pods, skew) is able


ZONES = st.sampled_from("abc")
RULES = st.sampled_from((SOFT, HARD, {"maxSkew": 2}, {}))
APPS = st.sampled_from("aaab")


@settings(max_examples=150)
@given(
    st.lists(st.tuples(APPS, RULES, st.sampled_from(("0.5", "1"))), min_size=1, max_size=4),
    st.lists(st.tuples(ZONES, st.integers(0, 3), st.lists(APPS, max_size=3)), min_size=1, max_size=5),
    st.lists(st.tuples(APPS, RULES), max_size=1),
    st.sampled_from(("abc", "abcd", "ab", "bc")),
    ZONES,
    st.sampled_from((None, {"cpu": LARGE["cpu"]}, {"cpu": 500, "nodes": 9})),
)
def test_a_plan_without_a_purchase_leaves_pods_of_what_is_held_back(
    leaving: list[tuple[str, dict[str, Any], str]],
    others: list[tuple[str, int, list[str]]],
    pending: list[tuple[str, dict[str, Any]]],
    sold: str,
    zone: str,
    limits: dict[str, int] | None,
) -> None:
    pods = [pod(f"p{number}", cpu, app, **rule) for number, (app, rule, cpu) in enumerate(leaving)]
    nodes = [
        standing(
            f"n{index}", there, free, *(pod(f"s{index}-{each}", app=app) for each, app in enumerate(apps))
        )
        for index, (there, free, apps) in enumerate(others)
    ]
    question = asked(pods, *nodes, zone=zone, sold=pool(sold, limits=limits))
    waiting = tuple(pod(f"w{number}", app=app, **rule) for number, (app, rule) in enumerate(pending))
    question = replace(question, problem=replace(question.problem, pods=waiting))
    held = stays(question)
    event("held back" if held else "asked")
    assert not held or left(question)
