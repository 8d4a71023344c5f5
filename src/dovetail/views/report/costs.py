"""Who bears the cost of a run, for the page: by namespace, workload, team and app; what causes idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dovetail.cost.aggregate import Options, parse_keys, shares_of
from dovetail.cost.allocation import IDLE, NANO
from dovetail.cost.facts import Facts, read_facts
from dovetail.cost.idle import causes, sentence
from dovetail.cost.ledger import allocations
from dovetail.cost.window import Window
from dovetail.views.report.series import Record

_KEYS = ("namespace", "controller")
_LABELS = ("team", "app", "app.kubernetes.io/name")  # where pods have them
_MOST = 40  # rows of each; the others are one


def cost_data(records: Sequence[Record], start: int, end: int) -> dict[str, Any]:
    """Dollars; `bill` is 0 where nothing was paid."""
    return facts_data(read_facts(records, end), Window(start, end))


def facts_data(facts: Facts, window: Window) -> dict[str, Any]:
    """The same of facts."""
    labels = {key for run in facts.pods for key, _ in run.workload.labels}
    keys = (*_KEYS, *(f"label:{name}" for name in _LABELS if name in labels))
    made, nodes = allocations(facts, window)
    idle = causes(facts, made, nodes, lambda work, _: work.namespace)
    return {
        "bill": facts.bill(window.start, window.end) / NANO,
        "idle": sum(idle.values()) / NANO,
        "causes": [
            {"text": sentence(cause), "dollars": part / NANO} for cause, part in list(idle.items())[:_MOST]
        ],
        "groups": {key: _groups(facts, window, key) for key in keys},
    }


def _groups(facts: Facts, window: Window, key: str) -> list[dict[str, Any]]:
    question = Options(parse_keys([key]), include_idle=True, whole=True)
    (answer,) = shares_of([allocations(facts, window)], question)
    found = sorted(answer, key=lambda one: (one.name == IDLE, -one.total, one.name))
    rows: list[dict[str, Any]] = [
        {
            "name": "idle" if one.name == IDLE else one.name.replace("__unallocated__", "(none)"),
            "cpu": one.cost["cpu"] / NANO,
            "memory": one.cost["ram"] / NANO,
            "gpu": one.cost["gpu"] / NANO,
            "total": one.total / NANO,
        }
        for one in found
    ]
    if len(rows) <= _MOST:
        return rows
    first, rest = rows[: _MOST - 2], rows[_MOST - 2 : -1]
    other = {name: sum(row[name] for row in rest) for name in ("cpu", "memory", "gpu", "total")}
    return [*first, {"name": f"{len(rest)} more", **other}, rows[-1]]
