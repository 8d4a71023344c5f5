"""Recorded verdicts on v1beta1 objects: the definitions of four releases of the original."""

from __future__ import annotations

import pytest

from dovetail.api.generations import beta_schema
from tests.conformance.generation_cases import Case, places, read_cases, rule_texts, verdict

RELEASES = {
    "v0.32.10": beta_schema.V0_32,
    "v0.35.4": beta_schema.V0_35,
    "v0.37.7": beta_schema.V0_37,
    "v1.0.14": beta_schema.V1_0,
}
CASES = read_cases("admission_v1beta1")


def test_every_recorded_object_is_here() -> None:
    assert len(CASES) == 212


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_same_verdict_defaults_and_rules(case: Case, release: str) -> None:
    expected, document = case["expected"][release], case["object"]
    schema = beta_schema.schemas(RELEASES[release])[document["apiVersion"], document["kind"]]
    unknown, causes, stored = verdict(schema, document, case.get("old"))
    assert unknown == expected.get("unknownFields", [])
    recorded = expected.get("causes", [])
    ours = [{"field": cause.field, "reason": cause.reason, "message": cause.message} for cause in causes]
    assert places(ours) == places(recorded)
    assert rule_texts(recorded) <= rule_texts(ours)
    if expected["accepted"]:
        assert not causes
        assert stored.get("spec") == expected.get("spec")
