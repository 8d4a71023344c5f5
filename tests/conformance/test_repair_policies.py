"""What Karpenter 1.15 made of sets of repair policies: which it refused, and what it decided about nodes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from disruption_cases import Case, conditions, policies

from dovetail.api.codec import decode
from dovetail.api.core import Node
from dovetail.disrupt.repair import Matcher
from dovetail.units.duration import parse_duration
from dovetail.units.timestamp import parse_rfc3339

VECTORS = Path(__file__).parent / "vectors" / "karpenter-1.15" / "repair_policy.jsonl.gz"


def _cases(*, decided: bool) -> list[Case]:
    with gzip.open(VECTORS, "rt") as lines:
        return [case for case in map(json.loads, lines) if ("nodes" in case["input"]) is decided]


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
