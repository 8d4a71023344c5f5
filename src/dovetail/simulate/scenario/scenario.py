"""A scenario folder: `scenario.yaml` and, beside it, the manifests of the cluster that is played."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.keda import ScaledJob, ScaledObject
from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.provenance import provenance
from dovetail.cost.commitments import Terms
from dovetail.disrupt.static import is_static
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.reading import Manifest, Reading, read
from dovetail.reading.replicas import refuse_endless, refuse_too_many
from dovetail.simulate.clusterautoscaler.scaleup import CORE_PRICE, GIB_PRICE, GPU_PRICE
from dovetail.simulate.scenario.changed import Change as FieldChange
from dovetail.simulate.scenario.changed import with_objects
from dovetail.simulate.scenario.commitments import terms_of
from dovetail.simulate.scenario.document import Document, suggest
from dovetail.simulate.scenario.history import Step, read_history
from dovetail.simulate.scenario.initial_nodes import Located, read_nodes
from dovetail.simulate.scenario.latency import Distribution
from dovetail.simulate.scenario.manifests import Change
from dovetail.simulate.scenario.policy import Policy
from dovetail.simulate.scenario.rules import check
from dovetail.simulate.scenario.schema import API_VERSION, KIND, ScenarioFile
from dovetail.simulate.scenario.trace import Visit, read_trace, visits
from dovetail.simulate.scenario.traffic import Curve, curve, next_time, second_of_day
from dovetail.simulate.workloads.keda import not_played
from dovetail.units.duration import parse_duration

MOST_PODS = 200_000  # of workloads at once: each is an object with a life of its own
FILE_NAME = "scenario.yaml"
FAULTS_NAME = "faults.yaml"  # may lie in the folder: it is no manifest
_MANIFESTS = (".yaml", ".yml", ".json")
_DAY_ONE = "2026-03-02T"  # a Monday; used where `start` is only a time of day
LONGEST = 31 * 86_400 * SECOND

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something that is not known from data: what a figure depends on although it was not measured."""

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
    changes: tuple[Change, ...] = ()
    history: tuple[Step, ...] = ()
    nodes: tuple[Located, ...] = ()  # of NodePools, that are there at the start
    terms: Terms | None = None  # commitments, under which it is paid
    assumptions: tuple[Assumption, ...] = field(default=())
    notes: tuple[str, ...] = ()  # on what was read, for whoever wrote it

    @property
    def source(self) -> str:
        """The path of the scenario file, for messages."""
        return str(self.folder / FILE_NAME)

    def until(self, duration: int) -> Scenario:
        """This scenario, played for another length of time."""
        return replace(self, duration=duration)

    def under(self, policy: Policy) -> Scenario:
        """This scenario with another one in charge of nodes. Raises InputError where it has none to scale."""
        settings = msgspec.structs.replace(self.file.settings, policy=policy)
        file = msgspec.structs.replace(self.file, settings=settings)
        _check_groups(file, self.source)
        return replace(self, file=file)

    def seeded(self, seed: int) -> Scenario:
        """This scenario with other luck."""
        return replace(self, seed=seed)


def _check_groups(file: ScenarioFile, source: str) -> None:
    """Cluster Autoscaler needs a node group that it may scale."""
    if file.settings.policy == "cluster-autoscaler" and all(group.max is None for group in file.node_groups):
        raise InputError(
            "no node group may be scaled",
            source=source,
            path="nodeGroups",
            remedy="give the groups that Cluster Autoscaler is to scale a max, such as `max: 10`",
        )


def load(path: Path, *, trace: Path | None = None, changes: Sequence[FieldChange] = ()) -> Scenario:
    """Read a scenario folder (or its scenario.yaml); raises InputError for anything that is wrong.

    `trace` replaces the file that the scenario's `trace` section names; `changes` are fields set otherwise.
    """
    return ScenarioFolder(path).scenario(trace=trace, changes=changes)


