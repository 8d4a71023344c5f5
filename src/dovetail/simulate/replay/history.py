"""A cluster's past from monitoring and audit logs, as steps of a history.

Read are answers of Prometheus to range queries of kube-state-metrics, and Kubernetes audit logs, in any
number of files, plain or gzipped; the content says which is which.
"""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from dovetail.api.redact import redacted
from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
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
        data = _bytes(path)
        found = _range_query(data, path)
        if found is not None:
            series += found
        else:
            past.steps += _audit(data, path, past)
    past.steps += _prometheus(series, past)
    if not past.steps:
        given = ", ".join(map(str, paths))
        raise InputError("holds no workload that changed", source=given, remedy=_REMEDY)
    past.steps.sort(key=lambda step: step.at)
    past.start, past.end = past.steps[0].at, max(past.steps[-1].at, past.end)
    return past


def _bytes(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read it: {why}", source=str(path), remedy=_REMEDY) from None


def _range_query(data: bytes, path: Path) -> list[dict[str, Any]] | None:
    """The series of an answer to a range query; None for what is no answer of Prometheus.

    Raises InputError for its other answers.
    """
    try:
        found = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    if isinstance(found, dict):
        if found.get("status") == "error":
            why = f"Prometheus answered an error: {found.get('error', '')}"
            raise InputError(why, source=str(path), remedy=_REMEDY)
        found = found.get("data", found)
    if isinstance(found, dict):
        found = found.get("result")
    if not isinstance(found, list) or not all(isinstance(item, dict) and "metric" in item for item in found):
        return None
    for item in found:
        try:
            if "values" not in item:
                raise InputError("is no range query: no values over time", source=str(path), remedy=_REMEDY)
            item["values"] = list(_values(item))
        except (ValueError, TypeError):
            metric = item["metric"]
            name = metric.get("__name__", metric) if isinstance(metric, dict) else metric
            text = f"the values of {name} are no pairs of a time and a number"
            raise InputError(text, source=str(path), remedy=_REMEDY) from None
    return found


def _prometheus(series: Sequence[Mapping[str, Any]], past: Past) -> Iterator[Step]:
    """Replicas of workloads where they change, and pods of Jobs for as long as they were there."""
    replicas: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    others = Counter[str]()
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for item in series:
        by_name.setdefault(item["metric"].get("__name__", ""), []).append(item)
    for name, (kind, label) in _REPLICAS.items():
        for item in by_name.get(name, ()):
            metric = item["metric"]
            key = (kind, metric.get("namespace", "default"), metric.get(label, ""))
            if key[2] and key not in replicas:
                replicas[key] = [(at, round(value)) for at, value in item["values"]]
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


def _values(item: Mapping[str, Any]) -> Iterator[tuple[int, float]]:
    """(instant in nanoseconds, value) of a series, without gaps' NaN."""
    for at, text in item["values"]:
        value = float(text)
        if math.isfinite(value):
            yield round(float(at) * 1000) * (SECOND // 1000), value


def _pods(
    requests: Iterable[Mapping[str, Any]], owners: Iterable[Mapping[str, Any]], past: Past
) -> Iterator[Step]:
    """Pods of Jobs, and those of nothing, as pods of their size that are there as long as they were seen."""
    owner = {
        (item["metric"].get("namespace"), item["metric"].get("pod")): item["metric"].get("owner_kind", "")
        for item in owners
    }
    asked: dict[tuple[str, str], dict[str, float]] = {}
    seen: dict[tuple[str, str], list[int]] = {}
    unowned = 0
    for item in requests:
        metric = item["metric"]
        key = (metric.get("namespace", "default"), metric.get("pod", ""))
        values = item["values"]
        if key not in owner:
            unowned += 1
        if not values or owner.get(key, "unknown") not in _LONE:
            continue
        sizes = asked.setdefault(key, {})
        sizes[metric["resource"]] = sizes.get(metric["resource"], 0.0) + values[0][1]
        seen.setdefault(key, []).extend((values[0][0], values[-1][0]))
    if unowned:
        past.assumed["pods without kube_pod_owner"] = (
            f"{unowned} series are left out: nothing says what made them"
        )
    for (namespace, name), sizes in asked.items():
        first, last = min(seen[namespace, name]), max(seen[namespace, name])
        amounts = {
            resource.replace("nvidia_com_gpu", "nvidia.com/gpu"): _quantity(resource, amount)
            for resource, amount in sizes.items()
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


def _audit(data: bytes, path: Path, past: Past) -> Iterator[Step]:
    """Workloads that were scaled, made or deleted by whoever, as far as the log has the objects."""
    bare = 0
    replicas: dict[tuple[str, str, str], int] = {}
    lines = [line for line in data.splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            event = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError:
            event = {}
        if event.get("kind") != "Event" or not str(event.get("apiVersion", "")).startswith("audit.k8s.io/"):
            raise InputError(
                "is neither a range query nor an event of an audit log",
                source=str(path),
                line=number,
                remedy=_REMEDY,
            )
        reference = event.get("objectRef", {})
        kind = _RESOURCES.get(reference.get("resource", ""))
        code = event.get("responseStatus", {}).get("code", 0)
        if kind is None or event.get("stage") != "ResponseComplete" or not 200 <= code < 300:
            continue
        at = _instant(event.get("requestReceivedTimestamp", ""), path, number)
        past.end = max(past.end, at)
        target = (kind, reference.get("namespace", "default"), reference.get("name", ""))
        verb, part = event.get("verb", ""), reference.get("subresource", "")
        answer = event.get("responseObject") or event.get("requestObject")
        if verb == "delete" and not part and target[2] and not _made(kind, answer or {}):
            yield Step(at, delete=target)
        elif verb in ("create", "update", "patch") and part in ("", "scale"):
            if not answer:
                bare += 1
                continue
            if verb == "create" and not part:
                if document := _document(kind, answer, target[1]):
                    yield Step(at, create=document)
            elif kind in _SCALED and not _made(kind, answer):
                count = answer.get("spec", {}).get("replicas")
                if isinstance(count, int) and replicas.get(target) != count:
                    replicas[target] = count
                    yield Step(at, scale=target, replicas=count)
    if bare:
        past.assumed[f"events of {path.name} without objects"] = (
            f"{bare} are left out: the audit policy logged them at level Metadata"
        )


def _made(kind: str, document: Mapping[str, Any]) -> bool:
    """True iff a controller made the object, which makes it again in the simulation."""
    owners = document.get("metadata", {}).get("ownerReferences", ())
    return kind in ("Pod", "ReplicaSet", "Job") and any(owner.get("controller") for owner in owners)


def _document(kind: str, answer: Mapping[str, Any], namespace: str) -> dict[str, Any] | None:
    """The object as it was asked for; None for what a controller made, or without a spec."""
    meta = answer.get("metadata", {})
    if not meta.get("name") or "spec" not in answer or _made(kind, answer):
        return None
    found = redacted({"apiVersion": _API[kind], "kind": kind, "spec": answer["spec"]})
    if kind == "Pod":
        found["spec"].pop("nodeName", None)
    if kind == "Job":
        found["spec"].pop("selector", None)
    found["metadata"] = {
        "name": meta["name"],
        "namespace": namespace,
        "labels": dict(meta.get("labels", {})),
    }
    return found


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
        return round(moment.timestamp() * 1000) * (SECOND // 1000)
    except ValueError:
        raise InputError(f"{text!r} is no time", source=str(path), line=number, remedy=_REMEDY) from None
