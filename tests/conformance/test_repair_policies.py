"""What Karpenter 1.15 made of sets of repair policies: which it refused, and what it decided about nodes."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from disruption_cases import Case, conditions, policies

from dovetail.api.codec import decode
from dovetail.api.core import Node
from dovetail.base.errors import InputError
from dovetail.cloud.repair_policies import read_repair_policies
from dovetail.disrupt.repair import Matcher
from dovetail.units.duration import parse_duration
from dovetail.units.timestamp import parse_rfc3339

VECTORS = Path(__file__).parent / "vectors" / "karpenter-1.15" / "repair_policy.jsonl.gz"


def _cases(*, decided: bool) -> list[Case]:
    with gzip.open(VECTORS, "rt") as lines:
        return [case for case in map(json.loads, lines) if ("nodes" in case["input"]) is decided]


def _text(items: list[Case]) -> str:
    names = {"condition": "conditionType", "status": "conditionStatus", "toleration": "tolerationDuration"}
    written = [{names.get(key, key): value for key, value in item.items()} for item in items]
    return json.dumps({"policies": written})


def _said(text: str) -> set[str]:
    """Single complaints. The original prints whole policies, Dovetail their numbers: neither is compared."""
    text = text.removeprefix("node repair requires valid RepairPolicies, ")
    text = re.sub(r"policy\[\d+](=\{[^{}]*\})?|(policy )?\{[^{}]*\}", "P", text)
    return set(text.split("; "))


@pytest.mark.parametrize("case", _cases(decided=False), ids=lambda case: str(case["name"]))
def test_refused_as_recorded(case: Case) -> None:
    given, (expected,) = case["input"]["policies"], case["outcomes"]
    if expected["valid"]:
        assert read_repair_policies(_text(given), "") == policies(given)
        return
    with pytest.raises(InputError) as refused:
        read_repair_policies(_text(given), "")
    assert _said("; ".join(fault.message for fault in refused.value.faults)) == _said(expected["error"])


@pytest.mark.parametrize("case", _cases(decided=True), ids=lambda case: str(case["name"]))
def test_decided_as_recorded(case: Case) -> None:
    given, (expected,) = case["input"], case["outcomes"]
    (item,) = given["nodes"]
    meta = {"name": item["name"], "creationTimestamp": item["createdAt"]}
    node = decode({"metadata": meta, "status": {"conditions": conditions(item)}}, Node)
    matcher = Matcher(policies(given["policies"]))
    rebooted = parse_rfc3339(given["notBefore"]) if "notBefore" in given else 0
    found = matcher.diagnose(node, parse_rfc3339(given["now"]), rebooted=rebooted)
    assert len(matcher.patient(node, None, rebooted)) == expected["matches"]
    if not expected["action"]:
        assert found is None
        return
    assert found is not None
    first, policy = found.match, found.match.policy
    status = {one["type"]: one["status"] for one in item["conditions"]}[first.condition]
    assert (found.action, first.condition, status, first.reason, policy.reason, not policy.reason) == tuple(
        expected[name] for name in ("action", "condition", "status", "reason", "reasonRegex", "fallback")
    )
    assert first.since == parse_rfc3339(expected["eligibleAt"])
    assert f"{found.score:.4f}" == expected["score"]
    grace = expected.get("terminationGracePeriod")
    assert found.repair.grace == (None if grace is None else parse_duration(grace))
    assert (found.hastiest.condition if found.hastiest is not None else None) == expected.get(
        "terminationGracePeriodCondition"
    )
