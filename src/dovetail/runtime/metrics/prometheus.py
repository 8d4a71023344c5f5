"""Metrics as Prometheus reads them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import generate_latest

from dovetail.base.metrics import Declared, Metric

_Series = Counter | Gauge | Histogram


class PrometheusMetrics:
    """Metrics with a registry of their own; one that never had a value is not exposed."""

    def __init__(self) -> None:
        # Without the series "_created" that the library puts beside each counter, for the whole process.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no annotations here
        self._declared = Declared()
        self._registry = CollectorRegistry()
        self._made: dict[str, _Series] = {}

    def add(self, metric: Metric, amount: float = 1, /, **labels: str) -> None:
        """See Metrics."""
        found = self._series(metric, "counter", labels)
        assert isinstance(found, Counter)
        found.inc(amount)

    def set(self, metric: Metric, value: float, /, **labels: str) -> None:
        """See Metrics."""
        found = self._series(metric, "gauge", labels)
        assert isinstance(found, Gauge)
        found.set(value)

    def observe(self, metric: Metric, value: float, /, **labels: str) -> None:
        """See Metrics."""
        found = self._series(metric, "histogram", labels)
        assert isinstance(found, Histogram)
        found.observe(value)

    def drop(self, metric: Metric, /, **labels: str) -> None:
        """See Metrics."""
        series = self._declared.series(metric, metric.kind, labels)
        made = self._made.get(metric.name)
        if made is None:
            return
        if series:
            made.remove(*series)
        else:
            self._registry.unregister(self._made.pop(metric.name))

    def forget(self, label: str, value: str, /) -> None:
        """See Metrics. Time: linear in all series of metrics with that label."""
        for name, made in self._made.items():
            names = self._declared.labels(name)
            if label in names:
                label_sets = (sample.labels for family in made.collect() for sample in family.samples)
                gone = {tuple(one[each] for each in names) for one in label_sets if one[label] == value}
                for series in gone:
                    made.remove(*series)

    def exposition(self) -> bytes:
        """Everything in Prometheus' text format, version 0.0.4."""
        return generate_latest(self._registry)

    def _series(self, metric: Metric, kind: str, labels: dict[str, str]) -> _Series:
        series = self._declared.series(metric, kind, labels)
        made = self._made.get(metric.name)
        if made is None:
            made = self._made[metric.name] = self._make(metric)
        return made.labels(*series) if series else made

    def _make(self, metric: Metric) -> _Series:
        if metric.kind == "histogram":
            buckets = metric.buckets or Histogram.DEFAULT_BUCKETS
            return Histogram(
                metric.name, metric.help, metric.labels, buckets=buckets, registry=self._registry
            )
        kind = Counter if metric.kind == "counter" else Gauge
        return kind(metric.name, metric.help, metric.labels, registry=self._registry)
