"""A scenario folder: `scenario.yaml` and, beside it, the manifests of the cluster that is played."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo, available_timezones

from dovetail.api.manifest import Manifest
from dovetail.api.manifest import load as load_manifests
from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.controllers.brakes.rate import Rate
from dovetail.disrupt.pause import PAUSES
from dovetail.model.offering import parse_dollars
from dovetail.simulate.document import Document, suggest
from dovetail.simulate.interruptions import KINDS
from dovetail.simulate.latency import Distribution
from dovetail.simulate.schema import API_VERSION, KIND, ScenarioFile
from dovetail.simulate.trace import Visit, read_trace, visits
from dovetail.simulate.traffic import Curve, curve, second_of_day
from dovetail.units.duration import parse_duration

FILE_NAME = "scenario.yaml"
FAULTS_NAME = "faults.yaml"  # may lie in the folder: it is no manifest
_MANIFESTS = (".yaml", ".yml", ".json")
_DAY_ONE = "2026-03-02T"  # a Monday; used where `start` is only a time of day
_LONGEST = 31 * 86_400 * SECOND
_CAPACITY_TYPES = ("on-demand", "spot", "reserved")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something that is not known from data: what a figure depends on although nobody measured it."""

    subject: str  # such as "latencies.boot"
    value: str
    origin: str  # "scenario": the user's own; "default": ours

    def __str__(self) -> str:
        origin = "as the scenario says" if self.origin == "scenario" else "Dovetail's default"
        return f"{self.subject}: {self.value} ({origin})"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that was read and found sound. Instants and lengths are nanoseconds."""

    file: ScenarioFile
    folder: Path
    start: int
    duration: int
    seed: int
    latencies: Mapping[str, Distribution]  # by the field names of schema.Latencies
    curves: tuple[Curve, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    visits: tuple[Visit, ...] = ()  # pods of the trace
    assumptions: tuple[Assumption, ...] = field(default=())

    @property
    def source(self) -> str:
        """The path of the scenario file, for messages."""
        return str(self.folder / FILE_NAME)

    def until(self, duration: int) -> Scenario:
        """The same scenario, played for another length of time."""
        return replace(self, duration=duration)

    def seeded(self, seed: int) -> Scenario:
        """The same scenario with other luck."""
        return replace(self, seed=seed)


def load(path: Path, *, trace: Path | None = None) -> Scenario:
    """Read a scenario folder (or its scenario.yaml); raises InputError for anything that is wrong.

    `trace` replaces the file that the scenario's `trace` section names.
    """
    folder = path.parent if path.name == FILE_NAME else path
    document = Document.read(_find(folder))
    _check_head(document)
    file = document.decode(ScenarioFile)
    start = _start(document, file)
    _check_groups(document, file)
    _check_times(document, file)
    scenario = Scenario(
        file=file,
        folder=folder,
        start=start,
        duration=_duration(document, file),
        seed=file.seed,
        latencies=_latencies(document, file),
        curves=_curves(document, file),
        manifests=_manifests(folder),
        visits=_visits(document, file, trace),
    )
    return replace(scenario, assumptions=_assumptions(scenario, document))


def _find(folder: Path) -> Path:
    remedy = f"give a folder with a {FILE_NAME}, such as examples/evening-rush"
    if not folder.exists():
        raise InputError("there is no such folder", source=str(folder), remedy=remedy)
    if not folder.is_dir():
        raise InputError("a scenario is a folder, not a single file", source=str(folder), remedy=remedy)
    if not any(folder.iterdir()):
        raise InputError("the folder is empty", source=str(folder), remedy=remedy)
    if not (folder / FILE_NAME).is_file():
        raise InputError(f"the folder has no {FILE_NAME}", source=str(folder), remedy=remedy)
    return folder / FILE_NAME


def _check_head(document: Document) -> None:
    if not isinstance(document.value, dict):
        raise document.error(
            "a scenario is a map of fields", remedy=f"begin with `apiVersion: {API_VERSION}`"
        )
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        given = document.value.get(name)
        if given != wanted:
            raise document.error(f"{given!r} is not a scenario's {name}; valid is {wanted}", name)


def _read(document: Document, path: str, reader: Callable[[str], T], text: str) -> T:
    try:
        return reader(text)
    except ValueError as error:
        raise document.error(str(error), path) from None


def _start(document: Document, file: ScenarioFile) -> int:
    zones = available_timezones()
    if file.timezone not in zones:
        near = suggest(file.timezone, tuple(sorted(zones))) if len(file.timezone) > 2 else ""
        near = near if "did you mean" in near else "; valid are IANA names such as Asia/Seoul"
        raise document.error(f"{file.timezone!r} is not a time zone{near}", "timezone")
    text = file.start if "T" in file.start else _DAY_ONE + file.start
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            raise ValueError
    except ValueError:
        raise document.error(
            f"{file.start!r} is not a local time; valid are 2026-03-02T20:45 and 20:45", "start"
        ) from None
    return int(moment.replace(tzinfo=ZoneInfo(file.timezone)).timestamp()) * SECOND


def _duration(document: Document, file: ScenarioFile) -> int:
    duration = _read(document, "duration", parse_duration, file.duration)
    if not 0 < duration <= _LONGEST:
        raise document.error(f"{file.duration!r} is not between 1ns and 744h", "duration")
    return duration


def _check_groups(document: Document, file: ScenarioFile) -> None:
    for i, group in enumerate(file.node_groups):
        path = f"nodeGroups[{i}]"
        if group.count < 0:
            raise document.error("a node group cannot have fewer than 0 nodes", f"{path}.count")
        if not group.zones:
            raise document.error("a node group needs at least one zone", f"{path}.zones")
        if group.capacity_type not in _CAPACITY_TYPES:
            guess = suggest(group.capacity_type, _CAPACITY_TYPES)
            raise document.error(
                f"unknown capacity type {group.capacity_type!r}{guess}", f"{path}.capacityType"
            )


def _check_times(document: Document, file: ScenarioFile) -> None:
    for i, shortage in enumerate(file.shortages):
        _read(document, f"shortages[{i}].from", second_of_day, shortage.from_)
        _read(document, f"shortages[{i}].until", second_of_day, shortage.until)
    for i, item in enumerate(file.interruptions):
        _read(document, f"interruptions[{i}].at", second_of_day, item.at)
        if item.kind not in KINDS:
            guess = suggest(item.kind, KINDS)
            raise document.error(f"{item.kind!r} is no interruption{guess}", f"interruptions[{i}].kind")
        if not 0 < item.share <= 1:
            raise document.error(f"{item.share} is not above 0 and at most 1", f"interruptions[{i}].share")
    for i, taint in enumerate(file.startup_taints):
        _read(document, f"startupTaints[{i}].after", parse_duration, taint.after)
    for name, text in (
        ("batchIdleDuration", file.settings.batch_idle_duration),
        ("batchMaxDuration", file.settings.batch_max_duration),
        ("solveDeadline", file.settings.solve_deadline),
    ):
        if text is not None:
            _read(document, f"settings.{name}", parse_duration, text)
    for name, given, valid in (
        ("preferencePolicy", file.settings.preference_policy, ("Respect", "Ignore")),
        ("minValuesPolicy", file.settings.min_values_policy, ("Strict", "BestEffort")),
        ("pause", file.settings.pause, ("", *PAUSES)),
    ):
        if given not in valid:
            raise document.error(f"{given!r} is no policy{suggest(given, valid)}", f"settings.{name}")
    for name, rate in (("launchLimit", file.settings.launch_limit), ("moveLimit", file.settings.move_limit)):
        if rate:
            _read(document, f"settings.{name}", Rate.parse, rate)
    budget = file.settings.forceful_budget
    if budget and not re.fullmatch(r"(100|\d{1,2})%|\d+", budget):
        raise document.error(
            f"{budget!r} is no number of nodes; valid are 3 and 10%", "settings.forcefulBudget"
        )
    _read(document, "settings.nodeSurcharge", parse_dollars, repr(file.settings.node_surcharge))
    for name, number, least in (
        ("spotDiversity", file.settings.spot_diversity, 1),
        ("spotTolerance", file.settings.spot_tolerance, 0),
    ):
        if number < least:
            raise document.error(f"{number} is less than {least}", f"settings.{name}")
    if file.settings.work_per_second <= 0:
        raise document.error("work per second must be more than 0", "settings.workPerSecond")


def _latencies(document: Document, file: ScenarioFile) -> dict[str, Distribution]:
    found = {}
    for name in file.latencies.__struct_fields__:
        latency = getattr(file.latencies, name)
        try:
            found[name] = Distribution.of(latency)
        except ValueError as error:
            raise document.error(str(error), f"latencies.{name}") from None
    return found


def _curves(document: Document, file: ScenarioFile) -> tuple[Curve, ...]:
    curves = []
    for i, traffic in enumerate(file.traffic):
        try:
            curves.append(curve(traffic, file.timezone, path=f"traffic[{i}]"))
        except InputError as error:
            raise document.error(error.message, error.path, remedy=error.remedy) from None
    return tuple(curves)


def _manifests(folder: Path) -> tuple[Manifest, ...]:
    paths = sorted(
        path
        for path in folder.iterdir()
        if path.suffix in _MANIFESTS and path.name not in (FILE_NAME, FAULTS_NAME) and path.is_file()
    )
    return load_manifests(paths) if paths else ()


def _visits(document: Document, file: ScenarioFile, given: Path | None) -> tuple[Visit, ...]:
    if file.trace is None:
        if given is not None:
            raise document.error(
                "the scenario plays no trace", remedy="leave --trace out, or add a `trace` section"
            )
        return ()
    path = given
    if path is None:
        if not file.trace.file:
            raise document.error(
                "the scenario does not say which trace", "trace", remedy="give it with --trace FILE.csv.gz"
            )
        path = Path(document.source).parent / file.trace.file
    return visits(file.trace, read_trace(path), source=document.source)


def _assumptions(scenario: Scenario, document: Document) -> tuple[Assumption, ...]:
    given = document.value.get("latencies") or {}
    found = [
        Assumption(
            subject=f"latencies.{name}",
            value=str(getattr(scenario.file.latencies, name)),
            origin="scenario" if name in given else "default",
        )
        for name in scenario.latencies
    ]
    found.extend(
        Assumption(f"traffic.{item.service}", f"{item.base:g} requests/s and its peaks", "scenario")
        for item in scenario.curves
    )
    found.append(
        Assumption(
            "settings.workPerSecond",
            f"{scenario.file.settings.work_per_second} units of the solver's work per second",
            "scenario" if "workPerSecond" in (document.value.get("settings") or {}) else "default",
        )
    )
    found.append(Assumption("spot prices", "estimated per family and zone, not published ones", "default"))
    return tuple(found)
