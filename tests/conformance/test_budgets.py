"""Recorded answers on disruption budgets: same number of allowed disruptions, same active budgets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.nodepool import Budget
from dovetail.disrupt.budgets import UNLIMITED, allowed_disruptions, is_active
from dovetail.units.timestamp import parse_rfc3339

CASES = json.loads((Path(__file__).parent / "vectors" / "budgets.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"]["name"])
def test_recorded(case: dict[str, Any]) -> None:
    given, expected = case["case"], case["expected"]
    budgets = tuple(decode(item, Budget) for item in given["disruption"]["budgets"])
    now = parse_rfc3339(given["time"])
    assert allowed_disruptions(budgets, given["reason"], given["nodes"], 0, now) == expected["allowed"]
    for budget, answer in zip(budgets, expected["budgets"], strict=True):
        if answer["error"]:
            with pytest.raises(ValueError, match="is not a"):
                is_active(budget, now)
        else:
            assert is_active(budget, now) == answer["active"]


@pytest.mark.parametrize(
    ("nodes", "used", "allowed"),
    [("10%", 0, 2), ("10%", 1, 1), ("10%", 5, 0), ("3", 1, 2), ("0", 0, 0), ("100%", 4, 11)],
)
def test_what_is_used_is_taken_off(nodes: str, used: int, allowed: int) -> None:
    assert allowed_disruptions((Budget(nodes=nodes),), "Empty", 15, used, 0) == allowed


def test_reasons_absent_and_empty() -> None:
    assert allowed_disruptions((Budget(nodes="1"),), "Drifted", 9, 0, 0) == 1
    assert allowed_disruptions((Budget(nodes="1", reasons=()),), "Drifted", 9, 0, 0) == UNLIMITED
    assert allowed_disruptions((), "Drifted", 9, 0, 0) == UNLIMITED


@pytest.mark.parametrize(
    ("schedule", "duration", "time", "active"),
    [
        # A date that does not exist: Karpenter's search for it ends with the first of all instants.
        ("0 0 30 2 *", "1h", "2026-03-02T09:00:00Z", True),
        ("0 0 31 4,6,9,11 *", "1h", "2026-03-02T09:00:00Z", True),
        ("0 0 29 2 *", "1h", "2026-03-02T09:00:00Z", False),
        ("0 0 29 2 *", "24h", "2028-02-29T23:59:59Z", True),
        # Either day is enough where both are named; a step of a star counts as named, a star does not.
        ("0 0 30 2 1", "24h", "2026-02-02T09:00:00Z", True),
        ("0 0 13 * 5", "24h", "2026-03-06T09:00:00Z", True),
        ("0 0 13 * */1", "24h", "2026-03-06T09:00:00Z", False),
        ("0 0 */1 * 5", "24h", "2026-03-05T09:00:00Z", False),
        ("0 0 */2 * 5", "24h", "2026-03-05T09:00:00Z", True),
        # From the hit on, to the end of the duration and that instant itself.
        ("0 9 * * *", "1h", "2026-03-02T08:59:59Z", False),
        ("0 9 * * *", "1h", "2026-03-02T09:00:00Z", True),
        ("0 9 * * *", "1h", "2026-03-02T09:59:59Z", True),
        ("0 9 * * *", "1h", "2026-03-02T10:00:00Z", False),
        ("0 9/6 * * *", "1h", "2026-03-02T21:30:00Z", True),
        ("0 9/6 * * *", "1h", "2026-03-02T03:30:00Z", False),
        ("0 9-21/6 * * *", "1h", "2026-03-02T15:30:00Z", True),
        ("0 ? * ? Mon-fRI", "1h", "2026-03-02T15:30:00Z", True),
        ("0 0 1 JAN,jul *", "24h", "2026-07-01T15:30:00Z", True),
    ],
)
def test_when_a_schedule_holds(schedule: str, duration: str, time: str, active: bool) -> None:
    assert is_active(Budget(schedule=schedule, duration=duration), parse_rfc3339(time)) is active


@pytest.mark.parametrize(
    "schedule",
    [
        "0 0 * * 7",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "*/0 * * * *",
        "5-1 * * * *",
        "1-2-3 * * * *",
        "@dailyx",
        "TZ=Asia/Seoul 0 9 * * *",
        "0 9 * * * *",
        "0 9 * *",
        "0 9 * * monday",
        "0 9 L * *",
    ],
)
def test_a_schedule_that_cannot_be_read_allows_nothing(schedule: str) -> None:
    budget = Budget(nodes="50%", schedule=schedule, duration="1h")
    assert allowed_disruptions((budget,), "Empty", 10, 0, 0) == 0


@pytest.mark.parametrize("nodes", range(0, 210, 7))
@pytest.mark.parametrize("share", [0, 1, 5, 10, 33, 50, 99, 100])
def test_shares_are_rounded_up(share: int, nodes: int) -> None:
    allowed = allowed_disruptions((Budget(nodes=f"{share}%"),), "Empty", nodes, 0, 0)
    assert 100 * (allowed - 1) < share * nodes <= 100 * allowed


@pytest.mark.parametrize("reason", ["Drifted", "Empty", "Underutilized", "Unhealthy"])
def test_one_that_cannot_be_read_stops_all_reasons(reason: str) -> None:
    bad = Budget(nodes="5", schedule="61 * * * *", duration="1h", reasons=("Drifted",))
    assert allowed_disruptions((bad, Budget(nodes="3")), reason, 9, 0, 0) == 0
    good = Budget(nodes="5", schedule="51 * * * *", duration="1h", reasons=("Drifted",))
    assert allowed_disruptions((good, Budget(nodes="3")), reason, 9, 0, 0) == 3
    assert allowed_disruptions((good, Budget(nodes="3")), reason, 9, 0, 0, "Asia/Nowhere") == 0
