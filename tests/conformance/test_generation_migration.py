"""Recorded answers of the original's migration tool, v1alpha5 and v1alpha1 -> v1beta1 -> v1."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dovetail.api.admission import SCHEMAS
from dovetail.api.generations import alpha_to_beta, beta_schema, beta_to_v1
from tests.conformance.generation_cases import Case, as_go_writes, places, read_cases, rule_texts, verdict

CASES = read_cases("alpha_convert")
# What the original's tool does worse than it need; the recorded cases are marked.
NEVER = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
# Cases whose v1 object is judged otherwise by today's definition than by that of 1.0.14.
NEWER = {
    "no-provider": "today's definition wants a nodeClassRef that says something",
    "template-ami-owners-custom": "the text of today's rule names ssmParameter as well",
    "template-subnet-ids-and-tags": "today's rules of terms have other words",
    "template-sg-ids-and-tags": "today's rules of terms have other words",
    "template-no-subnet": "today's rules of terms have other words",
    "provider-and-ref": "today's rules of terms have other words",
}


def _as_ours(document: dict[str, Any], case: Case) -> dict[str, Any]:
    """The recorded object with what we do on purpose otherwise."""
    document = json.loads(json.dumps(document))
    spec = document["spec"]
    marks = " ".join(case.get("ours_may_differ", ()))
    if "WhenEmpty" in marks and document["kind"] == "NodePool":
        assert "consolidationPolicy" not in spec["disruption"]
        spec["disruption"] |= NEVER
    profile = (case["input"]["spec"].get("provider") or case["input"]["spec"]).get("instanceProfile")
    if document["kind"] == "EC2NodeClass" and profile:
        assert spec.pop("role") == alpha_to_beta.ROLE_PLACEHOLDER
        spec["instanceProfile"] = profile
    return document


def test_every_recorded_object_is_here() -> None:
    assert len(CASES) == 78


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_same_objects(case: Case) -> None:
    expected, defaults = case["expected"], not case["ignoreDefaults"]
    if "error" in expected:
        with pytest.raises(alpha_to_beta.NotConvertible) as refused:
            alpha_to_beta.convert(case["input"], defaults=defaults)
        assert str(refused.value) == expected["error"]
        return
    before = json.dumps(case["input"])
    objects = alpha_to_beta.convert(case["input"], defaults=defaults)
    assert json.dumps(case["input"]) == before, "the input is left as it is"
    assert len(objects) == len(expected["objects"])
    for ours, recorded in zip(objects, expected["objects"], strict=True):
        assert as_go_writes(ours) == as_go_writes(_as_ours(recorded["v1beta1"], case))


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_same_verdicts_and_v1_objects(case: Case) -> None:
    same = True
    for recorded in case["expected"].get("objects", ()):
        beta, v1 = recorded["v1beta1"], recorded["v1"]
        schema = beta_schema.schemas(beta_schema.V0_37)[beta["apiVersion"], beta["kind"]]
        _, causes, stored = verdict(schema, beta)
        ours = [{"field": cause.field, "reason": cause.reason, "message": cause.message} for cause in causes]
        theirs = recorded["v1beta1Admission"].get("causes", [])
        assert places(ours) == places(theirs)
        assert rule_texts(theirs) <= rule_texts(ours)
        if not causes:
            assert as_go_writes(stored) == as_go_writes(recorded["v1beta1Stored"])
        made = beta_to_v1.convert(beta if causes else stored)
        assert as_go_writes(made) == as_go_writes(v1)
        _, causes, _ = verdict(SCHEMAS[v1["apiVersion"], v1["kind"]], v1)
        ours = [{"field": cause.field, "reason": cause.reason, "message": cause.message} for cause in causes]
        theirs = recorded["v1Admission"].get("causes", [])
        if case["name"] in NEWER:
            same = same and rule_texts(theirs) <= rule_texts(ours) and places(theirs) == places(ours)
            continue
        assert places(ours) == places(theirs)
        assert rule_texts(theirs) <= rule_texts(ours)
    assert same == (case["name"] not in NEWER), "the list of exceptions only shrinks"
