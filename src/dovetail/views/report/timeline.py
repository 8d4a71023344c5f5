"""From the event log to the rows of the node timeline, and to the grouped list of events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dovetail.base.clock import SECOND
from dovetail.units.money import dollars
from dovetail.views.report.series import Record, node_kind

_KEPT, _MOST_KEPT = ("DisruptionBlocked", "Unconsolidatable"), 30  # events that say why a node stays; rows
# Conditions of a NodeClaim that begin each stage of a node's life, as the timeline colours them.
_LEAVING = ("Drained", "InstanceTerminating")


def node_rows(records: Iterable[Record], end: int) -> list[dict[str, Any]]:
    """One row per node ever launched, in order of launch.

    Times are Unix seconds: `launched`, `joined`, `ready`, `leaving`, `gone`; a stage that was never reached
    is null, and `gone` of a node that outlived the simulation is its end.
    """
    rows: dict[str, dict[str, Any]] = {}
    row_of_node: dict[str, str] = {}
    for record in records:
        seconds = record["t"] / SECOND
        match record["kind"]:
            case "instance.started" if record.get("claim"):
                rows[record["claim"]] = _row(record, seconds)
            case "node.created":
                key = record.get("claim") or record["node"]
                row = rows.setdefault(key, _row({**record, "price": 0}, seconds))
                row.update(name=record["node"], joined=seconds, kind=node_kind(record))
                row["pool"] = row["pool"] or record.get("pool", "")
                row_of_node[record["node"]] = key
            case "node.ready" if record["node"] in row_of_node:
                row = rows[row_of_node[record["node"]]]
                row["ready"] = row["ready"] or seconds
            case "node.deleted" if record["node"] in row_of_node:
                rows[row_of_node[record["node"]]]["gone"] = seconds
            case "claim.condition" if record["type"] in _LEAVING and record["claim"] in rows:
                row = rows[record["claim"]]
                row["leaving"] = row["leaving"] or seconds
            case "claim.deleted" if record["claim"] in rows:
                rows[record["claim"]]["gone"] = seconds
    for row in rows.values():
        row["gone"] = row["gone"] or end / SECOND
    return sorted(rows.values(), key=lambda row: (row["launched"], row["name"]))


def _row(record: Record, seconds: float) -> dict[str, Any]:
    return {
        "name": record.get("node") or record.get("claim", ""),
        "claim": record.get("claim", ""),
        "pool": record.get("pool", ""),
        "kind": node_kind(record),
        "instanceType": record.get("instanceType", ""),
        "zone": record.get("zone", ""),
        "price": dollars(record["price"]),
        "estimated": record.get("estimated", False),
        "launched": seconds,
        "joined": None,
        "ready": None,
        "leaving": None,
        "gone": None,
    }


def blocker_rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """What kept nodes from being disrupted, what kept most of them in front: counted by node or pool.

    Texts that differ in what stands in brackets at their end are one; `example` is the first of them.
    """
    rows: dict[str, dict[str, Any]] = {}
    kept: dict[str, set[str]] = {}
    for record in records:
        # A node and its claim get the same events; a claim without a node is no candidate yet.
        if record["kind"] != "event" or record["reason"] not in _KEPT or record["object"].startswith("NodeC"):
            continue
        seconds, text = record["t"] / SECOND, record["message"].split(" (", 1)[0].split(", ", 1)[0]
        row = rows.setdefault(text, {"text": text, "example": record["message"], "first": seconds})
        row["last"] = seconds
        kept.setdefault(text, set()).add(record["object"])
        row["objects"] = len(kept[text])
    return sorted(rows.values(), key=lambda row: (-row["objects"], row["first"], row["text"]))[:_MOST_KEPT]


def event_rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Kubernetes Events in order, equal ones (reason, message without object) counted within a minute.

    `also` are the other objects that got the same event then.
    """
    rows: list[dict[str, Any]] = []
    latest: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        if record["kind"] != "event":
            continue
        seconds = record["t"] / SECOND
        key = (record["reason"], record["message"])
        row = latest.get(key)
        if row is not None and seconds - row["t"] < 60:
            row["count"] += 1
            if record["object"] != row["object"]:
                row.setdefault("also", {})[record["object"]] = None
            continue
        latest[key] = row = {
            "t": seconds,
            "type": record["type"],
            "reason": record["reason"],
            "object": record["object"],
            "message": record["message"],
            "count": 1,
        }
        rows.append(row)
    for row in rows:
        if "also" in row:
            row["also"] = list(row["also"])
    return rows
