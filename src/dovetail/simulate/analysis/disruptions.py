"""Disruption in figures: which nodes were ended before their time, why, and what that saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dovetail.base.clock import SECOND
from dovetail.simulate.analysis.figures import (
    BudgetFigures,
    DisruptionFigures,
    EndedNode,
    ReasonFigures,
    dollars,
)

Record = Mapping[str, Any]


def disruption_figures(records: Sequence[Record], end: int) -> DisruptionFigures:
    """From the event log: commands and what they saved, and every node that was ended, by reason; budgets.

    `end` is the instant (ns) at which the log ends.
    """
    commands = _carried_out(records)
    ended = [record for record in records if record["kind"] == "disrupted"]
    reasons = dict.fromkeys((*(_reason(item) for item in commands), *(item["reason"] for item in ended)))
    return DisruptionFigures(
        **_sums(commands, ended),
        failed=sum(record["kind"] == "disruption.failed" for record in records),
        by_reason={
            reason: ReasonFigures(
                **_sums(
                    [item for item in commands if _reason(item) == reason],
                    [item for item in ended if item["reason"] == reason],
                )
            )
            for reason in reasons
        },
        budgets=_budgets(records, end),
    )


def _budgets(records: Iterable[Record], end: int) -> dict[str, BudgetFigures]:
    most: dict[str, int] = {}
    full: dict[str, int] = {}
    since: dict[str, int] = {}  # pools whose budgets are full now
    for record in records:
        if record["kind"] == "budget":
            pool, used = record["pool"], record["used"]
            most[pool] = max(used, most.get(pool, 0))
            full[pool] = full.get(pool, 0) + record["t"] - since.pop(pool, record["t"])
            if used and not record["allowed"]:
                since[pool] = record["t"]
    for pool, begun in since.items():
        full[pool] += end - begun
    return {
        pool: BudgetFigures(most_used=most[pool], full_seconds=round(full[pool] / SECOND, 3)) for pool in most
    }


def ended_nodes(records: Iterable[Record]) -> list[EndedNode]:
    """Every node that was ended before its time, in that order, with what its command saved as a whole."""
    saved: dict[str, int] = {}
    made: dict[str, list[str]] = {}
    command: dict[str, int] = {}
    found = []
    for number, record in enumerate(records):
        if record["kind"] == "disruption":
            for claim in record["claims"]:
                saved[claim], made[claim] = record["savings"], record["replacements"]
                command[claim] = number
        elif record["kind"] == "disrupted":
            claim = record["claim"]
            found.append(
                EndedNode(
                    at=record["t"],
                    node=record["node"] or claim,
                    pool=record["pool"],
                    reason=record["reason"],
                    mode=record["mode"],
                    pods=record["pods"],
                    saved_hourly=dollars(saved.get(claim, 0)),
                    replacements=made.get(claim, []),
                    command=command.get(claim, -1),
                )
            )
    return found


def _carried_out(records: Iterable[Record]) -> list[Record]:
    """Commands that were not undone; those that still wait for replacements at the end are among them."""
    begun: dict[tuple[str, ...], int] = {}  # the claims of a command -> its place in `found`
    found: dict[int, Record] = {}
    for number, record in enumerate(records):
        if record["kind"] == "disruption":
            begun[tuple(record["claims"])] = number
            found[number] = record
        elif record["kind"] == "disruption.failed":
            found.pop(begun.get(tuple(record["claims"]), number), None)
    return list(found.values())


def _reason(command: Record) -> str:
    return str(command["reason"]).lower()


def _sums(commands: Sequence[Record], ended: Sequence[Record]) -> dict[str, Any]:
    return {
        "commands": len(commands),
        "nodes": len(ended),
        "pods_moved": sum(item["pods"] for item in ended),
        "saved_hourly": dollars(sum(item["savings"] for item in commands)),
    }
