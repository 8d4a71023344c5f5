"""What counts as the first plan of a burst, read from records of a run."""

from __future__ import annotations

from typing import Any

from benchmarks.realised.run import realised
from dovetail.base.clock import SECOND


def record(at: float, kind: str, **fields: Any) -> dict[str, Any]:
    return {"t": round(at * SECOND), "kind": kind, **fields}


def decision(at: float, pod: str, hourly: int) -> dict[str, Any]:
    claims = [{"claim": f"claim-{pod}", "pods": [pod]}]
    return record(at, "decision", snapshot=pod, hourly=hourly, lowerBound=hourly, claims=claims)


def test_a_decision_that_comes_after_its_plan_is_of_the_first_one_until_the_next_batch() -> None:
    records = [
        *(record(0, "pod.created", pod=pod) for pod in "abc"),
        record(1, "batch", pods=["a", "b"]),
        record(2, "solve"),
        decision(2.3, "a", 10),
        record(11, "batch", pods=["c"]),
        record(12, "solve"),
        decision(12.4, "c", 5),
        record(40, "batch", pods=["b"]),
        record(41, "solve"),
        decision(41.2, "b", 3),
    ]
    found = realised(records, 0, 60 * SECOND)
    assert (round(found.planned * 10**9), found.waves) == (15, 2)
