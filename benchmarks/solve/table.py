"""Rows as a table for people and as JSON for programs."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.solve.case import Row

_LINE = "{:44} {:>6} {:>7} {:>6} {:>5} {:>12} {:>8} {:>8} {:>8} {:>8} {:>8} {:>5}  {:32} {:24} {}"
HEADER = _LINE.format(
    "case",
    "budget",
    "pods",
    "nodes",
    "left",
    "$/h",
    "/bound",
    "/z0",
    "s",
    "wall s",
    "CPU s",
    "viol",
    "target",
    "rival",
    "",
).rstrip()


def line(row: Row) -> str:
    """One line of the table; "s" is the lesser of wall and CPU time; all are medians."""
    return _LINE.format(
        row.case,
        "" if row.budget is None else "first" if row.budget == 0 else f"{row.budget:g} s",
        row.pods,
        row.nodes,
        row.left,
        f"{row.hourly:.2f}",
        _ratio(row.over_bound),
        _ratio(row.over_floor),
        f"{row.seconds:.3f}",
        f"{median(row.wall):.3f}",
        f"{median(row.cpu):.3f}",
        "-" if row.violations is None else row.violations,
        _judged(row),
        row.rival,
        row.note,
    ).rstrip()


def record(row: Row) -> dict[str, Any]:
    """All of a row as JSON values."""
    return {
        "case": row.case,
        "budgetSeconds": row.budget,
        "pods": row.pods,
        "nodes": row.nodes,
        "unschedulable": row.left,
        "hourly": row.hourly,
        "overBound": row.over_bound,
        "overRelaxation": row.over_floor,
        "seconds": row.seconds,
        "wallSeconds": median(row.wall),
        "cpuSeconds": median(row.cpu),
        "wallRuns": row.wall,
        "cpuRuns": row.cpu,
        "work": row.work,
        "violations": row.violations,
        "peakMiB": row.peak_mib,
        "note": row.note,
        "rival": row.rival,
        "target": str(row.target),
        "met": row.met,
    }


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _judged(row: Row) -> str:
    if row.met is None:
        return ""
    return f"{row.target}: {'met' if row.met else 'NOT met'}"
