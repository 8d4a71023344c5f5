"""The benchmarks' problems, smaller: costs against the proof, in counted work so that every machine agrees.

DOVETAIL_TRACES names CSV traces, separated as in PATH, that are planned as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from benchmarks.solve import mix, original, rules, synthetic
from benchmarks.solve.floor import relaxation
from benchmarks.solve.traces import Market, jittered, question, read
from dovetail.model.problem import WORK_PER_SECOND, Budget, Problem
from dovetail.solve.solver import solve
from dovetail.verify import verify

pytestmark = pytest.mark.long

TRACES = [Path(name) for name in os.environ.get("DOVETAIL_TRACES", "").split(os.pathsep) if name]
EVERY_TYPE = Market("us-east-1", spot=False, ordinary=False)
ORDINARY = Market("us-east-1", spot=False, ordinary=True)
ORDINARY_SPOT = Market("us-east-1", spot=True, ordinary=True)
MADE_UP = partial(synthetic.requests, 1_500, 60)
JITTERED = partial(jittered, MADE_UP(), 200)

# name -> (problem, seconds of work, most cost / lower bound). The last may only fall.
CASES: dict[str, tuple[Callable[[], Problem], float, float]] = {
    "mix": (partial(mix.diverse, 500), 1, 1.04),
    "preferences ignored": (partial(mix.preferences, 500, respect=False), 0.1, 1.001),
    "deployments": (partial(rules.deployments, 200), 3, 1.025),  # 1.03 with 1
    "distinct requests": (partial(rules.distinct, 500), 0.2, 1.002),
    "one pod per node": (partial(rules.apart, 200), 0.2, 1.001),
    "every type": (partial(question, MADE_UP, EVERY_TYPE), 1, 1.002),
    "every type, jittered": (partial(question, JITTERED, EVERY_TYPE), 1, 1.002),
    "ordinary types": (partial(question, MADE_UP, ORDINARY), 1, 1.002),
    "ordinary types with spot": (partial(question, MADE_UP, ORDINARY_SPOT), 1, 1.001),
    "the original's own": (partial(original.problem, "diverse_2000"), 1, 1.03),
    "the original's own, longer": (partial(original.problem, "diverse_2000"), 10, 1.02),
}
# The first plan alone against the resource relaxation. These may only fall.
FIRST = [(EVERY_TYPE, 1.005), (ORDINARY, 1.14)]
# A second's plan of a trace against its proof. These may only fall.
RECORDED = [(EVERY_TYPE, 1.015), (ORDINARY, 1.0005)]
NAMES = ["every type", "ordinary types"]


@pytest.mark.parametrize("name", CASES)
def test_the_gap_is_small_and_proven(name: str) -> None:
    make, seconds, most = CASES[name]
    problem = make()
    plan = solve(problem, Budget(work=int(seconds * WORK_PER_SECOND)))
    assert not plan.unschedulable
    assert verify(problem, plan) == ()
    assert plan.cost.hourly <= most * plan.cost.lower_bound


@pytest.mark.parametrize(("market", "most"), FIRST, ids=NAMES)
def test_the_first_plan_is_near_the_relaxation(market: Market, most: float) -> None:
    problem = question(MADE_UP, market)
    plan = solve(problem, Budget(work=1))
    assert not plan.unschedulable
    assert plan.cost.hourly / 1e9 <= most * relaxation(problem)


@pytest.mark.skipif(not TRACES, reason="DOVETAIL_TRACES names no trace")
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
@pytest.mark.parametrize(("market", "most"), RECORDED, ids=NAMES)
def test_a_recorded_trace_costs_little_more_than_it_must(path: Path, market: Market, most: float) -> None:
    problem = question(partial(read, path), market)
    plan = solve(problem)
    assert not plan.unschedulable
    assert plan.cost.hourly <= most * plan.cost.lower_bound
