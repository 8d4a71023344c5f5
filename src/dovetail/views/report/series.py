"""From the event log to the lines of the charts: values over time on an even grid.

A chart needs a few hundred points however long the simulation was. The first point is the start; each other
carries the value at the end of its interval; pods are those of the moment inside it when the most were
pending, or short peaks would vanish. What is not known yet, such as usage before there is a node, is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dovetail.base.clock import SECOND
from dovetail.units.money import dollars

Record = Mapping[str, Any]
POINTS = 600
BASE = "base"  # the word of summaries too: "managed" would be Karpenter's word for all others
_SMALLEST_STEP = 5 * SECOND


@dataclass(slots=True)
class _Tally:
    """Running totals while the log is read. Invariant: every total equals the sum over the maps beside it."""

    pending: int = 0
    running: int = 0
    cost: int = 0  # nano-dollars per hour
    efficiency: float | None = None  # as of the last look, 0 to 1
    nodes: dict[str, int] = field(default_factory=dict)  # kind -> count
    requested: dict[str, int] = field(default_factory=dict)  # resource -> of bound pods
    allocatable: dict[str, int] = field(default_factory=dict)  # resource -> of nodes
    pod_requests: dict[str, Mapping[str, int]] = field(default_factory=dict)
    bound: dict[str, bool] = field(default_factory=dict)  # pod -> has it a node
    node_of: dict[str, tuple[str, Mapping[str, int]]] = field(
        default_factory=dict
    )  # node -> kind, allocatable
    price_of: dict[str, int] = field(default_factory=dict)  # instance -> nano-dollars per hour


def node_kind(record: Record) -> str:
    """What a node counts as: "base" without a claim, as no NodePool has it, else its capacity type."""
    return str(record["capacityType"]) if record.get("claim") else BASE


def chart_series(records: Sequence[Record], start: int, end: int) -> dict[str, Any]:
    """Lines over the grid: `t` in Unix seconds, and per chart a list of the same length per line."""
    step = max((end - start) // POINTS, _SMALLEST_STEP)
    tally = _Tally()
    lines: dict[str, list[float | None]] = {}
    instants: list[int] = []
    peak = (0, 0)  # pending and running pods when the most were pending
    upcoming = start
    for record in [*records, {"t": end + step, "kind": "end"}]:
        while record["t"] > upcoming and upcoming <= end:
            instants.append(upcoming // SECOND)
            _sample(lines, tally, peak, len(instants))
            peak = (tally.pending, tally.running)
            upcoming += step
        _apply(tally, record)
        if tally.pending >= peak[0]:
            peak = (tally.pending, tally.running)
    return {"t": instants, "lines": lines}


def _sample(lines: dict[str, list[float | None]], tally: _Tally, pods: tuple[int, int], length: int) -> None:
    now: dict[str, float | None] = dict(zip(("pods.pending", "pods.running"), pods, strict=True))
    now["cost"] = dollars(tally.cost)
    now["efficiency"] = None if tally.efficiency is None else 100 * tally.efficiency
    for kind, count in tally.nodes.items():
        now[f"nodes.{kind}"] = count
    for resource in ("cpu", "memory"):
        room = tally.allocatable.get(resource, 0)
        now[f"use.{resource}"] = 100 * tally.requested.get(resource, 0) / room if room else None
    for name, value in now.items():
        line = lines.setdefault(name, [0.0] * (length - 1))
        line.append(None if value is None else round(value, 4))


def _apply(tally: _Tally, record: Record) -> None:
    match record["kind"]:
        case "pod.created":
            tally.pod_requests[record["pod"]] = record.get("requests", {})
            tally.bound[record["pod"]] = False
            tally.pending += 1
        case "pod.bound":
            _bind(tally, record["pod"])
        case "pod.deleted" | "pod.finished":
            _remove(tally, record["pod"])
        case "node.created":
            kind = node_kind(record)
            tally.node_of[record["node"]] = (kind, record.get("allocatable", {}))
            tally.nodes[kind] = tally.nodes.get(kind, 0) + 1
            _shift(tally.allocatable, record.get("allocatable", {}), 1)
        case "node.deleted" if record["node"] in tally.node_of:
            kind, allocatable = tally.node_of.pop(record["node"])
            tally.nodes[kind] -= 1
            _shift(tally.allocatable, allocatable, -1)
        case "instance.started":
            tally.price_of[record["instance"]] = record["price"]
            tally.cost += record["price"]
        case "efficiency":
            tally.efficiency = record["lowerBound"] / record["cost"]
        case "instance.terminated":
            tally.cost -= tally.price_of.pop(record["instance"], 0)


def _bind(tally: _Tally, pod: str) -> None:
    if tally.bound.get(pod) is False:
        tally.bound[pod] = True
        tally.pending -= 1
        tally.running += 1
        _shift(tally.requested, tally.pod_requests[pod], 1)


def _remove(tally: _Tally, pod: str) -> None:
    bound = tally.bound.pop(pod, None)
    requests = tally.pod_requests.pop(pod, {})
    if bound:
        tally.running -= 1
        _shift(tally.requested, requests, -1)
    elif bound is False:
        tally.pending -= 1


def _shift(totals: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        totals[name] = totals.get(name, 0) + sign * amount


def traffic_series(records: Iterable[Record]) -> dict[str, Any]:
    """Requests per second per service: a line of (Unix seconds, value) pairs each, thinned to the grid."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        if record["kind"] == "traffic":
            lines.setdefault(record["service"], []).append((record["t"] / SECOND, round(record["load"], 2)))
    return {name: _thin(points) for name, points in sorted(lines.items())}


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    stride = max(1, len(points) // POINTS)
    return points[::stride]
