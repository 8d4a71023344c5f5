"""Integer programs within counted work: none takes too long without a question, or goes on and on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.base.clock import SECOND
from dovetail.model.problem import WORK_PER_SECOND, Budget
from dovetail.solve.budget import Deadline, SolveBudget, Stop, never
from dovetail.solve.colgen import highs


def cover(things: int) -> Any:
    """So many sets of two things each, in a ring; every thing is in one of those that are chosen at least."""
    row = np.concatenate([np.arange(things), (np.arange(things) + 1) % things])
    column = np.tile(np.arange(things), 2)
    limits = np.zeros(things), np.ones(things)
    rows = np.ones(things), np.full(things, np.inf)
    return highs.integer_program(np.ones(things), limits, rows, (row, column, np.ones(2 * things)))


def at_rest(seconds: float) -> Stop:
    """A clock that stands still, so many seconds before the end of a solve."""
    return Deadline(int(seconds * SECOND), lambda: 0)


@pytest.mark.parametrize(
    ("work", "stop", "probes"),
    [
        (WORK_PER_SECOND, never, True),
        (5_000, never, False),  # 160 units, and 100 are for this one
        (WORK_PER_SECOND, at_rest(0.005), True),
        (WORK_PER_SECOND, at_rest(0.0021), False),
    ],
)
def test_variables_are_probed_only_where_work_and_time_last_for_it(
    monkeypatch: pytest.MonkeyPatch, work: int, stop: Stop, probes: bool
) -> None:
    asked, made = list[dict[str, Any]](), highs.asking_solver

    def noted(**options: bool | float | str) -> Any:
        asked.append(options)
        return made(**options)

    monkeypatch.setattr(highs, "asking_solver", noted)
    answer = highs.minimum(cover(40), SolveBudget(Budget(work), stop), share=0.02)
    assert [options["presolve_rule_off"] == 0 for options in asked] == [probes]
    if stop is never and probes:
        assert answer.bound == 20


def test_the_answer_is_the_same_without_probing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for units in (0.05, 1e9):
        monkeypatch.setattr(highs, "_PROBED", units)
        answer = highs.minimum(cover(41), SolveBudget(Budget(WORK_PER_SECOND)))
        assert answer.values is not None
        found.append((answer.bound, answer.values.sum()))
    assert found == [(21, 21), (21, 21)]


def test_a_search_that_takes_long_begins_anew_from_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    need = random.integers(1, 60, (4, 16))
    row, column = np.indices(need.shape).reshape(2, -1)
    limits = np.zeros(16), np.full(16, 2.0)
    rows = need.sum(axis=1) * 0.7, np.full(4, np.inf)
    cost = random.integers(40, 90, 16).astype(np.float64)
    model = highs.integer_program(cost, limits, rows, (row, column, need.astype(np.float64).ravel()))
    asked, made = list[dict[str, Any]](), highs.asking_solver

    def noted(**options: bool | float | str) -> Any:
        asked.append(options)
        return made(**options)

    monkeypatch.setattr(highs, "asking_solver", noted)
    found = []
    for questions in (1_000_000, 10):
        monkeypatch.setattr(highs, "_ANEW", questions)
        answer = highs.minimum(model, SolveBudget(Budget(20 * WORK_PER_SECOND)), share=1.0)
        assert answer.values is not None
        found.append(float(cost @ answer.values))
        assert answer.bound >= found[-1] * 0.999999
    assert found[0] == found[1]
    assert [options["random_seed"] for options in asked[:3]] == [1, 1, 2]
    assert asked[2]["objective_bound"] < asked[1]["objective_bound"]
