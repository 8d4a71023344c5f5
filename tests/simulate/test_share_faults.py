"""Shares of on-demand capacity while spot is taken back en masse and everything else goes wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dovetail.simulate.faults.plan import load as load_faults
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load

pytestmark = pytest.mark.long
EXAMPLE = Path(__file__).parents[2] / "examples" / "on-demand-share"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_shares_hold_through_spot_storms_crashes_and_late_watches(seed: int) -> None:
    scenario = replace(load(EXAMPLE), seed=seed)
    result = simulate(scenario, faults=load_faults(EXAMPLE / "faults.yaml", scenario))
    assert result.summary.violations == []
    assert result.summary.disruptions.by_reason["spot_interrupted"].nodes >= 10
