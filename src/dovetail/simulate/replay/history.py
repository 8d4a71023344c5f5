"""A cluster's past from monitoring and audit logs, as steps of a history.

Read are answers of Prometheus to range queries of kube-state-metrics, and Kubernetes audit logs, in any
number of files, plain or gzipped; the content says which is which. Audit logs may be as their collectors keep
them: behind a time, or as the text of a field.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from dovetail.api.redact import redacted
from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.reading.prometheus import label_of, named, pod_of, range_query
from dovetail.reading.sources import decoded
from dovetail.simulate.scenario.history import Step

_REMEDY = "give the JSON of /api/v1/query_range, or an audit log with one event a line"
# Metric -> (kind, its label). A later one of the same kind counts only where the one before is missing.
_REPLICAS = {
    "kube_deployment_spec_replicas": ("Deployment", "deployment"),
    "kube_deployment_status_replicas": ("Deployment", "deployment"),
    "kube_statefulset_replicas": ("StatefulSet", "statefulset"),
    "kube_statefulset_status_replicas": ("StatefulSet", "statefulset"),
    "kube_replicationcontroller_spec_replicas": ("ReplicationController", "replicationcontroller"),
}
_REQUESTS = "kube_pod_container_resource_requests"
_OWNER = "kube_pod_owner"
_LONE = ("Job", "<none>", "")  # owners whose pods nothing in a snapshot makes again
_RESOURCES = {
    "deployments": "Deployment",
    "statefulsets": "StatefulSet",
    "replicasets": "ReplicaSet",
    "jobs": "Job",
    "pods": "Pod",
    "replicationcontrollers": "ReplicationController",
}
_SCALED = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
_PAUSE = "registry.k8s.io/pause:3.10"
_MOST_REPLICAS = 2**31 - 1


class _Owner(msgspec.Struct):
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    labels: dict[str, str | None] | None = None  # of a patch: None takes one away
    owner_references: list[_Owner] | None = None


class _Body(msgspec.Struct):
    """What is looked at of an object that was sent or answered."""

    metadata: _Meta | None = None
    spec: dict[str, Any] | None = None


class _Reference(msgspec.Struct):
    resource: str = ""
    namespace: str = "default"
    name: str = ""
    subresource: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Event(msgspec.Struct, rename="camel"):
    """An event of an audit log, as far as it is read, or an EventList of them, as a webhook gets them."""

    kind: str = ""
    api_version: str = ""
    stage: str = ""
    verb: str = ""
    request_received_timestamp: str = ""
    object_ref: _Reference | None = None
    response_status: _Status | None = None
    response_object: msgspec.Raw = msgspec.Raw(b"null")
    request_object: msgspec.Raw = msgspec.Raw(b"null")
    items: list[_Event] = msgspec.field(default_factory=list)  # of an EventList

    def body(self) -> _Body | None:
        """The object afterwards, or at least as it was asked for. Raises msgspec.ValidationError."""
        for field_name, raw in (("response", self.response_object), ("request", self.request_object)):
            try:
                found = msgspec.json.decode(raw, type=_Body | list[Any] | None)  # a list: of a JSON patch
            except msgspec.ValidationError as error:
                where = f"`$.{field_name}Object"
                raise msgspec.ValidationError(str(error).replace("`$", where)) from None
            if isinstance(found, _Body):
                return found
        return None


class _Kept(msgspec.Struct):
    """A line of a log as its collector keeps it."""

    message: Any = None  # CloudWatch
    insight: Any = msgspec.field(default=None, name="@message")  # CloudWatch Logs Insights
    log: Any = None  # of a container; of Azure, below `properties`
    properties: _Kept | None = None
    events: list[_Kept] = msgspec.field(default_factory=list)  # `aws logs filter-log-events`

    def lines(self) -> Iterator[str]:
        """Those that it holds."""
        for found in (self.message, self.insight, self.log):
            if isinstance(found, str):
                yield found
        for one in (*self.events, *(() if self.properties is None else (self.properties,))):
            yield from one.lines()


@dataclass(slots=True)
class Past:
    """Steps with `at` in nanoseconds since the epoch, and what was not understood or left out."""

    steps: list[Step] = field(default_factory=list)
    start: int = 0
    end: int = 0
    assumed: dict[str, str] = field(default_factory=dict)


def read_past(paths: Sequence[Path]) -> Past:
    """All that the files hold, in order of time. Raises InputError."""
    past = Past()
    series: list[dict[str, Any]] = []
    for path in paths:
        text = decoded(str(path))
        found = _series(text, path)
        if found is not None:
            series += found
        else:
            past.steps += _audit(text, path, past, series)
    past.steps += _prometheus(series, past)
    if not past.steps:
        given = ", ".join(map(str, paths))
        why = "".join(f"; {subject}: {what}" for subject, what in sorted(past.assumed.items()))
        raise InputError(f"holds no workload that changed{why}", source=given, remedy=_REMEDY)
    past.steps.sort(key=lambda step: step.at)
    past.start, past.end = past.steps[0].at, max(past.steps[-1].at, past.end)
    return past


def _series(text: str, path: Path) -> list[dict[str, Any]] | None:
    """Of an answer to a range query; None for what is no answer of Prometheus. Raises InputError."""
    found = range_query(text, path, _REMEDY)
    for item in found or ():
        _check(item, path)
    return found


def _check(item: Mapping[str, Any], path: Path) -> None:
    """Raises InputError for numbers that no replicas are, and sizes of what is not said."""
    metric = item["metric"]
    name = metric.get("__name__")
    if name in _REPLICAS:
        for _, value in item["values"]:
            if not 0 <= value <= _MOST_REPLICAS:
                raise InputError(f"{value:g} is no number of replicas: {named(metric)}", source=str(path))
    if name == _REQUESTS and not metric.get("resource"):
        remedy = "ask for the series as it is, with all of its labels"
        raise InputError(f"there is no label resource: {named(metric)}", source=str(path), remedy=remedy)


def _prometheus(series: Sequence[Mapping[str, Any]], past: Past) -> Iterator[Step]:
    """Replicas of workloads where they change, and pods of Jobs for as long as they were there."""
    replicas: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    others = Counter[str]()
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for item in series:
        by_name.setdefault(item["metric"].get("__name__", ""), []).append(item)
    for name, (kind, label) in _REPLICAS.items():
        found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
        for item in by_name.get(name, ()):
            metric = item["metric"]
            key = (kind, label_of(metric, "namespace") or "default", label_of(metric, label))
            if key[2] and key not in replicas:
                found.setdefault(key, []).append(item)
        replicas |= {key: _merged(items) for key, items in found.items()}
    for name, items in by_name.items():
        if name not in (*_REPLICAS, _REQUESTS, _OWNER):
            others[name or "series without __name__"] += len(items)
    if others:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(others.items()))
        past.assumed["series that are not played"] = listed
    for key, values in replicas.items():
        last: int | None = None
        for at, count in values:
            if count != last:
                yield Step(at, scale=key, replicas=count)
                last = count
        past.end = max([past.end, *(at for at, _ in values)])
    yield from _pods(by_name.get(_REQUESTS, ()), by_name.get(_OWNER, ()), past)


def _merged(series: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """(instant, replicas) of one workload: each pod of kube-state-metrics that there was has its series.

    Raises InputError where they are of several workloads that have the same name.
    """
    merged: dict[int, int] = {}
    for item in series:
        values = {at: round(value) for at, value in item["values"]}
        both = Counter(merged[at] == value for at, value in values.items() if at in merged)
        if both[False] > both[True]:
            one, two = named(series[0]["metric"]), named(item["metric"])
            raise InputError(
                f"there are several workloads of one name: {one} and {two} say otherwise at the same time",
                remedy="ask for the series of one cluster",
            )
        merged |= values
    return sorted(merged.items())


def _pods(
    requests: Iterable[Mapping[str, Any]], owners: Iterable[Mapping[str, Any]], past: Past
) -> Iterator[Step]:
    """Pods of Jobs, and those of nothing, as pods of their size that are there as long as they were seen."""
    owner = {pod_of(item["metric"]): item["metric"].get("owner_kind", "") for item in owners}
    asked: dict[tuple[str, str], dict[tuple[str, str], float]] = {}  # by container and resource
    seen: dict[tuple[str, str], list[int]] = {}
    unowned = 0
    for item in requests:
        metric = item["metric"]
        key = pod_of(metric)
        values = item["values"]
        if key not in owner:
            unowned += 1
        if not values or owner.get(key, "unknown") not in _LONE:
            continue
        # Several series of one container are one after the other, of pods of kube-state-metrics.
        sizes = asked.setdefault(key, {})
        sizes[label_of(metric, "container"), metric["resource"]] = values[0][1]
        seen.setdefault(key, []).extend((values[0][0], values[-1][0]))
    if unowned:
        past.assumed["pods without kube_pod_owner"] = (
            f"{unowned} series are left out: nothing says what made them"
        )
    for (namespace, name), sizes in asked.items():
        first, last = min(seen[namespace, name]), max(seen[namespace, name])
        summed: dict[str, float] = {}
        for (_, resource), amount in sizes.items():
            summed[resource] = summed.get(resource, 0.0) + amount
        amounts = {
            resource.replace("nvidia_com_gpu", "nvidia.com/gpu"): _quantity(resource, amount)
            for resource, amount in summed.items()
        }
        container = {"name": "main", "image": _PAUSE, "resources": {"requests": amounts}}
        yield Step(
            first,
            create={
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": namespace, "labels": {"app": "history"}},
                "spec": {"containers": [container], "restartPolicy": "Never"},
            },
        )
        yield Step(last + SECOND, delete=("Pod", namespace, name))
    if asked:
        past.assumed["pods of Jobs"] = (
            f"{len(asked)} are pods of their size, without other rules, for as long as they were seen"
        )


def _quantity(resource: str, amount: float) -> str:
    return f"{math.ceil(amount * 1000)}m" if resource == "cpu" else str(math.ceil(amount))


def _audit(text: str, path: Path, past: Past, series: list[dict[str, Any]]) -> Iterator[Step]:
    """Workloads that were scaled, made or deleted by whoever, as far as the log has the objects.

    `series` gets those of range queries that stand in the same file.
    """
    bare = 0
    replicas: dict[tuple[str, str, str], int] = {}
    for number, event in _events(text, path, past, series):
        reference = event.object_ref or _Reference()
        kind = _RESOURCES.get(reference.resource)
        code = event.response_status.code if event.response_status else 0
        if kind is None or event.stage != "ResponseComplete" or not 200 <= code < 300:
            continue
        at = _instant(event.request_received_timestamp, path, number)
        past.end = max(past.end, at)
        target = (kind, reference.namespace, reference.name)
        try:
            body = event.body()
        except msgspec.ValidationError as error:
            raise _unknown(path, number, f": {error}") from None
        if event.verb == "delete" and not reference.subresource and target[2] and not _made(kind, body):
            yield Step(at, delete=target)
        elif event.verb in ("create", "update", "patch") and reference.subresource in ("", "scale"):
            if body is None:
                bare += 1
                continue
            if event.verb == "create" and not reference.subresource:
                if document := _document(kind, body, target[1]):
                    yield Step(at, create=document)
            elif kind in _SCALED and not _made(kind, body):
                count = (body.spec or {}).get("replicas")
                if not isinstance(count, int) or replicas.get(target) == count:
                    continue
                if not 0 <= count <= _MOST_REPLICAS:
                    raise InputError(f"{count} is no number of replicas", source=str(path), line=number)
                replicas[target] = count
                yield Step(at, scale=target, replicas=count)
    if bare:
        past.assumed[f"events of {path.name} without objects"] = (
            f"{bare} are left out: their level is Metadata, or Request with a JSON patch"
        )


def _events(text: str, path: Path, past: Past, series: list[dict[str, Any]]) -> Iterator[tuple[int, _Event]]:
    """(line, event). The last document may be cut off, as it is of a file that is still written."""
    strange = 0
    for number, document, last in _documents(text):
        why = ""
        try:
            found, unread = _opened(document)
        except msgspec.ValidationError as error:
            found, unread, why = [], 0, f": {error}"
        except RecursionError:
            found, unread, why = [], 0, ": it is nested too deeply"
        except msgspec.DecodeError:
            if last and number > 1:
                past.assumed[f"line {number} of {path.name}"] = "is cut off, and left out"
                break
            found, unread = [], 0
        if not found and not unread:
            answer = None if why else _series(document, path)
            if answer is None:
                raise _unknown(path, number, why)
            series += answer
        strange += unread
        for one in found:
            yield number, one
    if strange:
        past.assumed[f"lines of {path.name} that are no audit events"] = f"{strange} are left out"


def _unknown(path: Path, number: int, why: str) -> InputError:
    message = f"is neither a range query nor an event of an audit log{why}"
    return InputError(message, source=str(path), line=number, remedy=_REMEDY)


def _documents(text: str) -> Iterator[tuple[int, str, bool]]:
    """(line, JSON, whether it is the last). One a line, unless they are written over several, as jq does."""
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) > 1 and lines[0][1] in ("{", "["):
        yield from _over_lines(text)
        return
    for number, line in lines:
        start = line.find("{")
        # Collectors of logs put a time before it, and some the stream.
        bare = line[start:] if start > 0 and line[0] != "[" and '"' not in line[:start] else line
        yield number, bare, number == lines[-1][0]


def _over_lines(text: str) -> Iterator[tuple[int, str, bool]]:
    decoder, text, at, line = json.JSONDecoder(), text.rstrip(), 0, 1
    while at < len(text):
        if text[at].isspace():
            line += text[at] == "\n"
            at += 1
            continue
        try:
            end = decoder.raw_decode(text, at)[1]
        except (ValueError, RecursionError):
            end = len(text)
        yield line, text[at:end], end == len(text)
        line += text.count("\n", at, end)
        at = end


_EVENT = msgspec.json.Decoder(_Event)
_KEPT = msgspec.json.Decoder(_Kept)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


def _opened(document: str) -> tuple[list[_Event], int]:
    """The events that it holds, and how many lines that a collector kept are none. Raises DecodeError."""
    if document[:1] == "[" and document[1:].lstrip()[:1] == "{":
        many = [_opened(bytes(one).decode()) for one in _LIST.decode(document)]
        return [one for found, _ in many for one in found], sum(unread or not found for found, unread in many)
    event = _EVENT.decode(document)
    if event.kind in ("Event", "EventList") and event.api_version.startswith("audit.k8s.io/"):
        return (event.items if event.kind == "EventList" else [event]), 0
    found, unread = [], 0
    for line in _KEPT.decode(document).lines():
        try:
            inner, more = _opened(line.strip())
        except msgspec.DecodeError:
            inner, more = [], 0
        found += inner
        unread += more or not inner
    return found, unread


def _made(kind: str, body: _Body | None) -> bool:
    """True iff a controller made the object, which makes it again in the simulation."""
    owners = body.metadata.owner_references if body is not None and body.metadata is not None else None
    return kind in ("Pod", "ReplicaSet", "Job") and any(owner.controller for owner in owners or ())


def _document(kind: str, body: _Body, namespace: str) -> dict[str, Any] | None:
    """The object as it was asked for; None for what a controller made, or without a spec."""
    meta = body.metadata
    if meta is None or not meta.name or body.spec is None or _made(kind, body):
        return None
    found = redacted({"apiVersion": _API[kind], "kind": kind, "spec": body.spec})
    if kind == "Pod":
        found["spec"].pop("nodeName", None)
    if kind == "Job":
        found["spec"].pop("selector", None)
    found["metadata"] = {
        "name": meta.name,
        "namespace": namespace,
        "labels": _without_none(meta.labels or {}),
    }
    return found


def _without_none(labels: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if value is not None}


_API = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "Job": "batch/v1",
    "Pod": "v1",
    "ReplicationController": "v1",
}


def _instant(text: str, path: Path, number: int) -> int:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000) * (SECOND // 1000)
    except ValueError:
        raise InputError(f"{text!r} is no time", source=str(path), line=number, remedy=_REMEDY) from None
