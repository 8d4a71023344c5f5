"""Figures that Dovetail exports about itself: what each is, what receives them, what receivers refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, declared once where it is filled. Equal names mean the very same metric.

    `labels` are the names that every value of it is given under; `buckets` are a histogram's upper bounds.
    """

    name: str  # as exposed: base units, a counter ends in "_total"
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


class Metrics(Protocol):
    """Receives values. Twins: Prometheus in production, in memory for simulations and tests.

    Raises ValueError for what a metric is not: a label too many or too few, `add` to a gauge, a name twice.
    """

    def add(self, metric: Metric, amount: float = 1, /, **labels: str) -> None:
        """Let a counter grow; the amount is not negative."""

    def set(self, metric: Metric, value: float, /, **labels: str) -> None:
        """The present value of a gauge."""

    def observe(self, metric: Metric, value: float, /, **labels: str) -> None:
        """One more value into a histogram."""

    def drop(self, metric: Metric, /, **labels: str) -> None:
        """Forget what was under these labels, if anything was: its subject is gone."""

    def forget(self, label: str, value: str, /) -> None:
        """Forget all that has this value under that label, in every metric: its subject is gone."""


class Declared:
    """Metrics seen so far. Invariant: no two of them have one name."""

    def __init__(self) -> None:
        self._known: dict[str, Metric] = {}

    def labels(self, name: str) -> tuple[str, ...]:
        """The labels of a metric that was seen."""
        return self._known[name].labels

    def series(self, metric: Metric, kind: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The labels' values in the metric's order. Raises ValueError as Metrics says."""
        known = self._known.setdefault(metric.name, metric)
        if known is not metric and known != metric:
            raise ValueError(f"two different metrics are called {metric.name}")
        if metric.kind != kind:
            raise ValueError(f"{metric.name} is a {metric.kind}, not a {kind}")
        try:
            series = tuple([labels[name] for name in metric.labels])
        except KeyError:
            series = ()
        if len(series) != len(labels) or len(series) != len(metric.labels):
            wanted = ", ".join(metric.labels) or "none"
            raise ValueError(
                f"{metric.name} has the labels {wanted}; given were {', '.join(labels) or 'none'}"
            )
        return series
