"""Recorded verdicts of a real API server (1.36.3) on Karpenter's kinds: verdict, defaults, rule texts.

`admission_more` was recorded with the definitions of Karpenter 1.14.1: types, numbers, names, selector terms;
`admission_odd` with ours: random changes of the others, and what else was once judged in words of our own.
Where 1.14 refused a disruption block without consolidateAfter, 1.15 takes it to be 0s.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dovetail.api.admission import admit
from dovetail.base.errors import BadRequest, Invalid
from tests.conformance.admission_cases import Case, places, read_cases, rule_texts, with_wait

CASES = [
    pytest.param(case, id=f"{number}-{case['name'][:80]}")
    for number, case in enumerate(
        case for name in ("admission", "admission_more", "admission_odd") for case in read_cases(name)
    )
]


def test_every_recorded_object_is_here() -> None:
    assert len(CASES) == 610 + 338 + 82


@pytest.mark.parametrize("case", CASES)
def test_same_answer_as_the_server(case: Case) -> None:
    expected = case["expected"]
    before = json.dumps(case["object"])
    written = with_wait(case)
    if written is not None:
        assert _verdict(case["object"]) == _verdict(written)
    elif expected["accepted"]:
        assert admit(case["object"], case.get("old")).get("spec") == expected["spec"]
    elif expected["code"] == 400:
        with pytest.raises(BadRequest) as bad_request:
            admit(case["object"], case.get("old"))
        assert str(bad_request.value) == expected["message"]
    else:
        with pytest.raises(Invalid) as invalid:
            admit(case["object"], case.get("old"))
        ours = {(cause.field, cause.reason) for cause in invalid.value.causes}
        assert ours == places(expected["causes"])
        texts = {(cause.field, cause.message) for cause in invalid.value.causes}
        assert rule_texts(expected["causes"]) <= texts
    assert json.dumps(case["object"]) == before, "the input is left as it is"


def _verdict(document: dict[str, Any]) -> object:
    """The spec with its defaults, or what is wrong with it."""
    try:
        return admit(document)["spec"]
    except Invalid as error:
        return {(cause.field, cause.message) for cause in error.causes}
