"""Node repair, drift, static drift as Karpenter 1.15 decided: recorded commands, budgets and events."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from disruption_cases import Answer, Case, play

from dovetail.model import labels
from dovetail.units.duration import parse_duration

VECTORS = Path(__file__).parent / "vectors" / "karpenter-1.15" / "disruption_method.jsonl.gz"
# What is compared of events: not what execution says of its own doings, which no recorded case has.
TOLD = ("DisruptionBlocked", "NodeRepairBlocked")
RESERVATION = "example.com/reservation-id"

_NO_VAIN_LAUNCH = "a launch that the cloud would refuse is not tried; the node says why it stays"
_FULL_ALONE = "there is no other pool to fall through to"
_PARTLY_USED = "a budget that is used up, not only one of zero, is told on the pool"
# Differences, each part of an answer with the reason why Dovetail's is better.
DELIBERATE = {
    **{
        f"{case} [gate off]": {"commands": _NO_VAIN_LAUNCH, "events": _NO_VAIN_LAUNCH}
        for case in (
            "repair: static, reservations full, node holds a slot",
            "repair: static, reservations full, node without slot",
            "static drift: reservation gone from offerings",
            "static drift: reservations full",
            "static drift: reservations full, one node outside",
        )
    },
    "drift: full reservation, too many pods for one slot [gate off]": {"events": _FULL_ALONE},
    "drift: full reservation, too many pods for one slot [gate on]": {"events": _FULL_ALONE},
    "drift: reserved-only pool, reservation full, one pod [gate off]": {"events": _FULL_ALONE},
    "repair: a deleting node uses the budget": {"events": _PARTLY_USED},
}


def _cases() -> list[Case]:
    with gzip.open(VECTORS, "rt") as lines:
        return list(map(json.loads, lines))


def _command(recorded: Case) -> Case:
    found = {
        key: recorded[key] for key in ("candidates", "decision", "terminateFirstReason") if key in recorded
    }
    if "drainBound" in recorded:
        found["drainBound"] = parse_duration(recorded["drainBound"])
    found["replacements"] = [
        {
            "nodePool": one["nodePool"],
            "instanceTypes": one["instanceTypes"],
            "capacityType": _values(one["requirements"], labels.CAPACITY_TYPE),
            "reservation": _values(one["requirements"], RESERVATION),
        }
        for one in recorded["replacements"] or ()
    ]
    return found


def _values(requirements: str, key: str) -> list[str]:
    found = re.search(rf"{re.escape(key)} In \[([^]]*)]", requirements)
    return found[1].split() if found else []


def _as_recorded(command: Case) -> Case:
    """Dovetail writes the capacity type on every claim, the original where only one is left."""
    for one in command["replacements"]:
        if one["capacityType"] == ["on-demand"]:
            one["capacityType"] = []
    return command


def _events(recorded: list[Case] | None, due: set[str]) -> set[tuple[str, ...]]:
    """As the recorder writes them: with a capital, and without what stands at the ends.

    The original says of each node what keeps it, whatever the method; here a method does of those due for it.
    """
    found = set()
    for one in recorded or ():
        kind, _, name = one["object"].partition("/")
        idle = kind in ("Node", "NodeClaim") and name.removesuffix("-nc") not in due
        if one["reason"] in TOLD and not idle:
            text = one["message"].strip()
            found.add((one["object"], one["type"], one["reason"], text[:1].upper() + text[1:]))
    return found


def _due(given: Case) -> set[str]:
    """Nodes that are ill, or drifted; whether that is so for long enough shows in the events."""
    sick = given["method"] == "repair"
    return {one["name"] for one in given["nodes"] if one.get("conditions" if sick else "drifted")}


def _found(answer: Answer) -> dict[str, Any]:
    return {
        "candidates": answer.candidates,
        "budget": answer.budget,
        "commands": list(map(_as_recorded, answer.commands)),
        "events": {event for event in answer.events if event[2] in TOLD},
    }


@pytest.mark.parametrize("case", _cases(), ids=lambda case: str(case["name"]))
def test_decided_as_recorded(case: Case) -> None:
    given, (expected,) = case["input"], case["outcomes"]
    answer = play(given)
    found = _found(answer)
    recorded = {
        "candidates": sorted(expected["candidates"] or ()),
        "budget": expected["budget"],
        "commands": list(map(_command, expected["commands"] or ())),
        "events": _events(expected["events"], _due(given)),
    }
    if given["method"] == "staticdrift" and found["commands"]:
        # One a turn, and the turns after it say so of what went.
        found["events"] = {event for event in found["events"] if "marked for deletion" not in event[3]}
    differing = {part for part in recorded if found[part] != recorded[part]}
    assert differing == set(DELIBERATE.get(case["name"], {})), (found, recorded)
    for claim, written in expected.get("nodeClaims", {}).items():
        assert answer.claims[claim] == written


def test_each_difference_is_of_a_recorded_case() -> None:
    assert DELIBERATE.keys() <= {case["name"] for case in _cases()}
