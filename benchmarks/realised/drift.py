"""What a drift and a loss of pods make of a burst, in two hours and twenty minutes of virtual time.

The burst of a workload; 18 minutes later another label in the templates of its pools, which makes every node
drift, under the usual budget of a tenth; an hour after that half of the replicas go. On a real cluster all of
it comes sooner (`SHORT`).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.realised.churn import moved_again, undone
from benchmarks.realised.rules import Objects, least
from benchmarks.realised.run import Record, hourly
from benchmarks.realised.workloads import BURST_MINUTES, REGION, Document, Workload, workload
from dovetail.base.clock import MINUTE
from dovetail.base.collector import collect_seldom
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import Scenario, load
from dovetail.units.money import NANO_DOLLARS


class Times(NamedTuple):
    """Minutes of the scenario."""

    drift: int = 20
    shrink: int = 80
    end: int = 140


# As soon after each other as the usual budget lets a drift end: on a real cluster each minute takes one.
SHORT = Times(drift=6, shrink=14, end=80)


@dataclass(frozen=True, slots=True)
class Drifted:
    """One run. $/h of all nodes that Dovetail bought."""

    pods: int  # of the burst
    planned: float  # $/h of the burst's first plan
    before: float  # when the drift begins, over `planned`
    most: float  # the most while it lasts, over `before`
    after: float  # when half of the pods go, over `planned`
    nodes: str  # when the drift begins, the most until half of the pods go, then, and in the end
    moved: int  # pods evicted until then
    twice: int  # of all evicted, those that had come within the hour before, in place of one that was evicted
    end: float  # $/h in the end, over the bound of what runs then
    reach: float  # the same over what can be reached at best, see `benchmarks.realised.rules`
    shed: int  # pods evicted from then on
    saved: float  # $/h that it brought
    undone: int  # commands that a later one undid within the hour, see `benchmarks.realised.churn`
    failed: int  # commands whose replacements did not come


def play_drift(run: tuple[str, int]) -> dict[str, Any]:
    """One workload, by name, on one seed: the fields of Drifted."""
    name, seed = run
    collect_seldom()
    with tempfile.TemporaryDirectory() as folder:
        path, times, objects = Path(folder), Times(), Objects()
        result = simulate(scenario(name, seed, path / "drift", times), spectator=objects)
        reachable = least(objects.write(path / "end.json"), REGION, _prices(result.records))
        bound = least_of_half(name, seed, path / "alone")
    found = drifted(result.records, result.start, times, bound, reachable / NANO_DOLLARS)
    return {"workload": name, "seed": seed, "seconds": round(result.wall_seconds, 1), **asdict(found)}


def scenario(name: str, seed: int, folder: Path, times: Times) -> Scenario:
    """Of a workload, by name; its files are written into the folder."""
    chosen = workload(name)
    chosen.update = []
    changes = {times.drift: changed(chosen.base), times.shrink: halved(chosen.burst)}
    return load(write(chosen, folder, changes, times.end)).seeded(seed)


def least_of_half(name: str, seed: int, folder: Path) -> float:
    """$/h that what stays of a workload needs at least."""
    return proven(simulate(load(alone(workload(name), folder)).seeded(seed)).records)


def drifted(records: Sequence[Record], start: int, times: Times, bound: float, reachable: float) -> Drifted:
    """Figures of a run; `start` in nanoseconds, the bounds in $/h. Pure."""
    burst, drift, shrink, end = (start + m * MINUTE for m in (BURST_MINUTES, *times))
    created = {r["pod"]: r["t"] for r in records if r["kind"] == "pod.created"}
    evicted = [r["t"] for r in records if r["kind"] == "pod.evicted" and drift <= r["t"] < end]
    moved = sum(at < shrink for at in evicted)
    planned = sum(r["hourly"] for r in records if r["kind"] == "decision" and r["t"] < burst + MINUTE)
    steps = range(drift, shrink, MINUTE // 2)
    most = max(hourly(records, burst, at) for at in steps)
    before, after = hourly(records, burst, drift), hourly(records, burst, shrink)
    last = hourly(records, burst, end)
    nodes = [_nodes(records, burst, at) for at in (drift, *steps, shrink)]
    return Drifted(
        pods=sum(burst <= at < burst + MINUTE for at in created.values()),
        planned=planned / NANO_DOLLARS,
        before=before / planned,
        most=most / before,
        after=after / planned,
        nodes=f"{nodes[0]}/{max(nodes)}/{nodes[-1]}/{_nodes(records, burst, end)}",
        moved=moved,
        twice=moved_again(records, drift),
        end=last / NANO_DOLLARS / bound,
        reach=last / NANO_DOLLARS / reachable,
        shed=len(evicted) - moved,
        saved=(after - last) / NANO_DOLLARS,
        undone=undone(records, drift),
        failed=sum(r["kind"] == "disruption.failed" for r in records),
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


def _prices(records: Sequence[Record]) -> dict[str, int]:
    """Nano-dollars per hour, by node."""
    claims = {r["claim"]: r["price"] for r in records if r["kind"] == "instance.started" and r["claim"]}
    return {
        r["node"]: claims[r["claim"]] for r in records if r["kind"] == "node.created" and r["claim"] in claims
    }


def proven(records: Sequence[Record]) -> float:
    """$/h that the pods of a burst need at least."""
    return float(sum(r["lowerBound"] for r in records if r["kind"] == "decision") / NANO_DOLLARS)


def alone(workload: Workload, folder: Path) -> Path:
    """The scenario's folder of a burst of the half that stays, and of nothing else."""
    return replace(workload, burst=halved(workload.burst)).write(folder, BURST_MINUTES + 2)


def write(workload: Workload, folder: Path, changes: Mapping[int, Sequence[Document]], end: int) -> Path:
    """The scenario's folder, so many minutes long; at those minutes these objects are applied."""
    workload.write(folder, end)
    scenario = json.loads((folder / "scenario.yaml").read_text(encoding="utf-8"))
    for minute, items in sorted(changes.items()):
        file = f"changes/at-{minute}.json"
        scenario["changes"].append({"at": f"{10 + minute // 60}:{minute % 60:02}", "file": file})
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        (folder / file).write_text(json.dumps(listed) + "\n", encoding="utf-8")
    (folder / "scenario.yaml").write_text(json.dumps(scenario) + "\n", encoding="utf-8")
    return folder


def changed(base: Sequence[Document]) -> list[Document]:
    """Its pools with another label in their templates."""
    return [_relabelled(item) for item in base if item["kind"] == "NodePool"]


def _relabelled(pool: Document) -> Document:
    spec = pool["spec"]
    template = {**spec["template"], "metadata": {"labels": {"revision": "2"}}}
    return {**pool, "spec": {**spec, "template": template}}


def halved(burst: Sequence[Document]) -> list[Document]:
    """Every Deployment with half of its replicas, rounded up."""
    return [
        {**item, "spec": {**item["spec"], "replicas": -(-item["spec"]["replicas"] // 2)}}
        if item["kind"] == "Deployment"
        else item
        for item in burst
    ]
