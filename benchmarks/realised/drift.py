"""What a drift and a loss of pods make of a burst, in two hours and twenty minutes of virtual time.

The burst of a workload; 18 minutes later another label in the templates of its pools, which makes every node
drift, under the usual budget of a tenth; an hour after that half of the replicas go.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.realised.run import Record, hourly
from benchmarks.realised.workloads import BURST_MINUTES, Document, Workload, workloads
from dovetail.base.clock import MINUTE
from dovetail.base.collector import collect_seldom
from dovetail.model.offering import NANO_DOLLARS
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load

DRIFT, SHRINK, END = 20, 80, 140  # minutes of the scenario


@dataclass(frozen=True, slots=True)
class Drifted:
    """One run. $/h of all nodes that Dovetail bought."""

    pods: int  # of the burst
    planned: float  # $/h of the burst's first plan
    before: float  # when the drift begins, over `planned`
    most: float  # the most while it lasts, over `before`
    after: float  # an hour later, over `planned`
    nodes: str  # when the drift begins, the most, and an hour later
    moved: int  # pods evicted in the hour of the drift
    twice: int  # of them, those that had come in that hour themselves, in place of one that was evicted
    end: float  # $/h an hour after half of the pods went, over the bound of what runs then
    undone: int  # commands that failed


def play_drift(run: tuple[str, int]) -> dict[str, Any]:
    """One workload, by name, on one seed: the fields of Drifted."""
    name, seed = run
    collect_seldom()
    workload = next(one for one in workloads() if one.name == name)
    workload.update = []
    with tempfile.TemporaryDirectory() as folder:
        first = _written(workload, Path(folder) / "drift")
        result = simulate(load(first).seeded(seed))
        workload.burst = _halved(workload.burst)
        alone = workload.write(Path(folder) / "alone", BURST_MINUTES + 2)
        bound = simulate(load(alone).seeded(seed)).records
    found = drifted(result.records, result.start, _bound(bound))
    return {"workload": name, "seed": seed, "seconds": round(result.wall_seconds, 1), **asdict(found)}


def drifted(records: Sequence[Record], start: int, bound: float) -> Drifted:
    """Figures of a run; `start` in nanoseconds, `bound` in $/h. Pure."""
    burst, drift, shrink, end = (start + m * MINUTE for m in (BURST_MINUTES, DRIFT, SHRINK, END))
    created = {r["pod"]: r["t"] for r in records if r["kind"] == "pod.created"}
    evicted = [(r["t"], r["pod"]) for r in records if r["kind"] == "pod.evicted" and drift <= r["t"] < shrink]
    twice = sum(created[pod] > drift for _, pod in evicted)
    planned = sum(r["hourly"] for r in records if r["kind"] == "decision" and r["t"] < burst + MINUTE)
    steps = range(drift, shrink, MINUTE // 2)
    most = max(hourly(records, burst, at) for at in steps)
    before, after = hourly(records, burst, drift), hourly(records, burst, shrink)
    nodes = [_nodes(records, burst, at) for at in (drift, *steps, shrink)]
    return Drifted(
        pods=sum(burst <= at < burst + MINUTE for at in created.values()),
        planned=planned / NANO_DOLLARS,
        before=before / planned,
        most=most / before,
        after=after / planned,
        nodes=f"{nodes[0]}/{max(nodes)}/{nodes[-1]}",
        moved=len(evicted),
        twice=twice,
        end=hourly(records, burst, end) / NANO_DOLLARS / bound,
        undone=sum(r["kind"] == "disruption.failed" for r in records),
    )


def _nodes(records: Sequence[Record], burst: int, until: int) -> int:
    running = set()
    for r in records:
        if r["t"] > until:
            break
        if r["kind"] == "instance.started" and r["claim"] and r["t"] >= burst:
            running.add(r["instance"])
        elif r["kind"] == "instance.terminated":
            running.discard(r["instance"])
    return len(running)


def _bound(records: Sequence[Record]) -> float:
    """$/h that the pods of a burst need at least."""
    return sum(r["lowerBound"] for r in records if r["kind"] == "decision") / NANO_DOLLARS


def _written(workload: Workload, folder: Path) -> Path:
    """The scenario's folder, with a drift and a loss of half of the replicas."""
    workload.write(folder, END)
    scenario = json.loads((folder / "scenario.yaml").read_text(encoding="utf-8"))
    for minute, name, items in (
        (DRIFT, "drift", [_changed(item) for item in workload.base if item["kind"] == "NodePool"]),
        (SHRINK, "shrink", _halved(workload.burst)),
    ):
        at = f"{10 + minute // 60}:{minute % 60:02}"
        scenario["changes"].append({"at": at, "file": f"changes/{name}.json"})
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        (folder / "changes" / f"{name}.json").write_text(json.dumps(listed) + "\n", encoding="utf-8")
    (folder / "scenario.yaml").write_text(json.dumps(scenario) + "\n", encoding="utf-8")
    return folder


def _changed(pool: Document) -> Document:
    spec = pool["spec"]
    template = {**spec["template"], "metadata": {"labels": {"revision": "2"}}}
    return {**pool, "spec": {**spec, "template": template}}


def _halved(burst: Sequence[Document]) -> list[Document]:
    """Every Deployment with half of its replicas, rounded up."""
    return [
        {**item, "spec": {**item["spec"], "replicas": -(-item["spec"]["replicas"] // 2)}}
        if item["kind"] == "Deployment"
        else item
        for item in burst
    ]
