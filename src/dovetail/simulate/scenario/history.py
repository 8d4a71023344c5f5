"""What happened to workloads, played again: replicas that changed, objects that came and went.

The file has one JSON object a line, in order of time; `at` counts seconds from the scenario's start:

{"at": 60, "scale": "Deployment/shop/web", "replicas": 5}
{"at": 90.5, "create": {"apiVersion": "batch/v1", "kind": "Job", ...}}
{"at": 300, "delete": "Job/shop/import-1"}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dovetail.api.meta import Object
from dovetail.api.scheme import KINDS
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import ApiError, InputError, NotFound
from dovetail.base.eventlog import EventLog
from dovetail.kube.memory.server import MemoryServer
from dovetail.simulate.scenario.traffic import Section

_BY_KIND: Mapping[str, type[Object]] = {kind.KIND: kind for kind in KINDS}
_FORMS = "valid are scale with replicas, create, and delete, each with at"


class History(Section, frozen=True, kw_only=True):
    """The `history` section of a scenario."""

    file: str  # relative to the scenario's folder


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened, `at` nanoseconds after the start. One of the three is set."""

    at: int
    scale: tuple[str, str, str] | None = None  # kind, namespace, name
    replicas: int = 0
    create: Mapping[str, Any] | None = None
    delete: tuple[str, str, str] | None = None

    def line(self) -> dict[str, Any]:
        """As it is written to a file."""
        at = self.at / SECOND
        if self.create is not None:
            return {"at": at, "create": dict(self.create)}
        if self.scale is not None:
            return {"at": at, "scale": "/".join(self.scale), "replicas": self.replicas}
        return {"at": at, "delete": "/".join(self.delete or ())}


def read_history(path: Path) -> tuple[Step, ...]:
    """The steps of a file; raises InputError with the line of the first that is wrong."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"cannot read the history: {error.strerror}", source=str(path)) from None
    found = [_step(line, path, number) for number, line in enumerate(lines, 1) if line.strip()]
    return tuple(sorted(found, key=lambda step: step.at))


def _step(line: bytes, path: Path, number: int) -> Step:
    def complain(why: str) -> InputError:
        return InputError(why, source=str(path), line=number, remedy=_FORMS)

    try:
        item = msgspec.json.decode(line, type=dict[str, Any])
        at = round(float(item["at"]) * SECOND)
        if at < 0:
            raise complain(f"at is {item['at']}, before the start")
        if "create" in item:
            document = item["create"]
            if document["kind"] not in _BY_KIND or not document["metadata"]["name"]:
                raise complain(f"{document['kind']!r} is no kind that is played")
            return Step(at, create=document)
        if "delete" in item:
            return Step(at, delete=_target(item["delete"]))
        return Step(at, scale=_target(item["scale"]), replicas=int(item["replicas"]))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        raise complain("is no step of a history") from None


def _target(text: str) -> tuple[str, str, str]:
    kind, namespace, name = text.split("/")
    if kind not in _BY_KIND:
        raise ValueError(text)
    return kind, namespace, name


async def play_history(clock: Clock, server: MemoryServer, log: EventLog, steps: Sequence[Step]) -> None:
    """Each at its time, counted from now. What is about missing objects is left out and reported."""
    start = clock.now()
    for step in steps:
        await clock.sleep(max(0, start + step.at - clock.now()))
        try:
            _play(server, step)
        except ApiError as error:
            log.record("history.leftOut", step=step.line(), message=str(error))


def _play(server: MemoryServer, step: Step) -> None:
    if step.create is not None:
        _namespace(server, step.create["metadata"].get("namespace", ""))
        server.create(dict(step.create))
    elif step.scale is not None:
        kind, namespace, name = step.scale
        server.patch(_BY_KIND[kind], name, namespace, merge_patch={"spec": {"replicas": step.replicas}})
    elif step.delete is not None:
        kind, namespace, name = step.delete
        server.delete(_BY_KIND[kind], name, namespace)


def _namespace(server: MemoryServer, name: str) -> None:
    if not name:
        return
    try:
        server.get(_BY_KIND["Namespace"], name)
    except NotFound:
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def first_replicas(steps: Iterable[Step]) -> dict[tuple[str, str, str], int]:
    """How many each workload has at the start: as its first step says."""
    found: dict[tuple[str, str, str], int] = {}
    for step in steps:
        if step.scale is not None:
            found.setdefault(step.scale, step.replicas)
    return found
