"""What plans promised and what came of it, from a log: the gap as it was claimed, and as it was lived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dovetail.base.clock import HOUR
from dovetail.units.money import NANO_DOLLARS
from dovetail.views.history import Record


@dataclass(frozen=True, slots=True)
class Realised:
    """Dollars an hour, of all plans together: `planned` and `least` as they were made, the rest of those
    that came to their end; of the cluster the means over time, and its first and last instant.
    """

    plans: int
    planned: float
    least: float
    settled: int  # plans all of whose nodes and pods are accounted for
    settled_planned: float
    settled_realised: float
    pods: Counter[str]
    nodes: Counter[str]
    causes: Counter[str]
    hours: float  # over which the cluster's cost and its least were proven
    cost: float
    cluster_least: float
    first: int
    last: int

    @property
    def claimed_gap(self) -> float:
        """Share of what was planned that no proof covers."""
        return 1 - self.least / self.planned if self.planned else 0.0

    @property
    def lived_gap(self) -> float:
        """Share of what the cluster cost over the time that no proof covers: daemons, limits and all."""
        return 1 - self.cluster_least / self.cost if self.cost else 0.0


def realised(records: Sequence[Record]) -> Realised | None:
    """None for a log without plans."""
    plans = [one for one in records if one["kind"] == "decision"]
    ended = [one for one in records if one["kind"] == "plan.realised"]
    proven = [one for one in records if one["kind"] == "efficiency"]
    if not plans and not proven:
        return None
    pods: Counter[str] = Counter()
    nodes: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for one in ended:
        pods.update(one["pods"])
        nodes.update(one["nodes"])
        causes.update(one.get("causes", {}))
    # Each proof stands until the next; the last one stands for no time of its own.
    spans = [(later["t"] - one["t"], one) for one, later in pairwise(proven)]
    time = sum(length for length, _ in spans)

    def mean(field: str) -> float:
        return float(sum(length * one[field] for length, one in spans)) / time / NANO_DOLLARS if time else 0.0

    def summed(of: Sequence[Record], field: str) -> float:
        return float(sum(one[field] for one in of)) / NANO_DOLLARS

    instants = [one["t"] for one in (*plans, *proven)]
    return Realised(
        len(plans),
        summed(plans, "hourly"),
        summed(plans, "lowerBound"),
        len(ended),
        summed(ended, "planned"),
        summed(ended, "realised"),
        pods,
        nodes,
        causes,
        time / HOUR,
        mean("cost"),
        mean("lowerBound"),
        min(instants),
        max(instants),
    )
