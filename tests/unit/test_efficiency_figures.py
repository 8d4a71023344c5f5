"""Efficiency of a simulation from the looks that the controller took."""

from __future__ import annotations

from typing import Any

from dovetail.simulate.analysis.summary import efficiency_figures


def look(at: int, bound: int, cost: int) -> dict[str, Any]:
    return {"t": at, "kind": "efficiency", "lowerBound": bound, "cost": cost}


def test_looks_count_by_what_was_paid_until_the_next() -> None:
    found = efficiency_figures([look(0, 50, 100), look(30, 30, 40), {"t": 31, "kind": "other"}], 40)
    assert (found.start, found.end) == (0.5, 0.75)
    assert found.mean == round((50 * 30 + 30 * 10) / (100 * 30 + 40 * 10), 4)


def test_a_cluster_that_was_never_looked_at_has_none() -> None:
    found = efficiency_figures([], 40)
    assert (found.start, found.end, found.mean) == (None, None, None)


def test_one_look_at_the_very_end_counts() -> None:
    assert efficiency_figures([look(40, 1, 4)], 40).mean == 0.25
