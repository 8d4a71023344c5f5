"""A set of pods per domain costs what the best choice of patterns of nodes does, and its nodes hold it."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from all_patterns import PLENTY, cheapest_choice
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.model.plan import Step
from dovetail.model.problem import Problem
from dovetail.solve.bound.scope import Kinds
from dovetail.solve.bound.topology_domains import Domains
from dovetail.solve.bound.topology_mip import program
from dovetail.solve.bound.topology_model import Rows, topology_sites_of
from dovetail.solve.budget import SolveBudget
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.solver import solve
from dovetail.testing.problems import Document, instance_types, node, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.units.money import NANO_DOLLARS

SIZES = (500, 512), (700, 1024), (1500, 900), (2500, 4096)
ZONES = "zone-a", "zone-b", "zone-c"
RULES = "plain", "spread over zones", "spread over zones, skew 2", "spread over capacity types"
OTHERS = (
    "spread over two zones at least",
    "spread over zones with another app",
    "one per zone",
    "not in the zone of another app",
    "all in one zone",
    "in the zone of another app",
    "in zone-b or zone-c",
)


def rows_of(problem: Problem) -> tuple[Instance, Rows]:
    instance = Instance(problem, SolveBudget(PLENTY))
    columns = OfferingsTable(instance.tables, len(instance.axis.names))
    kinds: Kinds = {(one.index, 0, 0): list(one.pods) for one in instance.pod_classes}
    sites = topology_sites_of(instance, columns, instance.nodes.capacity.copy(), kinds)
    return instance, program(instance, sites, patterns=True)


def app(name: str, number: int, size: tuple[int, int], rule: str, other: str = "web") -> list[Document]:
    return [pod(f"{name}-{index}", name, size, rules(name, other)[rule]) for index in range(number)]


def drawn(seed: int) -> Problem:
    """Up to four apps of few sizes beside nodes with little room, on which some of their pods run already."""
    draw = random.Random(seed)
    documents: list[Document] = []
    running: list[Document] = []
    nodes = [
        node(f"n{index}", draw.choice(ZONES), draw.choice((1, 2, 4))) for index in range(draw.randrange(5))
    ]
    for number in range(draw.randint(1, 4)):
        name, size, rule = f"app-{number}", draw.choice(SIZES), draw.choice((*RULES, *OTHERS))
        documents += app(name, draw.randint(1, 5), size, rule, "app-0")
        if nodes and draw.random() < 0.6:
            one = pod(f"{name}-old", name, (100, 64), rules(name, "app-0")[rule])
            one["spec"]["nodeName"] = draw.choice(nodes)["metadata"]["name"]
            running.append(one)
    return to_problem(scenario(documents, [pool("general")], instance_types(), nodes=nodes, bound=running))


def check(problem: Problem) -> bool:
    """False if sets do not say all that rules ask for."""
    instance, rows = rows_of(problem)
    found = Domains(instance, rows, SolveBudget(PLENTY)).run(1e6)
    if found is None:
        return False
    best = cheapest_choice(instance, rows)
    if found.nodes is None:
        assert best == np.inf
        return True
    assert found.bound == pytest.approx(best, rel=1e-6, abs=1e-9)
    sites = rows.topology_sites
    counts = np.array([counts for _, counts in found.nodes]).reshape(-1, len(sites.kinds))
    where = np.array([site for site, _ in found.nodes])
    assert counts.sum(axis=0).tolist() == sites.demand.tolist()
    assert (counts @ sites.vectors <= sites.capacity[where]).all()
    assert (counts <= rows.copies[:, where].T).all()
    assert sites.price[where].sum() / NANO_DOLLARS == pytest.approx(best, rel=1e-6, abs=1e-9)
    there = Counter(where[where >= sites.bought].tolist())
    assert max(there.values(), default=0) <= 1
    return True


CASES: dict[str, tuple[list[Document], list[Document]]] = {
    "zones": (app("web", 8, SIZES[0], "spread over zones"), []),
    "two sizes": ([*app("web", 5, SIZES[0], RULES[1]), *app("api", 4, SIZES[3], RULES[1])], []),
    "one size, two apps": ([*app("web", 5, SIZES[0], RULES[1]), *app("api", 4, SIZES[0], RULES[2])], []),
    "two labels": ([*app("web", 5, SIZES[0], RULES[1]), *app("api", 4, SIZES[2], RULES[3])], []),
    "room in one zone": (app("web", 7, SIZES[0], RULES[1]), [node("old", "zone-a", 2)]),
    "room for all": (app("web", 2, SIZES[0], "plain"), [node("old", "zone-a", 4)]),
    "room in no fraction": (
        app("web", 4, SIZES[2], "plain"),
        [node(f"n{at}", "zone-b", 2) for at in range(3)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sets_of_domains_cost_what_patterns_do(name: str) -> None:
    pods, nodes = CASES[name]
    assert check(to_problem(scenario(pods, [pool("general")], instance_types(), nodes=nodes)))


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None)
def test_sets_of_domains_cost_what_patterns_do_on_any_few_pods(seed: int) -> None:
    check(drawn(seed))


@pytest.mark.parametrize("rule", ["one per host", "spread over hosts", "on the host of another app"])
def test_rules_about_single_nodes_are_for_others(rule: str) -> None:
    pods = [*app("api", 3, SIZES[0], rule), *app("web", 3, SIZES[0], "plain")]
    instance, rows = rows_of(to_problem(scenario(pods, [pool("general")], instance_types())))
    found = Domains(instance, rows, SolveBudget(PLENTY)).run(1e6)
    assert found is None or found.bound <= cheapest_choice(instance, rows) * (1 + 1e-6)


def test_a_few_pods_of_a_few_sizes_are_planned_and_proven_at_once() -> None:
    """Fractions of nodes prove a seventh of that cost; programs over nodes took 800,000 units for it."""
    pods = [each for at in range(3) for each in app(f"a{at}", 8, SIZES[at + 1], "spread over zones")]
    steps: list[Step] = []
    problem = to_problem(scenario(pods, [pool("general")], instance_types()))
    plan = solve(problem, PLENTY, trace=steps.append)
    assert [step.phase for step in steps] == ["first plan", "few patterns"]
    assert plan.cost.gap < 0.001