class ScenarioFolder:
    """A folder whose files are read once, however many scenarios are made of it with fields set otherwise.

    Those share what they have in common, such as manifests: they are there to be looked at, one is played.
    """

    def __init__(self, path: Path) -> None:
        """Raises InputError, as all here does, for anything that is wrong."""
        self.folder = path.parent if path.name == FILE_NAME else path
        self._file = Document.read(_find(self.folder))
        self._beside: Reading | None = None  # read when the scenario itself was found sound
        self._later: dict[Path, Reading] = {}  # of changes
        self._read: dict[tuple[Callable[[Path], Any], Path], Any] = {}

    def scenario(self, *, trace: Path | None = None, changes: Sequence[FieldChange] = ()) -> Scenario:
        """As `load`."""
        document = self._file.changed([each for each in changes if not each.kind])
        _check_head(document)
        file = document.decode(ScenarioFile)
        start = _start(document, file)
        check(document, file)
        _check_groups(file, document.source)
        if self._beside is None:
            self._beside = _manifests(self.folder)
        later = tuple(self._changes(document, file, start, self._beside.manifests))
        for given in (self._beside.manifests, *(change.manifests for change, _ in later)):
            refuse_too_many(given, MOST_PODS, "a simulation")
            refuse_endless(given, MOST_PODS, "a simulation")
        scenario = Scenario(
            file=file,
            folder=self.folder,
            start=start,
            duration=_duration(document, file),
            seed=file.seed,
            latencies=_latencies(document, file),
            curves=_curves(document, file),
            manifests=with_objects(self._beside.manifests, [each for each in changes if each.kind]),
            visits=self._visits(document, file, trace),
            changes=tuple(change for change, _ in later),
            history=self._history(document, file),
            nodes=self._nodes(document, file),
            terms=terms_of(document, file.commitments, "commitments"),
            notes=(*self._beside.notes, *(note for _, notes in later for note in notes)),
        )
        scenario = replace(scenario, notes=(*scenario.notes, *_without_effect(scenario)))
        _refuse_empty(scenario)
        return replace(scenario, assumptions=_assumptions(scenario, document))

    def _once(self, reader: Callable[[Path], T], path: Path) -> T:
        """What the reader makes of the file, the first time it is asked for."""
        key = reader, path
        if key not in self._read:
            self._read[key] = reader(path)
        found: T = self._read[key]
        return found

    def _changes(
        self, document: Document, file: ScenarioFile, start: int, beside: Sequence[Manifest]
    ) -> Iterator[tuple[Change, tuple[str, ...]]]:
        """With the notes on what was read."""
        for i, change in enumerate(file.changes):
            path = self.folder / change.file
            if not path.is_file():
                remedy = (
                    "give a path relative to the folder; keep it in a folder of its own, such as changes/"
                )
                raise document.error(f"there is no file {change.file!r}", f"changes[{i}].file", remedy=remedy)
            if path.parent == self.folder:
                remedy = "move it into a folder of its own, such as changes/"
                complaint = "manifests beside the scenario are applied at the start"
                raise document.error(complaint, f"changes[{i}].file", remedy=remedy)
            at = next_time(start, second_of_day(change.at), file.timezone)
            if path not in self._later:  # what files before it added may be changed too
                added = (item for each in self._later.values() for item in each.manifests)
                self._later[path] = read([path], onto=(*beside, *added))
            reading = self._later[path]
            yield Change(at, reading.manifests), reading.notes

    def _visits(self, document: Document, file: ScenarioFile, given: Path | None) -> tuple[Visit, ...]:
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
                    "the scenario does not say which trace",
                    "trace",
                    remedy="give it with --trace FILE.csv.gz",
                )
            path = self.folder / file.trace.file
        return visits(file.trace, self._once(read_trace, path), source=document.source)

    def _nodes(self, document: Document, file: ScenarioFile) -> tuple[Located, ...]:
        if file.nodes is None:
            return ()
        return self._once(read_nodes, self._there(document, file.nodes.file, "nodes.file"))

    def _history(self, document: Document, file: ScenarioFile) -> tuple[Step, ...]:
        if file.history is None:
            return ()
        return self._once(read_history, self._there(document, file.history.file, "history.file"))

    def _there(self, document: Document, name: str, where: str) -> Path:
        """The file of that name; `where` is the field that asks for it."""
        path = self.folder / name
        if not path.is_file():
            raise document.error(f"there is no file {name!r}", where)
        return path


def _without_effect(scenario: Scenario) -> Iterator[str]:
    """A line for each object that changes nothing, because its gate is off, and for what is missing."""
    gates = scenario.file.settings.feature_gates
    later = (item for change in scenario.changes for item in change.manifests)
    given = [item.object for item in (*scenario.manifests, *later)]
    for key in sorted({item.key for item in given if isinstance(item, CapacityBuffer)}):
        if not gates.capacity_buffer:
            yield (
                f"CapacityBuffer {key} keeps nothing: "
                "scenario.yaml turns it on with settings.featureGates: {CapacityBuffer: true}"
            )
    for name in sorted({item.metadata.name for item in given if isinstance(item, NodeOverlay)}):
        if not gates.node_overlay:
            yield (
                f"NodeOverlay {name} changes nothing: "
                "scenario.yaml turns it on with settings.featureGates: {NodeOverlay: true}"
            )
    if not any(isinstance(item, NodePool) for item in given) and all(
        group.max is None for group in scenario.file.node_groups
    ):
        yield (
            "no NodePool is among the manifests: no node is bought, and pods have the nodes that are there "
            "at the start"
        )
    if gates.static_capacity:
        return
    for name in sorted(
        {pool.metadata.name for pool in given if isinstance(pool, NodePool) and is_static(pool)}
    ):
        yield (
            f"NodePool {name} has spec.replicas, which nobody looks at: "
            "scenario.yaml turns it on with settings.featureGates: {StaticCapacity: true}"
        )


