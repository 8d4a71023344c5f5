"""What pools' limits leave capacity for, known before nodes are bought."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.model import labels
from dovetail.model.problem import Budget, Problem
from dovetail.solve.assign.assigner import LimitQuotas
from dovetail.solve.budget import SolveBudget
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.limits import Limits
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.solver import solve
from dovetail.testing.problems import Document, instance_types, pod, pool, scenario
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify


def _problem(limits: Document) -> Problem:
    """Thirty pods of one core; the better pool comes first and is limited."""
    pods = [pod(f"p{number:02}", "web", (1000, 512), {}) for number in range(30)]
    pools = [pool("better", weight=20, limits=limits), pool("general")]
    return to_problem(scenario(pods, pools, instance_types()))


@pytest.mark.parametrize(
    ("limits", "pods"),
    [
        ({"cpu": "10"}, 10),
        ({"nodes": "2"}, 14),  # the largest node keeps a little of its eight cores
        ({"nodes": "2", "cpu": "10"}, 10),
        ({"memory": "2Gi"}, 4),
    ],
)
def test_a_pool_is_full_with_more_than_its_limits_can_hold(limits: Document, pods: int) -> None:
    instance = Instance(_problem(limits), SolveBudget(Budget(0)))
    limit_quotas = LimitQuotas(instance, {0: dict(instance.tables[0].pool.limits or {})})
    vector = instance.pod_classes[0].vector
    limit_quotas.take((0,), vector, pods)
    assert not limit_quotas.full
    limit_quotas.take((0,), vector, 2)
    assert limit_quotas.full == {0}


def test_a_resource_that_no_type_has_leaves_the_others_counted() -> None:
    pods = [pod(f"p{number:02}", "web", (1000, 512), {}) for number in range(30)]
    pods[0]["spec"]["containers"][0]["resources"]["requests"]["example.com/none"] = "1"
    pools = [pool("better", weight=20, limits={"cpu": "10"}), pool("general")]
    problem = to_problem(scenario(pods, pools, instance_types()))
    instance = Instance(problem, SolveBudget(Budget(0)))
    limit_quotas = LimitQuotas(instance, {0: {"cpu": 10_000}})
    usual = max(instance.pod_classes, key=lambda one: len(one.pods))
    limit_quotas.take((0,), usual.vector, 10)
    assert not limit_quotas.full
    limit_quotas.take((0,), usual.vector, 1)
    assert limit_quotas.full == {0}


def test_pools_of_which_one_has_no_limits_are_never_full() -> None:
    instance = Instance(_problem({"cpu": "10"}), SolveBudget(Budget(0)))
    limit_quotas = LimitQuotas(instance, {0: {"cpu": 10_000}})
    limit_quotas.take((0, 1), instance.pod_classes[0].vector, 1_000)
    assert not limit_quotas.full


def test_limits_of_what_no_type_has_are_counted_only_once_exceeded() -> None:
    asked = _problem({"cpu": "10", "nodes": "2", **{f"example.com/none-{n}": str(n) for n in range(100)}})
    better = replace(asked.pools[0], usage={"example.com/none-7": 8})
    problem = replace(asked, pools=(better, *asked.pools[1:]))
    instance = Instance(problem, SolveBudget(Budget(0)))
    limits = Limits(instance, OfferingsTable(instance.tables, len(instance.axis.names)))
    assert sorted(limits.remaining[0]) == ["cpu", "example.com/none-7", "nodes"]
    assert not limits.types(0).any()  # what is exceeded refuses all types, whatever they have of it
    assert {claim.pool for claim in solve(problem, Budget()).claims} == {"general"}


@pytest.mark.parametrize("limits", [{"cpu": "10"}, {"nodes": "2"}, {"memory": "20Gi"}])
def test_without_time_the_better_pool_is_used_and_no_pod_left_out(limits: Document) -> None:
    problem = _problem(limits)
    plan = solve(problem, Budget(), stop=lambda: 1.0)
    assert not plan.unschedulable
    assert {claim.pool for claim in plan.claims} == {"better", "general"}
    assert verify(problem, plan) == ()


def test_a_limit_that_is_taken_for_endless_is_kept_to() -> None:
    """Pods seem to need little of it, but each must have a large node of its own."""
    chosen: Document = {"nodeSelector": {labels.INSTANCE_TYPE: "m.xlarge"}}
    pods = [pod(f"p{number}", "web", (100, 128), chosen, port=80) for number in range(5)]
    problem = to_problem(scenario(pods, [pool("general", limits={"cpu": "20"})], instance_types()))
    work = SolveBudget(Budget(0))
    assert Instance(problem, work).loose == Instance(problem, work, strict=True).tight == {0}
    plan = solve(problem, Budget(work=20_000))
    assert verify(problem, plan) == ()
    assert [len(claim.pods) for claim in plan.claims] == [1, 1]  # of eight CPUs each
    assert len(plan.unschedulable) == 3
