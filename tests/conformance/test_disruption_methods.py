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


_PLAIN, _REBOOT = "repair: dynamic pool, replacement possible [gate off]", "repair: reboot"
_STATIC, _AT_LIMIT = "repair: static at limit [gate off]", "static drift: at the limit [gate on]"
_NO_TIME = "Repair requires a termination grace period to bypass blocking pods"
_NO_BUDGET = "No allowed disruptions for disruption reason Unhealthy due to blocking budget"
_FULL = "Static NodePool is at its node limit and cannot stage a replacement"
_GUARDED = {"annotations": {}, "labels": {"app": "a"}}
_BUDGET = {"pdbs": [{"name": "x", "matchLabels": {"app": "a"}}]}


def _ready(since: str, status: str = "False") -> Case:
    return {
        "conditions": [{"type": "Ready", "status": status, "reason": "x", "since": f"2026-11-23T{since}Z"}]
    }


# What the specification says of cases near the recorded ones: the base, what is changed of its first node,
# pool, pod and of the whole, and then decisions and messages.
VARIANTS: dict[str, tuple[str, dict[str, Case], list[str], set[str]]] = {
    "a budget for pods, and time": (
        "repair: pod do-not-disrupt with a bound",
        {"pod": _GUARDED, "case": _BUDGET},
        ["replace"],
        set(),
    ),
    "a budget for pods, and no time": (
        "repair: pod do-not-disrupt without any bound",
        {"pod": _GUARDED, "case": _BUDGET},
        [],
        {_NO_TIME},
    ),
    "due this second": (_PLAIN, {"node": _ready("11:30:00")}, ["replace"], set()),
    "due in a second": (_PLAIN, {"node": _ready("11:30:01")}, [], set()),
    "a status that is not listed": (_PLAIN, {"node": _ready("10:00:00", "Unknown")}, [], set()),
    "a budget for the reason": (
        _PLAIN,
        {"pool": {"budgets": [{"nodes": "0", "reasons": ["Unhealthy"]}, {"nodes": "100%"}]}},
        [],
        {_NO_BUDGET},
    ),
    "10 % of six, rounded up": (_PLAIN, {"pool": {"budgets": [{"nodes": "10%"}]}}, ["replace"], set()),
    "a budget that cannot be read, for another reason": (
        _PLAIN,
        {
            "pool": {
                "budgets": [{"nodes": "9", "schedule": "61 * * * *", "duration": "1h", "reasons": ["Empty"]}]
            }
        },
        [],
        {_NO_BUDGET},
    ),
    "an uninitialized node needs no budget": (
        _PLAIN,
        {"node": {"uninitialized": True}, "pool": {"budgets": [{"nodes": "0"}]}},
        ["replace"],
        set(),
    ),
    "without a pool": (
        _PLAIN,
        {"node": {"pool": "", "standalone": True}},
        [],
        {"Repair requires a NodePool to construct and budget a safe replacement"},
    ),
    "of a pool that is gone": (
        _PLAIN,
        {"node": {"pool": "gone"}},
        [],
        {"NodePool not found (NodePool=gone)"},
    ),
    "do-not-repair of a healthy node is silent": (
        _PLAIN,
        {"node": {"conditions": [], "annotations": {labels.DO_NOT_REPAIR: "true"}}},
        [],
        set(),
    ),
    "a reboot needs no room in a static pool": (
        _REBOOT,
        {"pool": {"replicas": 6, "nodeLimit": 6}},
        ["reboot"],
        set(),
    ),
    "a reboot needs a budget": (_REBOOT, {"pool": {"budgets": [{"nodes": "0"}]}}, [], {_NO_BUDGET}),
    "a reboot that did not help, at the limit": (
        _REBOOT,
        {
            "node": {"committedReboots": ["2026-11-23T02:00:00Z", "2026-11-23T07:00:00Z"]},
            "pool": {"replicas": 6, "nodeLimit": 6},
            "case": {"gates": {"TerminateFirstRepair": True}},
        },
        ["terminate-first"],
        set(),
    ),
    "at the limit, gate on": (
        _STATIC,
        {"case": {"gates": {"TerminateFirstRepair": True}}},
        ["terminate-first"],
        set(),
    ),
    "at the limit, gate on, not ready": (
        _STATIC,
        {"case": {"gates": {"TerminateFirstRepair": True}}, "pool": {"notReady": True}},
        [],
        {_FULL},
    ),
    "above its number": (_PLAIN, {"pool": {"replicas": 5}}, [], set()),
    "static drift, one by budget": (
        _AT_LIMIT,
        {"pool": {"budgets": [{"nodes": "1"}]}},
        ["terminate-first"],
        {"No allowed disruptions for disruption reason Drifted due to blocking budget"},
    ),
    "static drift, launches paused": (
        _AT_LIMIT,
        {"pool": {"annotations": {labels.PAUSE: "launches"}}},
        [],
        {_FULL},
    ),
    "static drift, room for two": (
        "static drift: room under the limit [gate on]",
        {"pool": {"nodeLimit": 4}},
        ["replace", "replace"],
        set(),
    ),
    "drift, a reservation that is not offered": (
        "drift: two drifted nodes of one full reservation [gate on]",
        {"node": {"reservationID": "cr-7"}},
        ["terminate-first"],
        {"Not all pods would schedule, default/a => "},
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_decided_as_specified(name: str) -> None:
    base, changes, decisions, told = VARIANTS[name]
    (case,) = (case for case in _cases() if case["name"] == base)
    given = case["input"]
    for part, change in changes.items():
        where = {"node": given["nodes"], "pool": given["nodePools"], "pod": given.get("pods")}.get(
            part, [given]
        )
        where[0].update(change)
    answer = play(given)
    assert [command["decision"] for command in answer.commands] == decisions
    found = {
        event[3] for event in answer.events if event[2] in TOLD and "marked for deletion" not in event[3]
    }
    assert len(found) == len(told)
    assert all(any(text.startswith(one) for text in found) for one in told)
