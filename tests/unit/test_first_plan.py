"""Parts of the first plan: cells of near-equal lots, lots that go back to their items."""

from __future__ import annotations

from functools import partial
from itertools import count

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.solve import mix, rules
from dovetail.model.problem import Budget
from dovetail.solve.budget import Deadline
from dovetail.solve.pack.aggregation import CoarseClasses
from dovetail.solve.solver import solve
from dovetail.testing.crowds import crowd
from dovetail.verify import verify

_ROOM = np.array([[4_000, 16_000], [8_000, 16_000], [64_000, 128_000]], dtype=np.int64)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from((1, 50, 400, 800, 1_000)))
def test_what_a_cell_stands_for_is_no_larger_than_the_cell(seed: int, size: int) -> None:
    draw = np.random.default_rng(seed)
    vectors = draw.integers(0, 20_000, size=(size, 2))
    kind = draw.integers(0, 3, size=size)
    feasible = np.all(vectors[:, None] <= _ROOM[None], axis=2)
    cells = CoarseClasses(vectors, kind, feasible, _ROOM)
    assert np.all(vectors <= cells.vectors[cells.cell])
    assert np.array_equal(cells.kind[cells.cell], kind)
    assert np.all(cells.feasible[cells.cell] <= feasible)
    # Whatever fits somewhere by itself still does.
    assert np.array_equal(cells.feasible.any(axis=1)[cells.cell], feasible.any(axis=1))
    left = draw.integers(0, 4, size=size)
    total = cells.total(left)
    wanted = [(int(cell), int(draw.integers(0, total[cell] + 1))) for cell in np.flatnonzero(total)]
    taken = cells.drawn(wanted, left)
    assert np.all(taken <= left)
    assert all(cells.total(taken)[cell] == number for cell, number in wanted)


def test_only_near_equal_lots_are_merged_where_there_are_not_very_many() -> None:
    sizes = np.array(
        [[100 * 2 ** (number % 8), 200 * 2 ** (number // 8)] for number in range(64)], dtype=np.int64
    )
    vectors = np.tile(sizes, (8, 1))
    kind = np.repeat(np.arange(8), 64)
    feasible = np.ones((512, len(_ROOM)), dtype=np.bool_)
    assert CoarseClasses(vectors, kind, feasible, _ROOM).trivial
    near = vectors + np.arange(8)[np.tile(np.arange(8), 64), None]
    merged = CoarseClasses(near, np.zeros(512, dtype=np.int64), feasible, _ROOM)
    assert len(merged.vectors) <= 300


def test_merged_lots_are_handed_back_to_their_items() -> None:
    problem = mix.diverse(120)
    plan = solve(problem, Budget(work=1))
    assert not plan.unschedulable
    assert verify(problem, plan) == ()
    pods = sorted(pod for item in plan.claims for pod in item.pods)
    assert pods == sorted(pod.key for pod in problem.pods)


def test_many_different_requests_cost_little_more_than_needed_at_once() -> None:
    problem = rules.distinct(700)
    plan = solve(problem, Budget(work=1))
    assert not plan.unschedulable
    assert verify(problem, plan) == ()
    assert plan.cost.hourly <= 1.02 * plan.cost.lower_bound


def test_many_different_pods_are_packed_first_fit_at_once() -> None:
    """Greedy patterns took 560,000 units more, and made a plan as dear."""
    plan = solve(rules.distinct(800), Budget(work=0))
    assert not plan.unschedulable
    assert plan.work < 600_000
    assert plan.cost.gap < 0.01


def test_a_plan_without_any_node_is_one_too() -> None:
    """Limits leave nothing to be bought, whatever work there is to look for better."""
    problem = crowd(500_258, 4, 1)
    plan = solve(problem, Budget(30_000))
    assert not plan.claims
    assert len(plan.unschedulable) == 4


def test_pods_that_there_was_no_time_for_nodes_for_are_untried_and_not_refused() -> None:
    problem, left = rules.distinct(300), []
    for step in (1, 2, 3, 4, 6):
        plan = solve(problem, Budget(0), stop=Deadline(1_000, partial(next, count(0, step))))
        assert not plan.refused, step  # any of them would find a node
        assert verify(problem, plan) == ()
        left.append(len(plan.untried))
    assert any(0 < each < 300 for each in left), left


def test_pods_of_one_shape_that_are_placed_one_by_one_have_their_turn_as_long_as_there_is_time() -> None:
    """Hundreds of a few shapes are each on a node of another pod: a class of them takes hundreds of steps."""
    problem, left = crowd(33_959, 1_000, 10), []
    for step in (1, 4):
        clock = count(0, step)
        plan = solve(problem, Budget(0), stop=Deadline(1_000, partial(next, clock)))
        assert next(clock) <= 1_100, step
        assert verify(problem, plan) == ()
        assert not plan.refused, step  # with more time all of them have a place
        left.append(len(plan.untried))
    assert left[0] == 0 < left[1] < 1_000, left
