"""Prometheus' text format, written by hand: a library takes seconds for the pods of a large cluster."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.base.metrics import Metric

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def header(metric: Metric) -> str:
    """The lines before the values of a metric."""
    return f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"


def series(metric: Metric, labels: Iterable[tuple[str, str]]) -> str:
    """A line up to its value. Labels without a value are left out, which Prometheus takes for the same."""
    inner = ",".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in labels if value)
    return f"{metric.name}{{{inner}}} " if inner else f"{metric.name} "
