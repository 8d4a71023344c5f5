"""Column generation under rules between pods proves what all patterns at once do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.model import labels
from dovetail.model.arrays import Amounts
from dovetail.model.problem import Budget, Problem
from dovetail.solve.bound import topology_mip
from dovetail.solve.bound.scope import Kinds
from dovetail.solve.bound.topology_colgen import Enumeration, Master, Pricing, SitePatterns, joined
from dovetail.solve.bound.topology_mip import Ruled, TopologyBound, program
from dovetail.solve.bound.topology_model import Rows, topology_sites_of
from dovetail.solve.budget import SolveBudget
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.testing.problems import Document, both, instance_types, node, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem

ANY_PRICE = 1 << 40  # nano-dollars per hour
MANY = 200_000  # patterns


def workload(app: str, number: int, size: tuple[int, int], *wanted: Document) -> list[Document]:
    rule: dict[str, Any] = {}
    for one in wanted:
        rule = both(rule, one)
    return [pod(f"{app}-{index}", app, (size[0] + 50 * index, size[1]), rule) for index in range(number)]


SPREAD = rules("web", "")["spread over zones"]
SPOT = {"nodeSelector": {labels.CAPACITY_TYPE: "spot"}}
ON_DEMAND = [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]


def on_demand_first() -> list[Document]:
    heavy = pool("heavy", weight=10)
    heavy["spec"]["template"]["spec"]["requirements"] = ON_DEMAND
    return [heavy, pool("light")]


CASES: dict[str, tuple[list[Document], list[Document], list[Document]]] = {
    "zones": (workload("web", 8, (500, 512), SPREAD), [pool("general")], []),
    "zones and hosts": (
        [
            *workload("web", 5, (500, 512), SPREAD),
            *workload("api", 4, (700, 1024), rules("api", "web")["not on the host of another app"]),
        ],
        [pool("general")],
        [],
    ),
    "visitors of a lighter pool": (
        [
            *workload("web", 4, (900, 512), SPREAD, SPOT),
            *workload("api", 5, (600, 900)),
        ],
        on_demand_first(),
        [],
    ),
    "a node that is there": (
        workload("web", 7, (500, 512), rules("web", "")["spread over hosts"]),
        [pool("general")],
        [node("old", "zone-a", 2)],
    ),
}


def promised(instance: Instance) -> Kinds:
    """Each pod is promised the first tier that has a node for it."""
    kinds = {}
    for pod_class in instance.pod_classes:
        tiers = [
            index
            for index, pools in enumerate(instance.tiers)
            if any(
                instance.columns(each, wanted, pod_class.vector).any()
                for each in pools
                for wanted in pod_class.levels[0].alternatives
            )
        ]
        kinds[pod_class.index, 0, tiers[0]] = list(pod_class.pods)
    return kinds


def rows_of(problem: Problem, *, patterns: bool = False) -> tuple[Instance, Rows]:
    """The program of a plan that keeps those promises; without rows about single nodes if `patterns`."""
    instance = Instance(problem, SolveBudget(Budget()))
    columns = OfferingsTable(instance.tables, len(instance.axis.names))
    free = instance.nodes.capacity.copy()
    sites = topology_sites_of(instance, columns, free, promised(instance))
    return instance, program(instance, sites, patterns=patterns)


def no_plan(rows: Rows) -> Amounts:
    return np.zeros((0, len(rows.pods)), dtype=np.int64)


def least(master: Master) -> float:
    found = master.linear(master.every, SolveBudget(Budget()))
    assert found is not None
    return found.least


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("patterns", [False, True], ids=["all rows", "none about single nodes"])
def test_patterns_that_pay_cost_in_fractions_what_all_do(name: str, patterns: bool) -> None:
    pods, pools, nodes = CASES[name]
    problem = to_problem(scenario(pods, pools, instance_types(), nodes=nodes))
    instance, rows = rows_of(problem)
    every: SitePatterns | None = Enumeration(rows, ANY_PRICE, SolveBudget(Budget()), MANY).run()
    assert every is not None
    listed = least(Master(instance, rows, every))
    instance, rows = rows_of(problem, patterns=patterns)
    master = Master(instance, rows, joined((), len(rows.pods)))
    pricing = Pricing(rows, SolveBudget(Budget(work=100_000_000)))
    linear = pricing.run(master, no_plan(rows))
    assert linear is not None
    assert linear.least == pytest.approx(listed, rel=1e-6)
    assert listed * (1 - 1e-3) <= pricing.bound <= listed * (1 + 1e-9)


@pytest.mark.parametrize("units", [1, 2_000, 10_000])
def test_a_bound_that_was_not_reached_is_none_that_is_too_high(units: int) -> None:
    pods, pools, nodes = CASES["visitors of a lighter pool"]
    instance, rows = rows_of(to_problem(scenario(pods, pools, instance_types(), nodes=nodes)))
    every = Enumeration(rows, ANY_PRICE, SolveBudget(Budget()), MANY).run()
    assert every is not None
    pricing = Pricing(rows, SolveBudget(Budget(work=units)))
    pricing.run(Master(instance, rows, joined((), len(rows.pods))), no_plan(rows))
    assert 0 <= pricing.bound <= least(Master(instance, rows, every)) * (1 + 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_listed_are_all_patterns_that_cost_little_beyond_their_worth(name: str) -> None:
    pods, pools, nodes = CASES[name]
    instance, rows = rows_of(to_problem(scenario(pods, pools, instance_types(), nodes=nodes)))
    every = Enumeration(rows, ANY_PRICE, SolveBudget(Budget()), MANY).run()
    assert every is not None
    work = SolveBudget(Budget(work=100_000_000))
    master, pricing = Master(instance, rows, joined((), len(rows.pods))), Pricing(rows, work)
    pricing.run(master, no_plan(rows))
    listed = pricing.listed(master, 1.2 * pricing.bound)
    assert listed is not None
    (patterns, slack), linear = listed, pricing.proven
    found = {(site, *counts) for site, counts in zip(patterns.site, patterns.counts.tolist(), strict=True)}
    master = Master(instance, rows, every)
    assert linear.least == pytest.approx(pricing.bound, rel=1e-3)
    assert (master.reduced(linear) > -1e-6).all()
    kept = master.patterns.some(master.reduced(linear) < slack - 1e-6)
    assert {(site, *counts) for site, counts in zip(kept.site, kept.counts.tolist(), strict=True)} <= found


def test_patterns_are_listed_where_nodes_that_are_there_hold_all_pods_in_fractions() -> None:
    """Four pods of over half a node, on three: in fractions nothing is bought, in whole numbers one node."""
    pods = workload("web", 4, (2000, 512), SPREAD)
    nodes = [node(f"old-{zone}", zone, 4) for zone in ("zone-a", "zone-b", "zone-c")]
    problem = to_problem(scenario(pods, [pool("general")], instance_types(), nodes=nodes))
    instance, rows = rows_of(problem)
    master = Master(instance, rows, joined((), len(rows.pods)))
    pricing = Pricing(rows, SolveBudget(Budget(work=100_000_000)))
    linear = pricing.run(master, no_plan(rows))
    assert linear is not None
    assert linear.least == pricing.bound == 0.0
    listed = pricing.listed(master, 1.0)
    assert listed is not None
    assert len(listed[0])


def test_a_node_is_bought_only_with_a_pod_of_its_pool_on_it() -> None:
    pods, pools, nodes = CASES["visitors of a lighter pool"]
    instance, rows = rows_of(to_problem(scenario(pods, pools, instance_types(), nodes=nodes)))
    master = Master(instance, rows, joined((), len(rows.pods)))
    Pricing(rows, SolveBudget(Budget(work=100_000_000))).run(master, no_plan(rows))
    own = rows.topology_sites.own[:, master.patterns.site].T
    assert (own & (master.patterns.counts > 0)).any(axis=1).all()
    assert (~own & (master.patterns.counts > 0)).any(), "no pod visits: the case shows nothing"


def test_patterns_that_are_not_chosen_from_cost_more_by_their_reduced_prices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The more there are to choose from the more is proven, before all are, and never more than with all."""
    pods, pools, _ = CASES["zones and hosts"]
    problem = to_problem(scenario(pods, pools, instance_types()))
    monkeypatch.setattr(topology_mip, "_SMALL", 0)
    monkeypatch.setattr(TopologyBound, "_by_sites", lambda *_: (Ruled(), None))  # patterns alone
    proven = []
    for many in (1, 50, 100, 150, 200, MANY):
        monkeypatch.setattr(topology_mip, "_MOST_PATTERNS", many)
        instance = Instance(problem, SolveBudget(Budget(work=1_000_000)))
        columns = OfferingsTable(instance.tables, len(instance.axis.names))
        bound = TopologyBound(instance, columns)
        proven.append(bound.bound(instance.nodes.capacity.copy(), promised(instance), 10**9))
    assert proven == sorted(proven)
    assert len(set(proven)) > 3, proven
