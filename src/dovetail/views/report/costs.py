"""Who bears the cost of a run, for the page: by namespace, workload, team and app; what causes idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.cost.aggregate import NodeCost, key_of, parse_keys
from dovetail.cost.allocation import IDLE, NANO, RESOURCES, UNUSED, Allocation, AllocationSet, Properties
from dovetail.cost.commitments import Terms
from dovetail.cost.facts import Facts
from dovetail.cost.idle import causes, sentence
from dovetail.cost.ledger import allocations
from dovetail.cost.window import Window
from dovetail.simulate.analysis.summary import paid_facts
from dovetail.views.report.series import Record

_KEYS = ("namespace", "controller")
_LABELS = ("team", "app", "app.kubernetes.io/name")  # where pods have them
_MOST = 40  # rows of each; the others are one


def cost_data(records: Sequence[Record], start: int, end: int, terms: Terms | None = None) -> dict[str, Any]:
    """Dollars, as they are paid under the terms; `bill` is 0 where nothing was paid."""
    return facts_data(paid_facts(records, start, end, terms), Window(start, end))


def facts_data(facts: Facts, window: Window) -> dict[str, Any]:
    """What facts say of costs in a window, in dollars."""
    labels = {key for run in facts.pods for key, _ in run.workload.labels}
    keys = (*_KEYS, *(f"label:{name}" for name in _LABELS if name in labels))
    made, nodes = allocations(facts, window)
    alike = _alike(made)
    idle = causes(facts, made, nodes, lambda work, _: work.namespace)
    return {
        "bill": facts.bill(window.start, window.end) / NANO,
        "idle": sum(idle.values()) / NANO,
        "causes": [
            {"text": sentence(cause), "dollars": part / NANO} for cause, part in list(idle.items())[:_MOST]
        ],
        "groups": {key: _groups(alike, nodes, key) for key in keys},
    }


class _Sums:
    """Of all pods that no key distinguishes: costs, and what they ask for and use, by time."""

    __slots__ = ("asked", "cost", "properties", "total", "used")

    def __init__(self, properties: Properties) -> None:
        self.properties = properties
        self.cost = dict.fromkeys(RESOURCES, 0)
        self.total = 0
        self.asked = dict.fromkeys(RESOURCES, 0.0)  # of those whose use was measured
        self.used = dict.fromkeys(RESOURCES, 0.0)

    def add(self, cost: Mapping[str, int], total: int) -> None:
        for resource in RESOURCES:
            self.cost[resource] += cost[resource]
        self.total += total

    def measure(self, one: Allocation) -> None:
        if any(one.usage.values()):
            for resource in RESOURCES:
                self.asked[resource] += one.request[resource] * one.minutes
                self.used[resource] += one.usage[resource] * one.minutes

    def join(self, other: _Sums) -> None:
        self.add(other.cost, other.total)
        for resource in RESOURCES:
            self.asked[resource] += other.asked[resource]
            self.used[resource] += other.used[resource]

    def part_used(self, resource: str) -> float | None:
        """Of what was asked for; None where nothing was, or was not measured."""
        return self.used[resource] / self.asked[resource] if self.asked[resource] else None


def _alike(made: AllocationSet) -> list[_Sums]:
    found: dict[tuple[str, str, str, int], _Sums] = {}
    for one in made:
        about = one.properties
        kind = about.namespace, about.controller_kind, about.controller, id(about.labels)
        sums = found.get(kind)
        if sums is None:
            sums = found[kind] = _Sums(about)
        sums.add(one.cost, one.total)
        sums.measure(one)
    return list(found.values())


def _groups(alike: Sequence[_Sums], nodes: Sequence[NodeCost], key: str) -> list[dict[str, Any]]:
    keys = parse_keys([key])
    found: dict[str, _Sums] = {}
    idle = _Sums(Properties(cluster="", node=""))
    for node in nodes:
        idle.add(node.paid, sum(node.paid.values()))
    for one in alike:
        found.setdefault(key_of(one.properties, keys), _Sums(one.properties)).join(one)
        idle.add(minus := {resource: -part for resource, part in one.cost.items()}, sum(minus.values()))
    if nodes:
        found[IDLE] = idle
    sums = sorted(found.items(), key=lambda one: (one[0] == IDLE, -one[1].total, one[0]))
    rows: list[dict[str, Any]] = [
        {
            "name": _shown(name),
            "cpu": one.cost["cpu"] / NANO,
            "memory": one.cost["ram"] / NANO,
            "gpu": one.cost["gpu"] / NANO,
            "total": one.total / NANO,
            "cpuUsed": one.part_used("cpu"),
            "memoryUsed": one.part_used("ram"),
        }
        for name, one in sums
    ]
    if len(rows) <= _MOST:
        return rows
    first, rest = rows[: _MOST - 2], rows[_MOST - 2 : -1]
    other = {name: sum(row[name] for row in rest) for name in ("cpu", "memory", "gpu", "total")}
    return [*first, {"name": f"{len(rest)} more", **other, "cpuUsed": None, "memoryUsed": None}, rows[-1]]


def _shown(name: str) -> str:
    if name == IDLE:
        return "idle"
    return name.replace("__unallocated__", "(none)").replace(UNUSED, "(unused of commitments)")
