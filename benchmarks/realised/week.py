"""A week of a service that breathes: what runs beside the least that is needed, and what did not last.

The worked example `week` of `benchmarks.questions`; on the first morning its machines get a new image, which
makes all nodes drift under the usual budget of a tenth.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from benchmarks.questions import NEW_IMAGE, write
from benchmarks.realised.churn import moved_again, undone
from benchmarks.realised.hindsight import frontier, once_a_day, spells, types
from benchmarks.realised.rules import Objects, anew, proven
from benchmarks.realised.run import Record
from dovetail.base.collector import collect_seldom
from dovetail.model.problem import Problem
from dovetail.simulate.analysis.summary import efficiency_figures
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load
from dovetail.testing.guests import node_class

REGION = "us-east-1"  # the example's
SIZE = 0.5  # of the example: 10 to 30 replicas
DRIFT = "09:30"  # the evening before was the start, and the load comes at ten


@dataclass(frozen=True, slots=True)
class Week:
    """One run."""

    cost: float  # what was paid over what 10 ms prove to be needed at least, in the mean of the week's hours
    anew: float  # the same over what ten seconds prove for the same pods on nodes bought anew
    launched: int  # nodes
    commands: dict[str, int]  # by reason
    moved: int  # pods evicted
    twice: int  # of these, such as had come within the hour before in place of an evicted one
    undone: int  # commands that a later one undid within the hour
    failed: int  # commands whose replacements did not come
    overlap: float  # share of what was paid for nodes that a command had taken: two ran for one
    hindsight: list[tuple[int, float]]  # see `benchmarks.realised.hindsight`
    once_a_day: float  # likewise; 0 if it is not known


def play_week(run: tuple[str, int]) -> dict[str, Any]:
    """The fields of Week, on one seed; the name is that of the example."""
    name, seed = run
    collect_seldom()
    with tempfile.TemporaryDirectory() as folder:
        proofs = Proofs(Path(folder) / "now.json", REGION)
        scenario = load(_written(name, Path(folder) / name)).seeded(seed)
        result = simulate(scenario, spectator=proofs)
    found = lived(result.records, result.end, proofs)
    return {"workload": name, "seed": seed, "seconds": round(result.wall_seconds, 1), **asdict(found)}


class Proofs(Objects):
    """A spectator that proves, each time the controller looks at its efficiency, what the pods need at least.

    `least` has nano-dollars per hour for each look. Pods of one owner are alike here, so what is proven for
    as many of each is not proven again.
    """

    def __init__(self, file: Path, region: str) -> None:
        super().__init__()
        self.least: list[int] = []
        self.problem: Problem | None = None  # the last one that was proven
        self._file = file
        self._region = region
        self._seen = 0
        self._known: dict[frozenset[tuple[str, int]], int] = {}

    def progress(self, now: int, records: Sequence[Record]) -> None:  # noqa: ARG002 - the protocol's
        """See Spectator."""
        new, self._seen = records[self._seen :], len(records)
        for record in new:
            if record["kind"] == "efficiency":
                key = frozenset(Counter(self.owners()).items())
                if key not in self._known:
                    self.problem = anew(self.write(self._file), self._region)
                    self._known[key] = proven(self.problem)
                self.least.append(self._known[key])


def lived(records: Sequence[Record], end: int, proofs: Proofs) -> Week:
    """Figures of a run that ended at that instant, and was watched."""
    needed = efficiency_figures(records, end).mean
    looks = [record for record in records if record["kind"] == "efficiency"]
    spans = [later - earlier for earlier, later in pairwise([*(look["t"] for look in looks), end])]
    paid = sum(look["cost"] * span for look, span in zip(looks, spans, strict=True))
    needed_anew = sum(bound * span for bound, span in zip(proofs.least, spans, strict=True))
    load, kinds = (spells(records, end), types(proofs.problem)) if proofs.problem else ([], [])
    return Week(
        cost=1 / needed if needed else 0.0,
        anew=paid / needed_anew if needed_anew else 0.0,
        launched=sum(r["kind"] == "instance.started" and bool(r["claim"]) for r in records),
        commands=dict(Counter(r["reason"] for r in records if r["kind"] == "disruption")),
        moved=sum(r["kind"] == "pod.evicted" for r in records),
        twice=moved_again(records),
        undone=undone(records),
        failed=sum(r["kind"] == "disruption.failed" for r in records),
        overlap=_leaving(records) / paid if paid else 0.0,
        hindsight=frontier(load, kinds) if load else [],
        once_a_day=once_a_day(load, kinds) if load else 0.0,
    )


def _leaving(records: Sequence[Record]) -> int:
    """What was paid, in nano-dollars per hour times nanoseconds, for nodes since a command had taken them."""
    taken = {claim: r["t"] for r in records if r["kind"] == "disruption" for claim in r["claims"]}
    running = {r["instance"]: r for r in records if r["kind"] == "instance.started"}
    gone = ((r["t"], running[r["instance"]]) for r in records if r["kind"] == "instance.terminated")
    return sum(r["price"] * (at - taken[r["claim"]]) for at, r in gone if r["claim"] in taken)


def _written(name: str, folder: Path) -> Path:
    """The scenario's folder, with the new image."""
    write(name, folder, SIZE)
    (folder / "later").mkdir()
    image = json.loads(json.dumps(node_class(image=NEW_IMAGE)))
    (folder / "later" / "image.yaml").write_text(yaml.safe_dump(image), "utf-8")
    path = folder / "scenario.yaml"
    scenario = yaml.safe_load(path.read_text("utf-8"))
    scenario["changes"] = [{"at": DRIFT, "file": "later/image.yaml"}]
    path.write_text(yaml.safe_dump(scenario, sort_keys=False), "utf-8")
    return folder
