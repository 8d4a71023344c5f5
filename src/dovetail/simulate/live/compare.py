"""The figures of both runs of a scenario, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.base.clock import HOUR
from dovetail.simulate.analysis.log import Record
from dovetail.simulate.run import Result

TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both runs."""

    name: str
    simulated: float
    cluster: float

    @property
    def difference(self) -> float:
        """As a share of what the simulation says; infinite where it says 0 and the cluster does not."""
        if self.simulated == self.cluster:
            return 0.0
        return abs(self.cluster - self.simulated) / self.simulated if self.simulated else math.inf

    @property
    def close(self) -> bool:
        return self.difference <= TOLERANCE


def compare(simulated: Result, cluster: Result) -> tuple[Row, ...]:
    """Pending times in seconds, the most nodes at once, and node-hours."""
    ours, theirs = simulated.summary, cluster.summary
    waits, real = ours.pods.pending_seconds, theirs.pods.pending_seconds
    return (
        Row("pods bound", ours.pods.bound, theirs.pods.bound),
        Row("pending p50", waits.p50, real.p50),
        Row("pending p90", waits.p90, real.p90),
        Row("peak nodes", ours.nodes.peak, theirs.nodes.peak),
        Row("node-hours", node_hours(simulated), node_hours(cluster)),
        Row("cost", ours.cost.total, theirs.cost.total),
    )


def node_hours(result: Result) -> float:
    """Of all instances, from their start to their end or that of the run."""
    return round(sum(_lives(result.records, result.end)) / HOUR, 4)


def _lives(records: Iterable[Record], end: int) -> list[int]:
    started: dict[str, int] = {}
    found = []
    for record in records:
        if record["kind"] == "instance.started":
            started[record["instance"]] = record["t"]
        elif record["kind"] == "instance.terminated":
            found.append(record["t"] - started.pop(record["instance"]))
    return [*found, *(end - begun for begun in started.values())]
