"""What plans promised and what became of it, in figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dovetail.model.offering import NANO_DOLLARS
from dovetail.simulate.figures import PlanFigures


def plan_figures(records: Iterable[Mapping[str, Any]]) -> PlanFigures:
    """Over all plans that bought something and are settled: their nodes joined or failed, their pods went."""
    settled = [record for record in records if record["kind"] == "plan.realised"]

    def total(of: str, outcome: str) -> int:
        return sum(record[of][outcome] for record in settled)

    return PlanFigures(
        settled=len(settled),
        planned_hourly=_dollars(sum(record["planned"] for record in settled)),
        realised_hourly=_dollars(sum(record["realised"] for record in settled)),
        nodes_joined=total("nodes", "joined"),
        nodes_failed=total("nodes", "failed"),
        pods_here=total("pods", "here"),
        pods_elsewhere=total("pods", "elsewhere"),
        pods_replanned=total("pods", "replanned"),
        pods_gone=total("pods", "gone"),
    )


def _dollars(nanos: int) -> float:
    return round(nanos / NANO_DOLLARS, 4)
