"""Recorded verdicts of a real API server (1.36.3) on everyday objects with one thing changed.

Names, ports, probes, strategies, jobs, autoscalers, claims, limits of namespaces. Left out is where Dovetail
takes more on purpose: containers without an image and claims without modes or size, which plans do without;
tolerations that compare and HPAs from no replicas, which are behind gates; and five of quotas, jobs and
priorities that say nothing about pods.
"""

from __future__ import annotations

import pytest

from dovetail.api.admission import admit
from dovetail.base.errors import BadRequest, Invalid
from tests.conformance.admission_cases import Case, read_cases

CASES = read_cases("everyday")


def test_every_recorded_object_is_here() -> None:
    assert (len(CASES), sum(case["accepted"] for case in CASES)) == (581, 214)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_same_verdict_as_the_server(case: Case) -> None:
    if case["accepted"]:
        admit(case["object"])
    else:
        with pytest.raises((BadRequest, Invalid)):
            admit(case["object"])
