"""What ends a solve: work that is used up, or a stop from outside."""

from __future__ import annotations

import itertools

import pytest

from dovetail.base.clock import SECOND
from dovetail.model.problem import WORK_PER_SECOND, Budget
from dovetail.solve.work import Work, until


def test_counted_work_ends_a_solve() -> None:
    work = Work(Budget(10))
    work.spend(9)
    assert work.left
    work.spend(1)
    assert not work.left


def test_a_stop_is_final() -> None:
    answers = iter([False, True, False])
    work = Work(Budget(10), lambda: next(answers))
    assert [work.left, work.left, work.left] == [True, False, False]


def test_until_looks_at_the_clock_that_is_given() -> None:
    clock = itertools.count(97)
    stop = until(100, lambda: next(clock))
    assert [stop() for _ in range(5)] == [False, False, False, True, True]


@pytest.mark.parametrize(
    ("nanoseconds", "rate", "work"),
    [(SECOND, WORK_PER_SECOND, WORK_PER_SECOND), (SECOND // 2, 3_000_000, 1_500_000), (1, 1_000, 1)],
)
def test_a_deadline_maps_to_work(nanoseconds: int, rate: int, work: int) -> None:
    assert Budget.within(nanoseconds, rate) == Budget(work)
