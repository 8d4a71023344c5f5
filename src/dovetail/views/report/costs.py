"""Who bears the cost of a run, for the page: by namespace, workload, team and app; what causes idle."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from dovetail.cost.aggregate import NodeCost, key_of, parse_keys
from dovetail.cost.allocation import IDLE, NANO, RESOURCES, AllocationSet
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
        "groups": {key: _groups(made, nodes, key) for key in keys},
    }


def _groups(made: AllocationSet, nodes: Sequence[NodeCost], key: str) -> list[dict[str, Any]]:
    """Costs alone, which can be added up without the averages of a whole allocation."""
    keys = parse_keys([key])
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    borne: Counter[str] = Counter()
    for one in made:
        found[key_of(one.properties, keys)].update(one.cost | {"total": one.total})
        borne.update(one.cost)
    idle = {resource: sum(node.paid[resource] for node in nodes) - borne[resource] for resource in RESOURCES}
    if nodes:
        found[IDLE] = Counter(idle | {"total": sum(idle.values())})
    sums = sorted(found.items(), key=lambda one: (one[0] == IDLE, -one[1]["total"], one[0]))
    rows: list[dict[str, Any]] = [
        {
            "name": "idle" if name == IDLE else name.replace("__unallocated__", "(none)"),
            "cpu": cost["cpu"] / NANO,
            "memory": cost["ram"] / NANO,
            "gpu": cost["gpu"] / NANO,
            "total": cost["total"] / NANO,
        }
        for name, cost in sums
    ]
    if len(rows) <= _MOST:
        return rows
    first, rest = rows[: _MOST - 2], rows[_MOST - 2 : -1]
    other = {name: sum(row[name] for row in rest) for name in ("cpu", "memory", "gpu", "total")}
    return [*first, {"name": f"{len(rest)} more", **other}, rows[-1]]
