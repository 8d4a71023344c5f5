"""How many pods each domain must hold by rules between pods, as kinds of their own in a proof."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dovetail.model.problem import Budget
from dovetail.solve.bound.topology_mip import TopologyBound
from dovetail.solve.bound.topology_model import pinned, topology_sites_of
from dovetail.solve.budget import SolveBudget
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.solver import solve
from dovetail.testing.problems import Document, instance_types, node, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem

SIZE = 500, 1024
EVERY = ("zone-a", "zone-b", "zone-c")
ON_DEMAND = pool("general", capacity=("on-demand",))


def pods(number: int, rule: str, app: str = "web", other: str = "api") -> list[Document]:
    return [pod(f"{app}-{index}", app, SIZE, rules(app, other)[rule]) for index in range(number)]


def shares(
    documents: list[Document], pools: list[Document], nodes: list[Document], bound: list[Document]
) -> object:
    """(domains, pods) of what is sold in some zones or capacity types alone, how often each."""
    problem = to_problem(scenario(documents, pools, instance_types(), nodes=nodes, bound=bound))
    instance = Instance(problem, SolveBudget(Budget()))
    columns = OfferingsTable(instance.tables, len(instance.axis.names))
    kinds = {(one.index, 0, 0): list(one.pods) for one in instance.pod_classes}
    sites = topology_sites_of(instance, columns, instance.nodes.capacity, kinds)
    found = pinned(instance, sites)
    if found is None:
        return None
    names: Counter[tuple[tuple[str, ...], int]] = Counter()
    (domains,) = sites.domains.values()
    for number, sold in enumerate(found.feasible):
        names[tuple(sorted({domains[site] for site in np.flatnonzero(sold)})), len(found.pods[number])] += 1
    everything = sorted(name for one in found.pods for name in one)
    assert everything == sorted(name for one in kinds.values() for name in one)
    return names


def each(domains: tuple[str, ...], number: int, rest: int) -> Counter[tuple[tuple[str, ...], int]]:
    found = Counter({((domain,), number): 1 for domain in domains})
    return found + Counter({(domains, rest): 1 if rest else 0})


TYPES = ("on-demand", "spot")
CASES: dict[str, tuple[list[Document], list[Document], object]] = {
    "half of them on demand": (pods(8, "spread over capacity types"), [pool("general")], each(TYPES, 4, 0)),
    "the odd one anywhere": (pods(9, "spread over capacity types"), [pool("general")], each(TYPES, 4, 1)),
    "three zones": (pods(11, "spread over zones"), [pool("general")], each(EVERY, 3, 2)),
    "a skew of two": (pods(11, "spread over zones, skew 2"), [pool("general")], each(EVERY, 3, 2)),
    "too few for each zone": (pods(2, "spread over zones"), [pool("general")], None),
    "one per zone, in all of them": (pods(3, "one per zone"), [pool("general")], each(EVERY, 1, 0)),
    "one per zone, of more zones": (pods(2, "one per zone"), [pool("general")], None),
    "one capacity type is sold": (pods(8, "spread over capacity types"), [ON_DEMAND], None),
    "others are counted": (
        [*pods(6, "spread over zones with another app"), *pods(6, "plain", "api")],
        [pool("general")],
        None,
    ),
    "limits may close a zone": (pods(9, "spread over zones"), [pool("general", limits={"cpu": "9"})], None),
    "no rule": (pods(9, "plain"), [pool("general")], None),
}


@pytest.mark.parametrize("name", CASES)
def test_domains_hold_what_is_too_much_for_all_others(name: str) -> None:
    documents, pools, expected = CASES[name]
    assert shares(documents, pools, [], []) == expected


def test_nothing_is_known_where_pods_run_that_a_rule_counts() -> None:
    running = {
        **pod("old", "web", SIZE, {}),
        "spec": {**pod("old", "web", SIZE, {})["spec"], "nodeName": "here"},
    }
    assert (
        shares(pods(9, "spread over zones"), [pool("general")], [node("here", "zone-a", 2)], [running])
        is None
    )


def test_capacity_that_is_there_counts_in_its_domain() -> None:
    found = shares(pods(9, "spread over zones"), [pool("general")], [node("here", "zone-a", 2)], [])
    assert found == each(EVERY, 3, 0)


@pytest.mark.parametrize("found", [0, 1])
def test_a_plan_too_large_for_the_program_is_proven_by_shares(
    found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the pods are on demand, which no proof without rules sees; nor does one that was cut short."""

    def bound(self: TopologyBound, *_args: object, **_more: object) -> int:
        self.unfinished = found > 0
        return found

    monkeypatch.setattr(TopologyBound, "bound", bound)
    documents = [
        pod(f"web-{number}", "web", SIZE, rules("web", "")["spread over capacity types"])
        for number in range(40)
    ]
    plain = [{**one, "spec": {"containers": one["spec"]["containers"]}} for one in documents]
    ruled, free = (
        solve(to_problem(scenario(some, [pool("general")], instance_types()))) for some in (documents, plain)
    )
    assert free.cost.hourly < ruled.cost.lower_bound <= ruled.cost.hourly
    assert ruled.cost.gap < 0.05
