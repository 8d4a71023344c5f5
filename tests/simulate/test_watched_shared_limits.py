"""The watchdog sees launches that forget a limit which pools share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dovetail.cluster.shared_limits import Counting
from dovetail.controllers import shared_limits
from dovetail.controllers.shared_limits import Admitted
from dovetail.model.plan import PlannedClaim
from dovetail.simulate.faults.plan import load as load_faults
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load

EXAMPLE = Path(__file__).parents[2] / "examples" / "shared-limits"


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_a_limit_holds_through_spot_storms_crashes_and_late_watches(seed: int) -> None:
    scenario = replace(load(EXAMPLE), seed=seed)
    result = simulate(scenario, faults=load_faults(EXAMPLE / "faults.yaml", scenario))
    assert result.summary.violations == []
    assert result.summary.disruptions.by_reason["spot_interrupted"].nodes >= 10


def test_launches_that_are_not_counted_again_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_them(_counting: Counting, claims: Sequence[PlannedClaim], _room: object) -> list[Admitted]:
        return [(one, "") for one in claims]

    monkeypatch.setattr(shared_limits, "admit", all_of_them)
    found = simulate(load(EXAMPLE)).summary.violations
    assert {(one.rule, one.subject) for one in found} == {("shared limit", "two-teams")}
