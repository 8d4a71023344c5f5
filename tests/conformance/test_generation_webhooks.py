"""Recorded answers of the v1alpha5 and v1alpha1 webhooks of 0.32: verdict, texts, defaults."""

from __future__ import annotations

import pytest

from dovetail.api.generations import alpha_schema
from dovetail.api.generations.alpha_webhook import default_requirements, faults, refusal_text
from tests.conformance.generation_cases import Case, as_go_writes, places, read_cases, rule_texts, verdict

CASES = read_cases("alpha_validate")
# The order of the supported operators changed from call to call.
_UNORDERED = " not in ["


def test_every_recorded_object_is_here() -> None:
    assert len(CASES) == 105


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_same_verdict_and_texts(case: Case) -> None:
    document, expected = case["object"], case["expected"]
    schema = alpha_schema.SCHEMAS[document["apiVersion"], document["kind"]]
    unknown, causes, _ = verdict(schema, document)
    for release in ("schema_0.27.5", "schema_0.32.10"):
        recorded = expected[release].get("causes", [])
        assert unknown == expected[release].get("unknownFields", []), release
        ours = [{"field": cause.field, "reason": cause.reason, "message": cause.message} for cause in causes]
        assert places(ours) == places(recorded)
        assert rule_texts(recorded) <= rule_texts(ours)
    text, recorded_text = refusal_text(faults(document)), expected["webhook"].get("message", "")
    if "decodeError" in expected["webhook"]:
        assert text
    else:
        assert text.partition(_UNORDERED)[0] == recorded_text.partition(_UNORDERED)[0]
        assert (not text) == expected["webhook"]["accepted"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_same_defaults(case: Case) -> None:
    spec, expected = case["object"]["spec"], case["expected"].get("defaulted", {}).get("spec")
    if expected is None:
        pytest.skip("the original crashed before")
    ours = dict(spec)
    if case["object"]["kind"] == "Provisioner":
        given = spec.get("requirements", [])
        ours["requirements"] = [*given, *default_requirements(given)]
    assert as_go_writes(ours, ("spec",)) == as_go_writes(expected, ("spec",))
