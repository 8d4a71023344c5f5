"""A scenario with something more in it, as a folder of its own, which any command plays."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

from dovetail.base.clock import HOUR, SECOND
from dovetail.base.errors import InputError, InputErrors, Place
from dovetail.base.writing import unwritten, whole_folder
from dovetail.base.yaml_writing import all_written, written
from dovetail.kube.memory.store import Change
from dovetail.simulate.analysis.log import Record
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.document import Document as ScenarioDocument
from dovetail.simulate.scenario.history import Step, read_history
from dovetail.simulate.scenario.scenario import FILE_NAME, LONGEST, Scenario, load
from dovetail.units.duration import format_duration

_OBJECTS, _STEPS, _LATER = "question.yaml", "question.jsonl", "question"
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Addition:
    """What comes to a scenario. Lists and maps of `sections` are added to."""

    sections: Mapping[str, Any] = field(default_factory=dict)
    objects: Sequence[Document] = ()  # applied at the start
    later: Mapping[str, Sequence[Path]] = field(default_factory=dict)  # time of day -> files applied then
    objects_later: Mapping[str, Sequence[Document]] = field(default_factory=dict)
    steps: Sequence[Step] = ()
    duration: int | None = None  # nanoseconds


def refuse_too_long(duration: int, source: Path) -> None:
    """Raises InputError for more than a scenario takes."""
    if duration > LONGEST:
        message = f"that is {format_duration(duration)} of the scenario; at most 744h are played"
        raise InputError(message, source=str(source), remedy="ask about less time")


@contextmanager
def staged(scenario: Path, addition: Addition, keep: Path | None) -> Iterator[Path]:
    """The folder, for as long as it is asked about; `keep` names one that stays. Raises InputError."""
    source = scenario.parent if scenario.name == FILE_NAME else scenario
    load(source)
    refuse_too_long(addition.duration or 0, source)
    with TemporaryDirectory(prefix="dovetail-") as spare:
        folder = keep if keep is not None else Path(spare) / source.resolve().name
        if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
            raise InputError("the folder is not empty", source=str(folder), remedy="name a new one")
        try:
            with whole_folder(folder):
                shutil.copytree(source, folder, dirs_exist_ok=True)
                _write(folder, addition)
        except OSError as error:
            raise unwritten(error, folder) from None
        try:
            yield folder
        except InputError as error:
            raise _of_the_originals(error, folder, source, addition) from None


def _of_the_originals(error: InputError, folder: Path, source: Path, addition: Addition) -> InputError:
    """The same about the files that the user gave, of which the folder has copies."""
    names = {
        str(folder / _copied(number, index, file)): str(file)
        for number, files in enumerate(addition.later.values())
        for index, file in enumerate(files)
    }

    def renamed(one: InputError) -> InputError:
        name = names.get(one.source) or one.source.replace(str(folder), str(source), 1)
        place: Place = {**one.place, "source": name}
        return InputError(one.message, **place)

    return InputErrors.of(tuple(map(renamed, error.faults)))


def _copied(number: int, index: int, file: Path) -> Path:
    """Where in the folder a copy of a file lies that is applied later."""
    return Path(f"{_LATER}-{number}") / f"{index:02d}-{file.name}"


class _Objects:
    """A spectator that knows every object as it is now."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str, str], Document] = {}

    def changed(self, change: Change[Any]) -> None:
        document = change.after.document
        meta = document["metadata"]
        key = (document["kind"], meta.get("namespace", ""), meta["name"])
        if change.type == "DELETED":
            self.known.pop(key, None)
        else:
            self.known[key] = document

    def progress(self, now: int, records: Sequence[Record]) -> None:
        pass


def cluster_after(scenario: Scenario, length: int) -> list[Document]:
    """The objects of its API server once so much of it (ns) is played."""
    objects = _Objects()
    simulate(scenario.until(length), spectator=objects)
    return list(objects.known.values())


def time_of_day(scenario: Scenario, at: int) -> str:
    """The instant (ns since the start) as the scenario's own files give it. Raises InputError after a day."""
    if at >= 24 * HOUR:
        message = f"{format_duration(at)} is not less than 24h: scenarios give times of day"
        raise InputError(message, source="--after", remedy="begin on the first day")
    zone = ZoneInfo(scenario.file.timezone)
    return datetime.fromtimestamp((scenario.start + at) // SECOND, zone).strftime("%H:%M:%S")


def _write(folder: Path, addition: Addition) -> None:
    path = folder / FILE_NAME
    document: Document = dict(ScenarioDocument.read(path).value)
    for name, value in addition.sections.items():
        if isinstance(value, list):
            value = [*document.get(name, ()), *value]
        elif isinstance(value, dict):
            value = {**document.get(name, {}), **value}
        document[name] = value
    for number, (at, files) in enumerate(addition.later.items()):
        for index, file in enumerate(files):
            place = folder / _copied(number, index, file)
            place.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, place)
            change = {"at": at, "file": str(place.relative_to(folder))}
            document.setdefault("changes", []).append(change)
    for number, (at, objects) in enumerate(addition.objects_later.items()):
        place = folder / f"{_LATER}-objects" / f"{number:02d}.yaml"
        place.parent.mkdir(exist_ok=True)
        place.write_text(all_written(objects, allow_unicode=True), "utf-8")
        document.setdefault("changes", []).append({"at": at, "file": str(place.relative_to(folder))})
    if addition.duration is not None:
        document["duration"] = format_duration(addition.duration)
    if addition.steps:
        known = document.get("history")
        past = read_history(folder / known["file"]) if known else ()
        lines = [json.dumps(step.line()) for step in sorted((*past, *addition.steps), key=lambda one: one.at)]
        (folder / _STEPS).write_text("\n".join(lines) + "\n", "utf-8")
        document["history"] = {"file": _STEPS}
    if addition.objects:
        (folder / _OBJECTS).write_text(all_written(addition.objects), "utf-8")
    path.write_text(written(document, allow_unicode=True), "utf-8")
