"""Bursts that must be spread over zones run on the nodes bought for them: figures of whole plays."""

from __future__ import annotations

import pytest

from benchmarks.realised.run import play


@pytest.mark.parametrize("name", ["daemons-40", "rolling-130"])
def test_a_burst_runs_on_its_first_plan(name: str) -> None:
    """They needed a node more, 6 and 8 %, while pods that were refused kept others like them out."""
    found = play((name, 1), minutes=4)
    assert (found["unbound"], found["waves"]) == (0, 1)
    assert found["on_first"] == found["at_bound"] == 1
    assert found["p99"] <= 1.15 * found["slowest"] + 10
