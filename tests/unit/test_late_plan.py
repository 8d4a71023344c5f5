"""Plans for which there is no time at all: quickly made, correct, and none left out who had a place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest

from benchmarks.solve import mix, rules
from dovetail.api.core import Container, Pod, PodSpec, ResourceRequirements
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.api.meta import Meta
from dovetail.cloud.kwok.types import default_types
from dovetail.model import labels
from dovetail.model.plan import OUT_OF_TIME
from dovetail.model.problem import Budget, Pool, Problem
from dovetail.model.requirement import Requirements
from dovetail.solve.budget import Deadline
from dovetail.solve.solver import solve
from dovetail.testing.crowds import crowd
from dovetail.units.quantity import parse_quantity
from dovetail.verify import verify

pytestmark = pytest.mark.long

_NO_LIMITS = {
    "distinct": rules.distinct(700),
    "one per node": rules.apart(60),
    "mix": mix.diverse(300),
    "deployments": rules.deployments(400),
}


@pytest.mark.parametrize("problem", _NO_LIMITS.values(), ids=_NO_LIMITS)
def test_a_plan_without_time_leaves_no_pod_out(problem: Problem) -> None:
    plan = solve(problem, Budget(), stop=lambda: 1.0)
    assert not plan.unschedulable
    assert verify(problem, plan) == ()
    assert plan.cost.lower_bound > 0


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_without_time_breaks_no_rule(seed: int) -> None:
    """Limits, minValues, weights, existing nodes and all rules between pods."""
    problem = crowd(seed, 150, 40)
    plan = solve(problem, Budget(), stop=lambda: 1.0)
    assert verify(problem, plan) == ()
    assert plan.cost.lower_bound <= plan.cost.hourly


@pytest.mark.parametrize("step", [10, 20, 30, 40, 100])
def test_a_plan_with_too_little_time_leaves_pods_over_and_breaks_no_rule(step: int) -> None:
    """Of some pods none has thought, others were to be near those that no node could be bought for."""
    time_over = 0
    for seed in range(12):
        problem = crowd(seed, 300, 120)
        stop = Deadline(1_000, partial(next, count(0, step)))
        plan = solve(problem, Budget(100_000), stop=stop)
        assert verify(problem, plan) == (), seed
        time_over += sum(each.reason == OUT_OF_TIME for each in plan.unschedulable)
    assert time_over


def test_little_is_lost_where_sizes_complement_each_other() -> None:
    problem = rules.distinct(700)
    assert solve(problem, Budget(), stop=lambda: 1.0).cost.gap < 0.03


def _over(asked: Iterator[int], share: float) -> float:
    """That share of the time, once so many have asked."""
    return share if next(asked, None) is None else 0.0


def _two_pools() -> Problem:
    """Five pods of one core; of two pools, the first one's nodes cost more."""
    types, ref = (
        default_types(),
        NodeClassRef(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default"),
    )
    pools = []
    for name, capacity_type in (("team", labels.ON_DEMAND), ("usual", labels.SPOT)):
        wanted = {labels.ARCH: "amd64", labels.OS: "linux", labels.CAPACITY_TYPE: capacity_type}
        pools.append(Pool(name, ref, Requirements.from_labels(wanted), {}, types, limits={"cpu": 1_000_000}))
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": parse_quantity("1")}))
    pods = tuple(
        Pod(metadata=Meta(name=f"p{number}", namespace="default"), spec=PodSpec(containers=(container,)))
        for number in range(5)
    )
    return Problem(pods, tuple(pools))


@pytest.mark.parametrize("over", [0.5, 0.7, 1.0])
def test_time_that_runs_out_in_the_middle_buys_nothing_dear(over: float) -> None:
    """Of the columns looked at again for every node none may be cheap for what is left."""
    problem = _two_pools()
    best = solve(problem).cost.hourly
    for questions in range(40):
        asked = iter(range(questions))
        plan = solve(problem, Budget(), stop=partial(_over, asked, over))
        assert plan.cost.hourly == best, questions
