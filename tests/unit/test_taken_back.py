"""Pods that are taken back because others, which a rule of theirs is about, turned out to have no place."""

from __future__ import annotations

import pytest

from dovetail.model.problem import Budget
from dovetail.solve.assign.assigner import Assigner
from dovetail.solve.assign.spread_quotas import surplus
from dovetail.solve.assign.strategies import Strategy
from dovetail.solve.budget import SolveBudget
from dovetail.solve.build.plan_state import PlannedNode
from dovetail.solve.instance.instance import Instance
from dovetail.solve.pack.node_candidate import NodeCandidate
from dovetail.solve.search import seats_of
from dovetail.testing.problems import instance_types, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem


@pytest.mark.parametrize("rule", ["on the host of another app", "in the zone of another app"])
@pytest.mark.parametrize("gone", [True, False])
def test_no_pod_stays_without_the_pod_that_it_has_to_be_near(rule: str, gone: bool) -> None:
    near = rules("db", "web")[rule]
    pods = [pod("web", "web", (1000, 512), {}), pod("db", "db", (500, 512), near)]
    instance = Instance(
        to_problem(scenario(pods, [pool("general")], instance_types())), SolveBudget(Budget(0))
    )
    assigner = Assigner(instance, Strategy())
    items = assigner.run(
        (pod_class.index, key) for pod_class in instance.pod_classes for key in pod_class.pods
    ).items
    made = NodeCandidate(0, (), items[0].wanted, items[0].vector, (), 0, 0)
    seats = seats_of(assigner, {}, [PlannedNode(made, tuple((item, item.bundles) for item in items))])
    if gone:
        web = next(item for item in items if (0, 0) in item.kinds)
        assigner.forget(web, (0, 0), 1)
    taken = surplus(instance.topology.groups, instance.pod_classes, seats)
    assert taken == ({"default/db"} if gone else set())
