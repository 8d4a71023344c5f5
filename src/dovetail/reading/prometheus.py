"""Answers of Prometheus to range queries, as `curl` keeps them in files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError

_LAST = 10_000_000_000  # seconds since 1970: later times are milliseconds


def range_query(text: str, path: Path, remedy: str) -> list[dict[str, Any]] | None:
    """The series of an answer, each with `metric` (text by label) and `values`: (instant in nanoseconds,
    finite value). None for what is no answer of Prometheus.

    Raises InputError with this remedy for its other answers, and for values and labels that are none.
    """
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(found, dict):
        if found.get("status") == "error":
            why = f"Prometheus answered an error: {found.get('error', '')}"
            raise InputError(why, source=str(path), remedy=remedy)
        found = found.get("data", found)
    if isinstance(found, dict):
        found = found.get("result")
    if not isinstance(found, list) or not all(
        isinstance(item, dict) and isinstance(item.get("metric"), dict) for item in found
    ):
        return None
    for item in found:
        metric = item["metric"]
        if "values" not in item:
            raise InputError("is no range query: no values over time", source=str(path), remedy=remedy)
        try:
            item["values"] = list(_values(item))
        except (ValueError, TypeError, OverflowError):
            why = f"the values of {named(metric)} are no pairs of a time (seconds since 1970) and a number"
            raise InputError(why, source=str(path), remedy=remedy) from None
        if not all(isinstance(label, str) for label in metric.values()):
            raise InputError(f"a label is no text: {named(metric)}", source=str(path), remedy=remedy)
    return found


def _values(item: Mapping[str, Any]) -> Iterator[tuple[int, float]]:
    """(instant in nanoseconds, value) of a series, without gaps' NaN."""
    for at, text in item["values"]:
        instant, value = float(at), float(text)
        if not 0 <= instant < _LAST:
            raise ValueError(at)
        if math.isfinite(value):
            yield round(instant * 1000) * (SECOND // 1000), value


def named(metric: Mapping[str, Any]) -> str:
    """A series as Prometheus writes it."""
    labels = ",".join(f'{key}="{value}"' for key, value in sorted(metric.items()) if key != "__name__")
    return f"{metric.get('__name__', '')}{{{labels}}}"


def label_of(metric: Mapping[str, str], name: str) -> str:
    """Of what is measured: where its exporter has a label of that name too, Prometheus calls it exported_."""
    return metric.get(f"exported_{name}") or metric.get(name, "")


def pod_of(metric: Mapping[str, str]) -> tuple[str, str]:
    """Namespace and name of the pod that a series is of."""
    return label_of(metric, "namespace") or "default", label_of(metric, "pod")
