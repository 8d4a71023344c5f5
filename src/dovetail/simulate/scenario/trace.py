"""Pods from a CSV trace: each row is a pod that lives from its creation to its deletion time.

Columns that are read: name, cpu_milli, memory_mib, num_gpu, creation_time, deletion_time (times in seconds);
others may be there. A share of a GPU (`gpu_milli`) counts as the whole GPUs of `num_gpu`, because that is
what a device plugin hands out. The file may be compressed with gzip.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dovetail.api.core import Container, Pod, PodSpec, ResourceRequirements
from dovetail.api.meta import Meta
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import Conflict, InputError, NotFound
from dovetail.kube.client import Client
from dovetail.model.resources import CPU, LARGEST, MEMORY, quantities
from dovetail.reading.sources import decoded
from dovetail.simulate.scenario.traffic import Section
from dovetail.units.duration import parse_duration

GPU = "nvidia.com/gpu"
_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "creation_time", "deletion_time")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MEBIBYTE = 1024 * 1024
_LATEST = 10_000_000_000  # seconds since 1970, if they are dates
_IMAGE = "registry.k8s.io/pause:3.10"


class Trace(Section, frozen=True, kw_only=True):
    """The `trace` section of a scenario: pods from a CSV file instead of, or beside, workloads.

    The window is in the trace's own time; `timeScale` 2 plays it twice as fast. Pods that are alive when the
    window begins are created at the start.
    """

    file: str = ""  # relative to the scenario's folder; empty: must be given on the command line
    from_: str = msgspec.field(name="from", default="0s")  # where the window begins
    window: str = "1h"  # its length
    time_scale: float = 1.0
    namespace: str = "default"


@dataclass(frozen=True, slots=True)
class Row:
    """One pod of a trace; times in seconds since the trace's own zero, amounts as integers."""

    line: int  # in the file, counted from 1
    name: str
    created: float
    deleted: float
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Visit:
    """A pod to play: created `start` and deleted `end` nanoseconds after the simulation's start."""

    row: Row
    start: int
    end: int


def read_trace(path: Path) -> tuple[Row, ...]:
    """All rows in the file's order; raises InputError with the row's number (its line in the file)."""
    source = str(path)
    if path.is_dir() or not path.exists():
        why = "it is a folder" if path.is_dir() else "there is no such file"
        remedy = "give the path of a CSV file (or .csv.gz) with --trace"
        raise InputError(f"cannot read the trace: {why}", source=source, remedy=remedy)
    text = io.StringIO(decoded(source), newline="")
    reader = csv.DictReader(text, restkey="", restval=None, strict=True, skipinitialspace=True)
    try:
        _check_columns(reader.fieldnames or (), source)
        rows = tuple(_row(record, source, reader.line_num) for record in reader)
    except csv.Error as error:
        raise InputError(f"not readable as CSV: {error}", source=source, line=reader.line_num) from None
    if not rows:
        raise InputError("the trace has no pods, only the names of columns", source=source)
    _check_names(rows, source)
    return rows


def _check_columns(found: Sequence[str], source: str) -> None:
    missing = [name for name in _COLUMNS if name not in found]
    if not missing:
        return
    remedy = f"the first line must name the columns; needed are {', '.join(_COLUMNS)}"
    if len(found) == 1 and (marks := [mark for mark in ";\t|" if mark in found[0]]):
        remedy = f"fields are separated by {marks[0]!r}: separate them by commas"
    why = f"the trace has no column {', '.join(missing)}"
    raise InputError(why, source=source, line=1, remedy=remedy)


