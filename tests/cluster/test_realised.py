"""A burst that must be spread over zones, on a real scheduler: what is bought is what runs."""

from __future__ import annotations

from benchmarks.realised.cluster import REAL, SIMULATED, both


def test_a_burst_over_zones_runs_on_the_nodes_of_its_first_plan() -> None:
    rows = dict(both("zones-33", minutes=2))
    for world in (SIMULATED, REAL):
        row = rows[world]
        assert row["unbound"] == 0, rows
        assert row["on_first"] >= 0.95, rows
        assert row["at_bound"] <= 1.05, rows
