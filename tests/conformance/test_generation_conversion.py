"""Recorded answers of the 1.0 conversion webhook, v1beta1 and v1 in both directions, and back again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dovetail.api.admission import SCHEMAS
from dovetail.api.generations import beta_schema, beta_to_v1, v1_to_beta
from dovetail.api.schema import Schema
from tests.conformance.generation_cases import Case, as_go_writes, places, read_cases, rule_texts, verdict

CASES = read_cases("v1beta1_v1")
_V1 = {"karpenter.sh/v1", "karpenter.k8s.aws/v1"}

# What our v1, which is newer than 1.0, says otherwise than the definition of 1.0.14.
NEWER = {
    "nodepool-up-ref-missing": "today's definition wants a nodeClassRef that says something",
    "nodepool-up-restricted-label-domain": "today's definition leaves the domain kubernetes.io to users",
}


def _schema(document: dict[str, Any]) -> Schema:
    key = (document["apiVersion"], document["kind"])
    return SCHEMAS[key] if document["apiVersion"] in _V1 else beta_schema.schemas(beta_schema.V1_0)[key]


def _convert(document: dict[str, Any], case: Case) -> dict[str, Any]:
    if document["apiVersion"] in _V1:
        return v1_to_beta.convert(document)
    pools = {pool["metadata"]["name"]: pool for pool in case.get("existingNodePools") or ()}
    return beta_to_v1.convert(document, pools)


def test_every_recorded_object_is_here() -> None:
    assert len(CASES) == 132


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_same_object_and_same_way_back(case: Case) -> None:
    expected = case["expected"]
    source = expected.get("stored", case["input"])
    before = json.dumps(source)
    if "error" in expected:
        with pytest.raises(v1_to_beta.NotConvertible) as refused:
            _convert(source, case)
        assert str(refused.value) == expected["error"]
        return
    ours = _convert(source, case)
    assert as_go_writes(ours) == as_go_writes(expected["converted"])
    assert json.dumps(source) == before, "the input is left as it is"
    if "back" in expected:
        assert as_go_writes(_convert(ours, case)) == as_go_writes(expected["back"])


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=case["name"],
            marks=[pytest.mark.xfail(reason=NEWER[case["name"]], strict=True)]
            if case["name"] in NEWER
            else [],
        )
        for case in CASES
    ],
)
def test_same_verdict_before_and_after(case: Case) -> None:
    expected = case["expected"]
    for document, recorded in (
        (case["input"], expected["admission"]),
        (expected.get("converted"), expected.get("convertedAdmission")),
    ):
        if document is None or recorded is None:
            continue
        unknown, causes, _ = verdict(_schema(document), document)
        assert unknown == recorded.get("unknownFields", [])
        ours = [{"field": cause.field, "reason": cause.reason, "message": cause.message} for cause in causes]
        assert places(ours) == places(recorded.get("causes", []))
        assert rule_texts(recorded.get("causes", [])) <= rule_texts(ours)
