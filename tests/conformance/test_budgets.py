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
