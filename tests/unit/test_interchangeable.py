"""Classes whose pods may change places: what a program over their sum costs is never more than over each."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from all_patterns import PLENTY, cheapest_choice
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.model.problem import Budget, Problem
from dovetail.solve.bound.scope import Kinds
from dovetail.solve.bound.topology_mip import program
from dovetail.solve.bound.topology_model import Dealer, Kind, merged, topology_sites_of
from dovetail.solve.budget import SolveBudget
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.solver import solve
from dovetail.testing.problems import Document, instance_types, node, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

SMALL, LARGE = (500, 512), (1500, 900)
ZONES = "zone-a", "zone-b", "zone-c"
RULES = (
    "plain",
    "spread over zones",
    "spread over zones, skew 2",
    "spread over two zones at least",
    "spread over hosts",
    "rather spread over zones",
    "one per host",
    "one per zone",
    "rather one per host",
    "all in one zone",
    "in the zone of another app",
    "in zone-b or zone-c",
)


def app(name: str, number: int, size: tuple[int, int], *rule: str) -> list[Document]:
    spec: Document = {}
    for each in rule:
        part = rules(name, "app-0")[each]
        same = spec.get("topologySpreadConstraints", []) + part.get("topologySpreadConstraints", [])
        spec |= part | ({"topologySpreadConstraints": same} if same else {})
    return [pod(f"{name}-{index}", name, size, spec) for index in range(number)]


def problem(apps: list[list[Document]], nodes: tuple[Document, ...] = ()) -> Problem:
    documents = [each for some in apps for each in some]
    return to_problem(scenario(documents, [pool("general")], instance_types(), nodes=list(nodes)))


def kinds_of(instance: Instance) -> Kinds:
    return {(one.index, 0, 0): list(one.pods) for one in instance.pod_classes}


def cheapest(instance: Instance, *, together: bool) -> float:
    """By all patterns, in dollars per hour; infinite if no nodes keep the rules."""
    columns = OfferingsTable(instance.tables, len(instance.axis.names))
    kinds, members = merged(instance, kinds_of(instance)) if together else (kinds_of(instance), None)
    sites = topology_sites_of(instance, columns, instance.nodes.capacity.copy(), kinds, members=members)
    return cheapest_choice(instance, program(instance, sites, patterns=True))


def first(asked: Problem) -> tuple[int, ...]:
    return Instance(asked, SolveBudget(PLENTY)).interchangeable[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (app("a", 3, SMALL, "spread over zones"), app("b", 3, SMALL, "spread over zones")),
        (app("a", 3, SMALL, "spread over zones"), app("b", 2, SMALL, "spread over zones")),
        (app("a", 3, SMALL, "spread over zones"), app("b", 3, SMALL, "rather spread over zones")),
        (app("a", 2, SMALL, "one per host"), app("b", 3, SMALL, "rather one per host")),
        (app("a", 1, SMALL, "one per zone"), app("b", 1, SMALL, "spread over hosts")),
        (
            app("a", 3, SMALL, "spread over zones"),
            app("b", 3, SMALL, "spread over zones", "spread over hosts"),
        ),
    ],
    ids=["the same", "fewer pods", "rather", "keep off each other", "one pod", "a rule that follows"],
)
def test_pods_of_classes_whose_rules_bind_alike_may_change_places(
    one: list[Document], other: list[Document]
) -> None:
    assert first(problem([one, other])) == (0, 0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (app("a", 3, SMALL, "spread over zones"), app("b", 3, LARGE, "spread over zones")),
        (app("a", 3, SMALL, "spread over zones"), app("b", 3, SMALL, "spread over zones, skew 2")),
        (app("a", 3, SMALL, "spread over zones"), app("b", 3, SMALL, "plain")),
        (app("a", 3, SMALL, "one per host"), app("b", 3, SMALL, "spread over hosts")),
        (app("a", 3, SMALL, "all in one zone"), app("b", 3, SMALL, "all in one zone")),
        (
            app("a", 5, SMALL, "spread over zones"),
            app("b", 5, SMALL, "spread over zones", "spread over hosts"),
        ),
        (app("app-0", 3, SMALL, "spread over zones"), app("b", 3, SMALL, "in the zone of another app")),
    ],
    ids=["size", "skew", "no rule", "hosts", "together", "more than domains", "about another"],
)
def test_others_do_not(one: list[Document], other: list[Document]) -> None:
    assert len(set(first(problem([one, other])))) == 2


def test_a_class_of_which_pods_run_stays_by_itself() -> None:
    there = app("a", 1, SMALL, "spread over zones")[0]
    there["metadata"]["name"] = "a-old"
    there["spec"]["nodeName"] = "n"
    pods = [*app("a", 3, SMALL, "spread over zones"), *app("b", 3, SMALL, "spread over zones")]
    nodes = [node("n", "zone-a", 4)]
    asked = to_problem(scenario(pods, [pool("general")], instance_types(), nodes=nodes, bound=[there]))
    assert len(set(first(asked))) == 2


def drawn(seed: int) -> Problem:
    """Up to six apps of two sizes and few rules, beside nodes that are empty."""
    draw = random.Random(seed)
    some = [draw.sample(RULES, draw.choice((1, 1, 2))) for _ in range(2)]
    apps = [
        app(f"app-{number}", draw.randint(1, 4), draw.choice((SMALL, LARGE)), *draw.choice(some))
        for number in range(draw.randint(2, 5))
    ]
    nodes = [node(f"n{index}", draw.choice(ZONES), draw.choice((1, 2))) for index in range(draw.randrange(3))]
    return problem(apps, tuple(nodes))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_the_program_over_sums_never_costs_more(seed: int) -> None:
    asked = drawn(seed)
    together = cheapest(Instance(asked, SolveBudget(PLENTY)), together=True)
    assert together <= cheapest(Instance(asked, SolveBudget(PLENTY)), together=False) + 1e-6


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_plans_and_bounds_of_many_alike_are_right(seed: int) -> None:
    asked = drawn(seed)
    plan = solve(asked, Budget(work=200_000))
    assert not verify(asked, plan)
    assert plan.cost.lower_bound <= plan.cost.hourly


def test_what_sums_prove_of_spreads_is_what_each_proves() -> None:
    asked = problem([app(f"a{number}", 3, SMALL, "spread over zones") for number in range(3)])
    one, each = (
        cheapest(Instance(asked, SolveBudget(PLENTY)), together=together) for together in (True, False)
    )
    assert one == pytest.approx(each)


def test_pods_are_dealt_out_so_that_none_has_two_in_a_domain_before_it_must() -> None:
    sizes = 3, 1, 2, 3
    pods = tuple(f"{number}-{index}" for number, many in enumerate(sizes) for index in range(many))
    members = tuple(
        (number, [pod for pod in pods if pod.startswith(f"{number}-")]) for number in range(len(sizes))
    )
    kind = Kind(0, 0, 0, pods, frozenset(), frozenset(), frozenset(), members, frozenset({"zone"}))
    dealer = Dealer(kind)
    for zone, counts in (("a", (2, 1)), ("b", (1, 2)), ("c", (3,))):
        had = Counter(
            name.partition("-")[0]
            for number in counts
            for _, names in dealer.take(number, (zone,))
            for name in names
        )
        assert set(had.values()) == {1}


def test_no_more_pods_are_dealt_out_than_there_are() -> None:
    kind = Kind(7, 0, 0, ("a", "b"), frozenset(), frozenset(), frozenset(), ((7, ["a", "b"]),), frozenset())
    dealer = Dealer(kind)
    assert list(dealer.take(5, ())) == [(7, ("a", "b"))]
    assert list(dealer.take(1, ())) == []
