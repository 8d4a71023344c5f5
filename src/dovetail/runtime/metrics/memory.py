"""Metrics in memory, to look at."""

from __future__ import annotations

from dovetail.base.metrics import Declared, Metric


class MemoryMetrics:
    """Metrics that can be read back. Series are distinguished by their labels, in the metric's order."""

    def __init__(self) -> None:
        self._declared = Declared()
        # By name: hashing a metric is hashing all that is said of it.
        self._values: dict[tuple[str, tuple[str, ...]], float] = {}
        self._observed: dict[tuple[str, tuple[str, ...]], list[float]] = {}

    def add(self, metric: Metric, amount: float = 1, /, **labels: str) -> None:
        """See Metrics."""
        if amount < 0:
            raise ValueError(f"{metric.name} is a counter: it cannot grow by {amount}")
        key = (metric.name, self._declared.series(metric, "counter", labels))
        self._values[key] = self._values.get(key, 0.0) + amount

    def set(self, metric: Metric, value: float, /, **labels: str) -> None:
        """See Metrics."""
        self._values[metric.name, self._declared.series(metric, "gauge", labels)] = value

    def observe(self, metric: Metric, value: float, /, **labels: str) -> None:
        """See Metrics."""
        series = self._declared.series(metric, "histogram", labels)
        self._observed.setdefault((metric.name, series), []).append(value)

    def drop(self, metric: Metric, /, **labels: str) -> None:
        """See Metrics."""
        key = (metric.name, self._declared.series(metric, metric.kind, labels))
        self._values.pop(key, None)
        self._observed.pop(key, None)

    def forget(self, label: str, value: str, /) -> None:
        """See Metrics."""
        for known in (self._values, self._observed):
            for name, series in [*known]:
                if (label, value) in zip(self._declared.labels(name), series, strict=True):
                    del known[name, series]

    def value(self, metric: Metric, /, **labels: str) -> float | None:
        """What a counter or a gauge stands at; None where nothing was ever set."""
        return self._values.get((metric.name, self._declared.series(metric, metric.kind, labels)))

    def observed(self, metric: Metric, /, **labels: str) -> tuple[float, ...]:
        """All that a histogram was given, in order."""
        return tuple(
            self._observed.get((metric.name, self._declared.series(metric, "histogram", labels)), ())
        )
