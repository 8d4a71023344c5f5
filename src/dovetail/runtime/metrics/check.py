"""What every receiver refuses."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.base.metrics import Metric


class Declared:
    """Metrics seen so far. Invariant: no two of them have one name."""

    def __init__(self) -> None:
        self._known: dict[str, Metric] = {}

    def labels(self, name: str) -> tuple[str, ...]:
        """The labels of a metric that was seen."""
        return self._known[name].labels

    def series(self, metric: Metric, kind: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The labels' values in the metric's order. Raises ValueError as Metrics says."""
        if self._known.setdefault(metric.name, metric) != metric:
            raise ValueError(f"two different metrics are called {metric.name}")
        if metric.kind != kind:
            raise ValueError(f"{metric.name} is a {metric.kind}, not a {kind}")
        if labels.keys() != set(metric.labels):
            wanted = ", ".join(metric.labels) or "none"
            raise ValueError(
                f"{metric.name} has the labels {wanted}; given were {', '.join(labels) or 'none'}"
            )
        return tuple(labels[name] for name in metric.labels)
