"""Recorded verdicts of a real API server (1.36.3) on what containers, pods and overheads ask for, by name."""

from __future__ import annotations

import pytest

from dovetail.api.admission import admit
from dovetail.base.errors import Invalid
from tests.conformance.admission_cases import Case, read_cases

CASES = read_cases("resource_names")


def test_every_recorded_object_is_here() -> None:
    assert len(CASES) == 315


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_same_verdict_as_the_server(case: Case) -> None:
    if case["accepted"]:
        admit(case["object"])
    else:
        with pytest.raises(Invalid):
            admit(case["object"])


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("cpus", "cpu"),
        ("CPU", "cpu"),
        ("mem", "memory"),
        ("memroy", "memory"),
        ("storage", "ephemeral-storage"),
        ("gpu", "nvidia.com/gpu"),
    ],
)
def test_what_was_meant_is_said(written: str, meant: str) -> None:
    spec = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {written: "1"}}}]}
    with pytest.raises(Invalid) as refused:
        admit({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
    (cause,) = refused.value.causes
    assert cause.field == "spec.containers[0].resources.requests"
    words = "must be a standard resource for containers"
    assert cause.message.endswith(f"{written}: {words}; did you mean {meant}?")
