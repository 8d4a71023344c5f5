"""What every receiver of metrics does, and that Prometheus can read what one of them writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dovetail.base.metrics import Metric, Metrics
from dovetail.controllers import interruption
from dovetail.controllers.brakes import guard
from dovetail.controllers.disruption import efficiency
from dovetail.controllers.disruption import metrics as disruption
from dovetail.controllers.nodeclaim import disrupted, reboot
from dovetail.controllers.provisioning import metrics as provisioning
from dovetail.controllers.provisioning import realised
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.runtime.metrics.prometheus import PrometheusMetrics

EVERY = (
    *provisioning.ALL,
    *realised.ALL,
    *guard.ALL,
    *disrupted.ALL,
    *reboot.ALL,
    *disruption.ALL,
    *efficiency.ALL,
    *interruption.ALL,
)
DOCUMENTED = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"

COUNTER = Metric("made_total", "counter", "Things made.", ("kind",))
GAUGE = Metric("depth", "gauge", "How deep.")
LABELLED = Metric("height", "gauge", "How high.", ("of",))
HISTOGRAM = Metric("took_seconds", "histogram", "How long.", ("by",), (0.1, 1.0))


@pytest.fixture(params=[MemoryMetrics, PrometheusMetrics])
def metrics(request: pytest.FixtureRequest) -> Metrics:
    made: Metrics = request.param()
    return made


@pytest.mark.parametrize(
    ("use", "complaint"),
    [
        (lambda to: to.add(COUNTER), "labels kind; given were none"),
        (lambda to: to.set(GAUGE, 1, of="it"), "labels none; given were of"),
        (lambda to: to.set(COUNTER, 1, kind="a"), "is a counter, not a gauge"),
        (lambda to: to.add(GAUGE), "is a gauge, not a counter"),
        (lambda to: to.observe(GAUGE, 1), "is a gauge, not a histogram"),
        (lambda to: to.add(COUNTER, -1, kind="a"), "[Cc]ounter"),
        (lambda to: to.set(Metric("depth", "gauge", "Otherwise."), 1), "two different metrics"),
    ],
)
def test_what_a_metric_is_not_is_refused(
    metrics: Metrics, use: Callable[[Metrics], None], complaint: str
) -> None:
    metrics.set(GAUGE, 3)
    with pytest.raises(ValueError, match=complaint):
        use(metrics)


def test_dropping_what_is_not_there_is_fine(metrics: Metrics) -> None:
    for metric, labels in ((GAUGE, {}), (LABELLED, {"of": "it"}), (HISTOGRAM, {"by": "us"})):
        metrics.drop(metric, **labels)
        metrics.drop(metric, **labels)
    metrics.set(LABELLED, 1, of="it")
    metrics.drop(LABELLED, of="another")


def test_memory_remembers() -> None:
    metrics = MemoryMetrics()
    metrics.add(COUNTER, kind="a")
    metrics.add(COUNTER, 2, kind="a")
    metrics.set(GAUGE, 1)
    metrics.set(GAUGE, 5)
    metrics.observe(HISTOGRAM, 0.5, by="us")
    metrics.observe(HISTOGRAM, 0.25, by="us")
    assert metrics.value(COUNTER, kind="a") == 3
    assert metrics.value(COUNTER, kind="b") is None
    assert metrics.value(GAUGE) == 5
    assert metrics.observed(HISTOGRAM, by="us") == (0.5, 0.25)
    metrics.drop(GAUGE)
    assert metrics.value(GAUGE) is None


def samples(metrics: PrometheusMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of the exposition, read by the parser of the library."""
    text = metrics.exposition().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_what_was_counted() -> None:
    metrics = PrometheusMetrics()
    metrics.add(COUNTER, 2, kind='a "quoted"\nname\\')
    metrics.set(GAUGE, 5)
    metrics.set(LABELLED, 1, of="gone")
    metrics.drop(LABELLED, of="gone")
    metrics.observe(HISTOGRAM, 0.5, by="us")
    assert samples(metrics) == {
        ("made_total", (("kind", 'a "quoted"\nname\\'),)): 2,
        ("depth", ()): 5,
        ("took_seconds_bucket", (("by", "us"), ("le", "0.1"))): 0,
        ("took_seconds_bucket", (("by", "us"), ("le", "1.0"))): 1,
        ("took_seconds_bucket", (("by", "us"), ("le", "+Inf"))): 1,
        ("took_seconds_count", (("by", "us"),)): 1,
        ("took_seconds_sum", (("by", "us"),)): 0.5,
    }
    metrics.drop(GAUGE)
    assert ("depth", ()) not in samples(metrics)
    metrics.set(GAUGE, 6)
    assert samples(metrics)["depth", ()] == 6


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_metrics_follow_the_rules_of_names_and_are_documented(metric: Metric) -> None:
    assert re.fullmatch(r"(karpenter|dovetail)_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.help.endswith(".")
    row = next(
        line for line in DOCUMENTED.read_text().splitlines() if line.startswith(f"| `{metric.name}` |")
    )
    assert row.split("|")[2].strip() == metric.kind
    assert re.findall(r"`(\w+)`", row.split("|")[3]) == list(metric.labels)
