"""Integer programs within counted work: presolve leaves out what would take too long without a question."""

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