def _row(record: Mapping[str, str | None], source: str, line: int) -> Row:
    def complain(column: str, why: str) -> InputError:
        return InputError(f"row {line}, column {column}: {why}", source=source, line=line)

    def number(column: str) -> float:
        text = record[column]
        try:
            value = float(text or "")
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < 0:
            raise complain(column, f"{text or ''!r} is not a number of 0 or more")
        return value

    def time(column: str) -> float:
        value = number(column)
        if value >= _LATEST:
            raise complain(column, f"{record[column]} s are after the year 2286; are these milliseconds?")
        return value

    def amount(column: str, unit: int = 1) -> int:
        value = math.ceil(number(column) * unit)
        if value >= LARGEST:
            raise complain(column, f"{record[column]} is more than any node has")
        return value

    if None in record.values() or "" in record:
        raise complain("count", "the row has more or fewer fields than the first line")
    name = record["name"] or ""
    if not _NAME.fullmatch(name):
        raise complain("name", f"{name!r} is not a pod name; valid are a-z, 0-9 and '-', up to 63 characters")
    created, deleted = time("creation_time"), time("deletion_time")
    if deleted < created:
        raise complain("deletion_time", f"{deleted:g} is before the creation_time {created:g}")
    requests = {CPU: amount("cpu_milli"), MEMORY: amount("memory_mib", _MEBIBYTE)}
    gpus = amount("num_gpu")
    return Row(line, name, created, deleted, {**requests, GPU: gpus} if gpus else requests)


def _check_names(rows: tuple[Row, ...], source: str) -> None:
    seen: dict[str, int] = {}
    for row in rows:
        if row.name in seen:
            raise InputError(
                f"row {row.line}, column name: {row.name!r} is also the name of row {seen[row.name]}",
                source=source,
                line=row.line,
            )
        seen[row.name] = row.line


def visits(trace: Trace, rows: tuple[Row, ...], *, source: str = "") -> tuple[Visit, ...]:
    """The pods of the window in order of creation; raises InputError for a wrong or an empty window."""
    begin, length = (_duration(trace, field, source) for field in ("from", "window"))
    if not 0 < trace.time_scale < math.inf:
        raise InputError(
            f"{trace.time_scale} is not a time scale; valid is more than 0, such as 1 (as recorded) or 10",
            source=source,
            path="trace.timeScale",
        )
    end = begin + length
    inside = sorted(
        (row for row in rows if row.created < end and row.deleted >= begin),
        key=lambda row: (row.created, row.name),
    )
    if not inside:
        last = max((row.deleted for row in rows), default=0.0)
        raise InputError(
            f"no pod of the trace is alive between {begin:g} s and {end:g} s",
            source=source,
            path="trace.window",
            remedy=f"the trace has {len(rows)} pods and ends at {last:g} s; choose another from or window",
        )

    def scaled(seconds: float) -> int:
        return round(max(0.0, seconds - begin) / trace.time_scale * SECOND)

    return tuple(Visit(row, scaled(row.created), scaled(row.deleted)) for row in inside)


def _duration(trace: Trace, field: str, source: str) -> float:
    text = trace.from_ if field == "from" else trace.window
    try:
        value = parse_duration(text)
        if value < 0 or (field == "window" and value == 0):
            raise ValueError(f"{text!r} must be {'more than' if field == 'window' else 'at least'} 0s")
    except ValueError as error:
        raise InputError(str(error), source=source, path=f"trace.{field}") from None
    return value / SECOND


def _pod(row: Row, namespace: str) -> Pod:
    amounts = quantities(row.requests)
    limits = {GPU: amounts[GPU]} if GPU in amounts else {}
    container = Container(
        name="main", image=_IMAGE, resources=ResourceRequirements(requests=amounts, limits=limits)
    )
    return Pod(
        metadata=Meta(name=row.name, namespace=namespace, labels={"app": "trace"}),
        spec=PodSpec(containers=(container,), restart_policy="Never"),
    )


def _steps(played: tuple[Visit, ...]) -> Iterator[tuple[int, int, Visit]]:
    """(instant, 0 to create or 1 to delete, pod) in order of time; at one instant creations come first."""
    both = [(visit.start, 0, i) for i, visit in enumerate(played)]
    both += [(visit.end, 1, i) for i, visit in enumerate(played)]
    return ((instant, what, played[i]) for instant, what, i in sorted(both))


async def play(client: Client, clock: Clock, played: tuple[Visit, ...], namespace: str) -> None:
    """Create and delete the pods at their times, counted from now; returns after the last one."""
    start = clock.now()
    for instant, what, visit in _steps(played):
        await clock.sleep(start + instant - clock.now())
        if what == 0:
            await client.create(_pod(visit.row, namespace))
            continue
        try:
            await client.delete(Pod, visit.row.name, namespace)
        except (NotFound, Conflict):
            continue  # disrupted before its time: a pod without an owner does not come back
