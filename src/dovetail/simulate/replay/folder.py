"""A replay written as a scenario folder, which every command plays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from dovetail.base.clock import HOUR, SECOND
from dovetail.base.errors import InputError
from dovetail.base.writing import unwritten, whole_folder
from dovetail.base.yaml_writing import all_written, written
from dovetail.reading import Manifest
from dovetail.reading.yamltext import read_documents
from dovetail.simulate.replay.history import Past
from dovetail.simulate.replay.snapshot import Beginning, Document, beginning
from dovetail.simulate.scenario.history import Step, first_replicas
from dovetail.simulate.scenario.schema import API_VERSION, KIND
from dovetail.simulate.scenario.trace import Row, Trace, read_trace, visits

# NodePools and node classes as the account has them; what is played is rewritten for the simulated one.
ORIGINALS = Path("account") / "pools.yaml"
FILES = ("scenario.yaml", "cluster.yaml", "history.jsonl", "nodes.jsonl")
_LENGTH = 2 * HOUR  # of a replay without a history
_DATED = 500_000_000.0  # seconds: a trace that begins later counts from 1970, not from its own zero


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a replay is asked for. `trace` is a CSV of pods; `length` in ns, None: all of the history."""

    name: str
    region: str
    past: Past | None = None
    trace: Path | None = None
    length: int | None = None


def write_replay(manifests: Sequence[Manifest], wanted: Wanted, folder: Path) -> dict[str, str]:
    """Write the scenario into an empty or new folder; answers what was assumed. Raises InputError."""
    found = beginning(manifests, wanted.region)
    steps: list[Step] = []
    if wanted.past is not None:
        found.assumed |= wanted.past.assumed
        steps = _steps(found, wanted.past)
        if found.nodes:
            found.assumed["nodes of NodePools"] += "; which ran when the history begins is not known"
    # What is wrong with a trace is reported before anything is written.
    rows = read_trace(wanted.trace.resolve()) if wanted.trace is not None else ()
    document = _scenario(found, wanted, steps, rows)
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise InputError("the folder is not empty", source=str(folder), remedy="name a new one")
        with whole_folder(folder):
            folder.mkdir(parents=True, exist_ok=True)
            text = written(document, allow_unicode=True, width=110)
            (folder / FILES[0]).write_text(text, "utf-8")
            listed = all_written(found.manifests, allow_unicode=True)
            (folder / FILES[1]).write_text(listed, "utf-8")
            (folder / ORIGINALS).parent.mkdir()
            (folder / ORIGINALS).write_text(all_written(found.originals, allow_unicode=True), "utf-8")
            if steps:
                lines = "".join(f"{json.dumps(step.line(), separators=(',', ':'))}\n" for step in steps)
                (folder / FILES[2]).write_text(lines, "utf-8")
            if found.nodes:
                (folder / FILES[3]).write_bytes(
                    b"".join(msgspec.json.encode(one) + b"\n" for one in found.nodes)
                )
    except OSError as error:
        raise unwritten(error, folder) from None
    return found.assumed


def originals(scenario: Path) -> list[Document]:
    """NodePools and node classes of a kept replay as the account has them; none of any other scenario."""
    path = (scenario.parent if scenario.name == FILES[0] else scenario) / ORIGINALS
    if not path.is_file():
        return []
    return [located.value for located in read_documents(path.read_text("utf-8"), str(path))]


def _steps(found: Beginning, past: Past) -> list[Step]:
    """The steps from the start on. What a workload has at first is in its manifest, not among them."""
    targets = {
        (item["kind"], item["metadata"].get("namespace", "default"), item["metadata"]["name"]): item
        for item in found.manifests
    }
    known = set(targets)
    for key, count in first_replicas(past.steps).items():
        if key in targets:
            targets[key]["spec"]["replicas"] = count
    begun: set[tuple[str, str, str]] = set()
    unknown: set[tuple[str, str, str]] = set()
    kept = []
    for step in past.steps:
        if step.create is not None:
            meta = step.create["metadata"]
            key = (step.create["kind"], meta.get("namespace", "default"), meta["name"])
            if key in known:
                continue  # the snapshot has it already
            known.add(key)
        else:
            key = step.scale or step.delete or ("", "", "")
            if key not in known:
                unknown.add(key)
                continue
            if step.scale is not None and key in targets and key not in begun:
                begun.add(key)
                continue
            if step.delete is not None:
                known.discard(key)
        kept.append(Step(step.at - past.start, step.scale, step.replicas, step.create, step.delete))
    if unknown:
        shown = ", ".join("/".join(key) for key in sorted(unknown)[:5])
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        found.assumed["history of workloads that the snapshot lacks"] = f"left out: {shown}{more}"
    return kept


def _scenario(found: Beginning, wanted: Wanted, steps: Sequence[Step], rows: Sequence[Row]) -> Document:
    past = wanted.past
    first = min((row.created for row in rows), default=0.0)
    dated = first >= _DATED
    whole = past.end - past.start if past is not None else _LENGTH
    length = whole if wanted.length is None else wanted.length
    start = past.start if past is not None else int(first) * SECOND if dated else 0
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": wanted.name,
        "description": "A real cluster, played again.",
        "region": wanted.region,
        "duration": f"{max(60, -(-length // SECOND))}s",
        "settings": {
            "provider": "simulated",
            **({"featureGates": dict.fromkeys(found.gates, True)} if found.gates else {}),
        },
    }
    if start:
        document["start"] = datetime.fromtimestamp(start // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    if wanted.trace is None and past is None:
        found.assumed["load"] = "none but what is in the snapshot: give --history for more"
    if found.version:
        document["cluster"] = {"version": found.version}
    if found.groups:
        document["nodeGroups"] = found.groups
    if found.nodes:
        document["nodes"] = {"file": FILES[3]}
    if steps:
        document["history"] = {"file": FILES[2]}
    if wanted.trace is not None:
        window = {"from": f"{start // SECOND}s"} if dated else {}
        window |= {"window": f"{-(-length // SECOND)}s"}
        document["trace"] = {"file": str(wanted.trace.resolve()), **window}
        visits(msgspec.convert(document["trace"], Trace), tuple(rows), source=str(wanted.trace))
        if dated:
            found.assumed["times of the trace"] = "seconds since 1970"
    document["assumed"] = dict(sorted(found.assumed.items()))
    return document
