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
from pathlib import Path
from typing import Any

import yaml

from benchmarks.questions import NEW_IMAGE, write
from benchmarks.realised.churn import moved_again, undone
from benchmarks.realised.run import Record
from dovetail.base.collector import collect_seldom
from dovetail.simulate.analysis.summary import efficiency_figures
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load
from dovetail.testing.guests import node_class

SIZE = 0.5  # of the example: 10 to 30 replicas
DRIFT = "09:30"  # the evening before was the start, and the load comes at ten


@dataclass(frozen=True, slots=True)
class Week:
    """One run."""

    cost: float  # what was paid over what was proven to be needed at least, in the mean of the week
    launched: int  # nodes
    commands: dict[str, int]  # by reason
    moved: int  # pods evicted
    twice: int  # of these, such as had come within the hour before in place of an evicted one
    undone: int  # commands that a later one undid within the hour
    failed: int  # commands whose replacements did not come


def play_week(run: tuple[str, int]) -> dict[str, Any]:
    """The fields of Week, on one seed; the name is that of the example."""
    name, seed = run
    collect_seldom()
    with tempfile.TemporaryDirectory() as folder:
        result = simulate(load(_written(name, Path(folder) / name)).seeded(seed))
    found = lived(result.records, result.end)
    return {"workload": name, "seed": seed, "seconds": round(result.wall_seconds, 1), **asdict(found)}


def lived(records: Sequence[Record], end: int) -> Week:
    """Figures of a run that ended at that instant. Pure."""
    needed = efficiency_figures(records, end).mean
    return Week(
        cost=1 / needed if needed else 0.0,
        launched=sum(r["kind"] == "instance.started" and bool(r["claim"]) for r in records),
        commands=dict(Counter(r["reason"] for r in records if r["kind"] == "disruption")),
        moved=sum(r["kind"] == "pod.evicted" for r in records),
        twice=moved_again(records),
        undone=undone(records),
        failed=sum(r["kind"] == "disruption.failed" for r in records),
    )


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
