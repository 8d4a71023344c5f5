"""A run's figures, one number each: what runs are compared by, and how sure their differences are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from dovetail.simulate.analysis.figures import Summary

# Two-sided 95 % quantiles of Student's distribution, by degrees of freedom from 1 on.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Of the means, and how far the truth may be from it at 95 %; None with a single seed."""

    mean: float
    margin: float | None

    @property
    def sure(self) -> bool:
        """True iff the interval does not hold zero."""
        return self.margin is not None and abs(self.mean) > self.margin


def student(degrees: int) -> float:
    """The 95 % quantile; beyond 30 degrees of freedom by its expansion around the normal one."""
    if degrees <= len(_STUDENT):
        return _STUDENT[degrees - 1]
    normal = 1.959964
    return float(normal + (normal**3 + normal) / (4 * degrees))


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Of `theirs` less `ours`, pair by pair: what luck does to both cancels out."""
    pairs = [b - a for a, b in zip(ours, theirs, strict=True)]
    if len(pairs) < 2:
        return Difference(fmean(pairs), None)
    return Difference(fmean(pairs), student(len(pairs) - 1) * stdev(pairs) / sqrt(len(pairs)))


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
        "costPerDay": summary.cost.paid * DAY / summary.simulated_seconds,
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
