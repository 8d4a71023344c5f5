"""How a plan is shown: a document for programs, tables and one sentence for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dovetail.model.offering import NANO_DOLLARS
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Resources
from dovetail.solve.plan import Plan, PlannedClaim, Unschedulable
from dovetail.units.quantity import Quantity

_SHOWN_PODS = 3


def document(plan: Plan, elapsed: float) -> dict[str, Any]:
    """The plan for `-o json` and `-o yaml`; prices in dollars per hour, `elapsed` in seconds."""
    return {
        "nodeClaims": [_claim(claim) for claim in plan.claims],
        "existing": {node: list(pods) for node, pods in sorted(plan.existing.items()) if pods},
        "unschedulable": [
            {"pod": item.pod, "reason": item.reason, "nodePools": dict(sorted(item.pools.items()))}
            for item in plan.unschedulable
        ],
        "cost": {
            "hourly": _dollars(plan.cost.hourly),
            "lowerBound": _dollars(plan.cost.lower_bound),
            "gap": round(plan.cost.gap, 6),
        },
        "elapsedSeconds": round(elapsed, 3),
    }


def _claim(claim: PlannedClaim) -> dict[str, Any]:
    return {
        "name": claim.name,
        "nodePool": claim.pool,
        "instanceType": claim.instance_type,
        "zone": claim.zone,
        "capacityType": claim.capacity_type,
        "price": _dollars(claim.price),
        "priceEstimated": claim.price_estimated,
        "instanceTypes": list(claim.instance_types),
        "requirements": list(_requirements(claim)),
        "requests": {name: quantity(name, amount) for name, amount in sorted(claim.requests.items())},
        "pods": list(claim.pods),
    }


def _requirements(claim: PlannedClaim) -> Iterator[dict[str, Any]]:
    """As they are written on a NodeClaim."""
    for item in claim.requirements.selector_requirements():
        entry: dict[str, Any] = {"key": item.key, "operator": item.operator}
        if item.values:
            entry["values"] = list(item.values)
        least = claim.requirements.get(item.key).min_values
        if least is not None:
            entry["minValues"] = least
        yield entry


def _dollars(nanos: int) -> float:
    return nanos / NANO_DOLLARS


def quantity(name: str, amount: int) -> str:
    """An amount of model/resources as Kubernetes writes it: 1500m, 3Gi."""
    if name == CPU:
        return str(Quantity(amount * 1_000_000))
    style = "binary" if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-") else "decimal"
    return str(Quantity(amount * 1_000_000_000, style))


def tables(plan: Plan) -> RenderableType:
    """The plan for people."""
    parts: list[RenderableType] = []
    if plan.claims:
        parts.append(_purchases(plan.claims))
    if any(plan.existing.values()):
        parts.append(_existing(plan))
    if plan.unschedulable:
        parts.append(_left_over(plan.unschedulable))
    parts.append(Text(_sentence(plan)))
    return Group(*parts)


def _purchases(claims: tuple[PlannedClaim, ...]) -> Table:
    table = Table(title="Nodes to buy", title_justify="left")
    for heading in ("Nodes", "NodePool", "Instance type", "Zone", "Capacity"):
        table.add_column(heading, justify="right" if heading == "Nodes" else "left")
    for heading in ("$/h each", "CPU", "Memory", "Pods"):
        table.add_column(heading, justify="right")
    # Copies are one row; the order is that of their first names.
    rows: Counter[tuple[str, ...]] = Counter(_row(claim) for claim in claims)
    for row, count in rows.items():
        table.add_row(str(count), *row)
    return table


def _row(claim: PlannedClaim) -> tuple[str, ...]:
    others = len(claim.instance_types) - 1
    kind = f"{claim.instance_type} (or {others} more)" if others > 0 else claim.instance_type
    price = f"{'~' if claim.price_estimated else ''}{_dollars(claim.price):.4f}"
    return (
        claim.pool,
        kind,
        claim.zone,
        claim.capacity_type,
        price,
        quantity(CPU, claim.requests.get(CPU, 0)),
        _gib(claim.requests),
        str(len(claim.pods)),
    )


def _gib(requests: Resources) -> str:
    return f"{requests.get(MEMORY, 0) / 2**30:.1f} GiB"


def _existing(plan: Plan) -> Table:
    table = Table(title="Onto existing nodes", title_justify="left")
    table.add_column("Node")
    table.add_column("Pods", justify="right")
    table.add_column("Names")
    for node, pods in sorted(plan.existing.items()):
        if pods:
            table.add_row(node, str(len(pods)), _some(pods))
    return table


def _left_over(left: tuple[Unschedulable, ...]) -> Table:
    table = Table(title="Unschedulable", title_justify="left", show_lines=True)
    table.add_column("Pods")
    table.add_column("Why, per NodePool")
    groups: dict[str, list[str]] = {}
    for item in left:
        groups.setdefault(_why(item), []).append(item.pod)
    for why, pods in groups.items():
        table.add_row(_some(tuple(pods)), why)
    return table


def _why(item: Unschedulable) -> str:
    lines = [f"{pool}: {reason}" for pool, reason in sorted(item.pools.items())]
    return "\n".join(lines) if lines else item.reason


def _some(pods: tuple[str, ...]) -> str:
    shown = ", ".join(pods[:_SHOWN_PODS])
    return f"{shown} and {len(pods) - _SHOWN_PODS} more" if len(pods) > _SHOWN_PODS else shown


def _sentence(plan: Plan) -> str:
    """What it costs, and how good that is."""
    left = len(plan.unschedulable)
    placed = sum(len(pods) for pods in plan.existing.values())
    end = f" {left} pod{'s' if left != 1 else ''} left over." if left else ""
    if not plan.claims:
        start = f"Nothing to buy: {placed} pods fit on existing nodes." if placed else "Nothing to buy."
        return start + end
    count, cost = len(plan.claims), plan.cost
    start = f"{count} node{'s' if count != 1 else ''} for ${_dollars(cost.hourly):.4f}/h"
    bound = (
        f"no plan for the same pods costs less than ${_dollars(cost.lower_bound):.4f}/h (gap {cost.gap:.1%})."
    )
    note = " Prices marked ~ are estimates." if any(claim.price_estimated for claim in plan.claims) else ""
    return f"{start}; {bound}{note}{end}"
