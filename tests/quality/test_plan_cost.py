"""How far plans are from what is proven necessary, where nothing but resources constrains them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.base.clock import MINUTE
from dovetail.model.problem import Budget
from dovetail.solve.budget import Deadline, Stop, never
from dovetail.solve.solver import solve
from dovetail.testing.scenarios import read_scenarios
from dovetail.units.money import NANO_DOLLARS

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parent.parent / "conformance" / "vectors" / "scheduling"

# Mean of cost / lower bound, both of the plan itself. These may only fall.
GAPS = {
    "basic": 1.001,
    "basic-large": 1.01,
    "init-sidecar": 1.001,
    "packing-cpu": 1.01,
    "packing-large-pods": 1.001,
    "packing-memory": 1.01,
    "packing-mixed": 1.02,
    "packing-tiny": 1.001,
    "pod-overhead": 1.01,
}


# What ends a solve besides counted work. A clock that stands still must not change what is tried.
# A minute, since integer programs go by the machine's own clock, and a busy machine must not end them.
ENDS: dict[str, Callable[[], Stop]] = {
    "counted work": lambda: never,
    "a clock": lambda: Deadline(MINUTE, lambda: 0),
}


@pytest.mark.parametrize("ends", sorted(ENDS))
@pytest.mark.parametrize("feature", sorted(GAPS))
def test_the_gap_to_the_bound(feature: str, ends: str) -> None:
    ratios = []
    for scenario in read_scenarios(FOLDER / f"{feature}.jsonl.gz"):
        cost = solve(scenario.problem, stop=ENDS[ends]()).cost
        if cost.lower_bound:
            ratios.append(cost.hourly / cost.lower_bound)
    assert sum(ratios) / len(ratios) <= GAPS[feature]


# What the answer of the program under rules costs that comes upon the end of the work, in dollars per hour.
@pytest.mark.parametrize(("name", "most"), [("mixed-036", 13.07), ("mixed-037", 0.485)])
def test_a_cheaper_answer_is_followed_though_the_work_is_used_up(name: str, most: float) -> None:
    [problem] = [one.problem for one in read_scenarios(FOLDER / "mixed.jsonl.gz") if one.name == name]
    assert solve(problem, Budget(work=300_000)).cost.hourly <= most * NANO_DOLLARS