def _refuse_empty(scenario: Scenario) -> None:
    """Nothing would ever happen: the manifests were forgotten, or all are of kinds that are left out."""
    given = (scenario.manifests, scenario.changes, scenario.visits, scenario.nodes, scenario.file.node_groups)
    if not any(given):
        raise InputError(
            "the folder holds nothing to play: no pods, workloads or nodes",
            source=str(scenario.folder),
            remedy="; ".join((*scenario.notes, "put manifests beside scenario.yaml")),
        )


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


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())  # looks through a folder tree each time


def _start(document: Document, file: ScenarioFile) -> int:
    zones = _zones()
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
    duration = document.parse("duration", parse_duration, file.duration)
    if not 0 < duration <= LONGEST:
        raise document.error(f"{file.duration!r} is not between 1ns and 744h", "duration")
    return duration


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


def _manifests(folder: Path) -> Reading:
    paths = sorted(
        path
        for path in folder.iterdir()
        if path.suffix in _MANIFESTS and path.name not in (FILE_NAME, FAULTS_NAME) and path.is_file()
    )
    return read(paths) if paths else Reading()


def _assumptions(scenario: Scenario, document: Document) -> tuple[Assumption, ...]:
    given, gates = document.value.get("latencies") or {}, scenario.file.settings.feature_gates
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
    found.extend(Assumption(subject, text, "scenario") for subject, text in scenario.file.assumed.items())
    found.extend(_triggers_left_out(scenario))
    if "price" in scenario.file.cluster_autoscaler.expander:
        text = (
            f"nodes at Dovetail's prices, pods at ${CORE_PRICE} a core, ${GIB_PRICE} a GiB and ${GPU_PRICE} "
            "a GPU an hour, as in the original's proposal: it has no prices for AWS and refuses it there"
        )
        found.append(Assumption("the expander price", text, "default"))
    if gates.node_overlay and any(isinstance(item.object, NodeOverlay) for item in scenario.manifests):
        text = "decide what is bought and kept; what is billed is the price before them"
        found.append(Assumption("prices of NodeOverlays", text, "default"))
    found.append(Assumption("spot prices", "estimated per family and zone, not published ones", "default"))
    if scenario.file.region in store.regions():
        found.extend(_unpublished(scenario))
    return tuple(found)


def _triggers_left_out(scenario: Scenario) -> Iterator[Assumption]:
    """Triggers of KEDA's objects that nothing stands in for."""
    for scaled in (one.object for one in scenario.manifests):
        if isinstance(scaled, ScaledObject | ScaledJob) and (types := not_played(scaled)):
            text = f"of type {', '.join(types)} are not played: they never scale anything"
            yield Assumption(f"triggers of the {scaled.KIND} {scaled.key}", text, "default")


def _unpublished(scenario: Scenario) -> Iterator[Assumption]:
    """Where prices are from, and which are unknown."""
    region = scenario.file.region
    prices = {record.name: price for record, _, price in store.sold(region)}
    yield Assumption("prices", provenance(region).sentence(), "default")
    if unknown := {name for name, price in prices.items() if not price}:
        text = f"unknown of {len(unknown)} of {len(prices)} types in {region}, which are not bought"
        if named := sorted(unknown & _asked_for(scenario)):
            text += f"; among them are types that are asked for by name: {', '.join(named)}"
        yield Assumption("on-demand prices", text, "default")


def _asked_for(scenario: Scenario) -> set[str]:
    """The types that the scenario names, or a NodePool of it."""
    pools = (one.object for one in scenario.manifests if isinstance(one.object, NodePool))
    requirements = (one for pool in pools for one in pool.spec.template.spec.requirements)
    wanted = (one.values for one in requirements if one.key == INSTANCE_TYPE and one.operator == "In")
    return {*scenario.file.cluster.instance_types, *(name for names in wanted for name in names)}
