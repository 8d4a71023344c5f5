"""A run's figures, one number each: what runs are compared by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.simulate.analysis.figures import Summary
from dovetail.simulate.experiment.paired import Difference

DAY = 86_400


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure: its key in JSON and tables, and how it is written. Less is better of all of them."""

    key: str
    label: str
    unit: str  # "$", "s" or "" for a count
    digits: int = 0

    def formatted(self, value: float, *, signed: bool = False) -> str:
        """The value with its unit."""
        value = round(value, self.digits) + 0.0  # no minus before what is shown as zero
        sign = "+" if signed and value >= 0 else "-" if value < 0 else ""
        number = f"{abs(value):,.{self.digits}f}"
        return f"{sign}${number}" if self.unit == "$" else f"{sign}{number}{' s' if self.unit == 's' else ''}"

    def shows(self, difference: Difference) -> bool:
        """True iff it is sure and large enough to be seen in the figures."""
        return difference.sure and round(difference.mean, self.digits) != 0


MEASURES = (
    Measure("costPerDay", "cost a day", "$", 2),
    Measure("waitP50", "wait for a node, p50", "s", 1),
    Measure("waitP99", "wait for a node, p99", "s", 1),
    Measure("pendingP99", "the same, p99 of all pods", "s", 1),
    Measure("evictions", "evictions", "", 1),
    Measure("sloSecondsLost", "seconds over capacity", "s", 0),
    Measure("requestsOverCapacity", "requests over capacity", "", 0),
    Measure("nodesPeak", "nodes at the peak", "", 1),
    Measure("nodesLaunched", "nodes launched", "", 1),
    Measure("podsLeftOver", "pods left without a node", "", 1),
)


def measured(summary: Summary, records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The figures of one run by their keys."""
    placeholders = {record["pod"] for record in records if record.get("placeholder")}
    evicted = [record for record in records if record["kind"] == "pod.evicted"]
    waits = sorted(item.pending_seconds for item in summary.waiting.all)
    return {
        "costPerDay": summary.cost.total * DAY / summary.simulated_seconds,
        "waitP50": nearest_rank(waits, 50),
        "waitP99": nearest_rank(waits, 99),
        "pendingP99": summary.pods.pending_seconds.p99,
        "evictions": float(sum(record["pod"] not in placeholders for record in evicted)),
        "sloSecondsLost": float(sum(item.overloaded_seconds for item in summary.traffic.values())),
        "requestsOverCapacity": float(sum(item.over_capacity for item in summary.traffic.values())),
        "nodesPeak": float(summary.nodes.peak),
        "nodesLaunched": float(summary.nodes.launched),
        "podsLeftOver": float(summary.pods.unbound),
    }


def nearest_rank(ordered: Sequence[float], percent: int) -> float:
    """The quantile of sorted values; 0 for none."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else 0.0
