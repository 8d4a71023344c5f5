"""The data behind the report, and the page that carries it: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dovetail import __version__
from dovetail.base.clock import SECOND
from dovetail.base.words import number_of
from dovetail.cost.commitments import Terms
from dovetail.simulate.analysis.disruptions import ended_nodes
from dovetail.simulate.analysis.figures import PodWait, Summary
from dovetail.simulate.analysis.waiting import PARTS
from dovetail.views.history import decisions
from dovetail.views.page.document import one_file, part
from dovetail.views.report.costs import cost_data
from dovetail.views.report.series import Record, chart_series, traffic_series
from dovetail.views.report.timeline import blocker_rows, event_rows, node_rows

# Upper ends of the histogram's buckets, in seconds; people think in these steps when a pod is pending.
_BUCKETS = (10, 20, 30, 40, 50, 60, 75, 90, 120, 180, 300, 600)
_REPORT = "dovetail.views.report"


@dataclass(frozen=True, slots=True)
class Period:
    """What the log covers: nanoseconds since the epoch, how to show them, and the terms of what is paid."""

    start: int
    end: int
    zone: str  # "Asia/Seoul"
    offset_seconds: int  # of that zone against UTC at `start`
    region: str
    terms: Terms | None = None


def render(title: str, period: Period, records: Sequence[Record], summary: Summary) -> str:
    """The whole page as text."""
    data = report_data(title, period, records, summary)
    return one_file(title, part("report.html", _REPORT), part("report.js", _REPORT), data)


def report_data(title: str, period: Period, records: Sequence[Record], summary: Summary) -> dict[str, Any]:
    """Everything that the page shows, as JSON values."""
    return {
        "title": title,
        "verdict": _verdict(summary),
        "version": __version__,
        "period": {
            "start": period.start // SECOND,
            "end": period.end // SECOND,
            "zone": period.zone,
            "offsetSeconds": period.offset_seconds,
        },
        "about": f"{period.region}, seed {summary.seed}; simulated in virtual time",
        "tiles": _tiles(summary),
        "series": chart_series(records, period.start, period.end),
        "traffic": traffic_series(records),
        "waiting": _waiting(summary),
        "hpa": [
            {
                "name": name,
                "max": figures.maximum,
                "idle": figures.nothing_pending_seconds,
                "waiting": figures.waiting_for_nodes_seconds,
            }
            for name, figures in summary.hpa_at_maximum.items()
        ],
        "decisions": decisions(records),
        "disruption": _disruption(records, summary),
        "nodes": node_rows(records, period.end),
        "events": event_rows(records),
        "costNote": _cost_note(summary),
        "costs": cost_data(records, period.start, period.end, period.terms),
        "assumptions": summary.assumptions,
        "absent": [],
        "eventLogSha256": summary.event_log_sha256,
    }


def _verdict(summary: Summary) -> str:
    pending = summary.pods.pending_seconds
    created = summary.pods.created
    of_all = f"{summary.waiting.pods:,} of {number_of(created, 'pod')} had to wait for a place"
    waited = of_all if created else "There was no pod"
    had = "all" if not summary.pods.unbound else "those that got one"
    worst = f"; 99 % of {had} had a node within {pending.p99:.0f} s, the last within {pending.max:.0f} s"
    left = f"; {summary.pods.unbound:,} still had none at the end" if summary.pods.unbound else ""
    broken = f" {len(summary.violations)} broken promises were found." if summary.violations else ""
    return f"{waited}{worst if summary.pods.bound else ''}{left}.{broken}"


def _tiles(summary: Summary) -> list[dict[str, Any]]:
    cost, nodes = summary.cost, summary.nodes
    aged = [_tile(f"{nodes.expired_daily:,.0f}", "launches a day, at the rate at which nodes expired")]
    return [
        _tile(_dollars(cost.paid), "spent in all" + (", part estimated" if cost.estimated else "")),
        _tile(_dollars(cost.peak_hourly), "an hour at the peak"),
        _tile(
            f"{nodes.peak:,}", "nodes at the peak" + (f", {nodes.base:,} always there" if nodes.base else "")
        ),
        _tile(f"{nodes.launched:,} / {nodes.terminated:,}", "nodes launched / terminated"),
        *(aged if nodes.expired else ()),
        _tile(_dollars(summary.disruptions.saved_hourly), "an hour saved by disruption, summed up"),
        *_time_tiles(summary),
        _tile(str(len(summary.violations)), "promises broken", bad=bool(summary.violations)),
    ]


def _tile(value: str, label: str, *, bad: bool = False) -> dict[str, Any]:
    return {"value": value, "label": label, "bad": bad}


def _time_tiles(summary: Summary) -> list[dict[str, Any]]:
    """How long pods took to a node. Those that never had one are counted, and are no time of 0 s."""
    pods, pending = summary.pods, summary.pods.pending_seconds
    got = " of pods that got one" if pods.unbound else ""
    tiles = [
        _tile(f"{pending.p50:.0f} s" if pods.bound else "–", f"median time to a node{got}"),
        _tile(f"{pending.max:.0f} s" if pods.bound else "–", f"longest time to a node{got}"),
    ]
    if pods.unbound:
        tiles.append(_tile(f"{pods.unbound:,}", "pods without a node at the end", bad=True))
    return tiles


def _dollars(value: float) -> str:
    """With four decimals where two would say nothing: five nodes for 20 s cost $0.0040."""
    return f"{'-' if value < 0 else ''}${abs(value):,.{4 if 0 < abs(value) < 0.1 else 2}f}"


def _cost_note(summary: Summary) -> str:
    cost = summary.cost
    volumes = f" {_dollars(cost.volumes)} of {_dollars(cost.total)} are for volumes." if cost.volumes else ""
    if cost.paid != cost.total:
        vain = f", {_dollars(cost.unused)} of it for what nothing uses" if cost.unused else ""
        volumes += f" Under the commitments {_dollars(cost.paid)} are paid{vain}; charts are at list prices."
    if not cost.estimated:
        return f"All prices are published on-demand prices or derived from them.{volumes}"
    return (
        f"{_dollars(cost.estimated)} of {_dollars(cost.total)} rest on spot prices, which are estimates; "
        f"on-demand prices are published ones, or derived from them.{volumes}"
    )


def _waiting(summary: Summary) -> dict[str, Any]:
    waits = summary.waiting
    pending = [item.pending_seconds for item in waits.all]
    edges = (0, *_BUCKETS)
    buckets = [
        {"label": f"{low}–{high} s", "count": sum(low <= value < high for value in pending)}
        for low, high in pairwise(edges)
    ]
    buckets.append({"label": f"≥ {edges[-1]} s", "count": sum(value >= edges[-1] for value in pending)})
    while len(buckets) > 1 and not buckets[-1]["count"]:
        buckets.pop()
    used = [name for name in PARTS if any(item.parts.get(name) for item in waits.all)]
    texts: dict[str, int] = {}
    rows = [
        _wait_row(item, used, texts)
        for item in sorted(waits.all, key=lambda wait: (-wait.total_seconds, wait.pod))
    ]
    return {
        "note": f"{waits.pods} pods found no room at first, the slowest come first.",
        "buckets": buckets,
        "phases": used,
        "texts": list(texts),
        "rows": rows,
    }


def _disruption(records: Sequence[Record], summary: Summary) -> dict[str, Any]:
    """By reason: nodes, pods, dollars per hour; budgets; what kept nodes; each that went. Unix seconds."""
    return {
        "reasons": [
            {
                "reason": reason.replace("_", " "),
                "commands": part.commands,
                "nodes": part.nodes,
                "pods": part.pods_moved,
                "saved": part.saved_hourly,
            }
            for reason, part in summary.disruptions.by_reason.items()
        ],
        "budgets": [
            {"pool": pool, "used": use.most_used, "full": use.full_seconds}
            for pool, use in summary.disruptions.budgets.items()
        ],
        "blockers": blocker_rows(records),
        "rows": ended_rows(records),
    }


def ended_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Nodes that were ended before their time; what a command saves is with the first of its nodes alone."""
    counted: set[int] = set()
    rows = []
    for item in ended_nodes(records):
        first = item.command < 0 or item.command not in counted
        counted.add(item.command)
        rows.append(
            {
                "t": item.at / SECOND,
                "node": item.node,
                "pool": item.pool,
                "reason": item.reason.replace("_", " "),
                "mode": item.mode,
                "pods": item.pods,
                "saved": item.saved_hourly if first else None,
                "replacements": item.replacements,
            }
        )
    return rows


def _wait_row(item: PodWait, used: Sequence[str], texts: dict[str, int]) -> dict[str, Any]:
    """Seconds to a node and to its start; `text` is a number among the texts that many pods share."""
    return {
        "pod": item.pod,
        "owner": item.owner,
        "node": item.node,
        "pending": item.pending_seconds,
        "total": item.total_seconds,
        "parts": [round(item.parts.get(name, 0.0), 2) for name in used],
        "text": texts.setdefault(item.explanation, len(texts)),
    }
