"""What the benchmark says of a loss of pods: figures of a log, and which objects change when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.realised.drift import changed, halved, write
from benchmarks.realised.loss import Lost, lost
from benchmarks.realised.workloads import workloads
from dovetail.base.clock import MINUTE

DOLLAR = 1_000_000_000


def at(minute: float, kind: str, **more: Any) -> dict[str, Any]:
    return {"t": round(minute * MINUTE), "kind": kind, **more}


def test_what_is_counted_from_the_loss_on() -> None:
    records = [
        at(2, "instance.started", instance="i-1", claim="a", price=DOLLAR),
        at(3, "pod.created", pod="p", owner="ReplicaSet/r"),
        at(19, "pod.evicted", pod="p"),
        at(20, "instance.started", instance="i-2", claim="b", price=DOLLAR // 2),
        at(21, "disruption", reason="Underutilized", claims=["a"], replacements=["b"], snapshot="1"),
        at(22, "pod.created", pod="q", owner="ReplicaSet/r"),
        at(50, "disruption", reason="Drifted", claims=["b"], replacements=[], snapshot="2"),
        at(50, "pod.evicted", pod="q"),
        at(50, "instance.terminated", instance="i-1"),
        at(55, "disruption.failed"),
    ]
    found = lost(records, 0, 80, 0.25)
    assert found == Lost(spent=1.0, last=0.5, end=2.0, evicted=1, twice=0, undone=1, failed=1, renewed=15)
    assert lost(records[:1], 0, 80, 0.5).renewed == 0


def test_objects_change_at_their_minutes(tmp_path: Path) -> None:
    workload = workloads()[0]
    changes = {35: changed(workload.base), 20: halved(workload.burst)}
    folder = write(workload, tmp_path / "x", changes, 140)
    scenario = json.loads((folder / "scenario.yaml").read_text("utf-8"))
    assert [one["at"] for one in scenario["changes"][-2:]] == ["10:20", "10:35"]
    items = [json.loads((folder / one["file"]).read_text("utf-8"))["items"] for one in scenario["changes"]]
    assert [{item["kind"] for item in some} for some in items[-2:]] == [
        {item["kind"] for item in workload.burst},
        {"NodePool"},
    ]
    counts = [item["spec"]["replicas"] for item in workload.burst if item["kind"] == "Deployment"]
    kept = [item["spec"]["replicas"] for item in items[-2] if item["kind"] == "Deployment"]
    assert kept == [-(-count // 2) for count in counts]
    assert all(item["spec"]["template"]["metadata"]["labels"] for item in items[-1])
