"""What a cluster costs now and what it could: the prices of its nodes, and how the answer is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from dovetail.cli.tables import add_row, new_table
from dovetail.cloud import catalog
from dovetail.disrupt.bill import Bill, Price, on_demand
from dovetail.model import labels
from dovetail.model.offering import HOURS_A_MONTH, NANO_DOLLARS, InstanceType
from dovetail.model.problem import ExistingNode, Problem

_GROUP_CAPACITY = "eks.amazonaws.com/capacityType"
_NO_POOL = "(none)"
_SHOWN = 3


def node_prices(problem: Problem, region: str) -> dict[str, Price]:
    """By name of node; without nodes of an unknown type. `region` "" for a user's own types."""
    known: dict[str, InstanceType] = {}
    if region:
        known.update((item.name, item) for item in catalog.instance_types(region))
    for pool in problem.pools:
        known.update((item.name, item) for item in pool.instance_types)
    volumes = {pool.name: problem.extra(pool) for pool in problem.pools}
    usual = catalog.volume_price(region) if region else 0
    others = usual + problem.options.node_surcharge
    found = {}
    for node in problem.nodes:
        price = _price(
            node, known.get(node.labels.get(labels.INSTANCE_TYPE, "")), volumes.get(node.pool, others)
        )
        if price is not None:
            found[node.name] = price
    return found


def _price(node: ExistingNode, kind: InstanceType | None, extra: int) -> Price | None:
    if kind is None:
        return None
    zone = node.labels.get(labels.ZONE, "")
    capacity = node.labels.get(labels.CAPACITY_TYPE, "")
    capacity = capacity or node.labels.get(_GROUP_CAPACITY, labels.ON_DEMAND).lower().replace("_", "-")
    sold = [one for one in kind.offerings if one.capacity_type == capacity and one.price]
    # A zone of another account's, or one that no longer sells the type, costs as the cheapest that does.
    here = [one for one in sold if one.zone == zone] or sorted(sold, key=lambda one: one.price)
    if not here:
        return None
    listed = on_demand(kind, here[0].zone, here[0].price)
    return Price(here[0].price + extra, listed + extra, here[0].estimated)


def bill_document(bill: Bill, prices: dict[str, Price]) -> dict[str, Any]:
    """Dollars per hour, and per month of 730 hours."""
    repacking = bill.repacking
    return {
        "hourly": _dollars(bill.cost),
        "monthly": _month(bill.cost),
        "unusedShare": round(bill.unused, 4),
        "estimated": sum(price.estimated for price in prices.values()),
        "groups": [
            {
                "name": group.name or None,
                "nodes": group.nodes,
                "withoutPrice": group.unpriced,
                "hourly": _dollars(group.parts.cost),
                "monthly": _month(group.parts.cost),
                "unusedShare": round(group.parts.unused / group.parts.cost, 4) if group.parts.cost else 0.0,
                "requestedCpu": round(group.cpu, 4),
                "requestedMemory": round(group.memory, 4),
            }
            for group in bill.groups
        ],
        "nodesKept": bill.kept,
        "movable": {
            "hourly": _dollars(bill.movable.cost),
            "fresh": _dollars(bill.fresh),
            "lowerBound": _dollars(bill.least),
            "homelessPods": list(bill.homeless),
        },
        "difference": {
            "hourly": _dollars(bill.movable.cost - bill.fresh),
            "packing": _dollars(bill.packing),
            "types": _dollars(bill.types),
            "spot": _dollars(bill.spot),
            "daemonsets": _dollars(bill.daemons),
        },
        "repacking": None
        if repacking is None
        else {
            "saving": _dollars(repacking.saving),
            "monthlySaving": _month(repacking.saving),
            "podsMoved": repacking.pods,
            "nodesRemoved": repacking.nodes_gone,
            "nodesBought": repacking.nodes_bought,
            "cutShort": not repacking.complete,
        },
    }


def bill_lines(bill: Bill) -> Iterator[RenderableType]:
    """For people."""
    table = new_table("What the cluster costs now", "Pool or group")
    for heading in ("Nodes", "$/h", "$/month", "CPU asked", "Memory asked", "Unused"):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in bill.groups:
        unused = group.parts.unused / group.parts.cost if group.parts.cost else 0.0
        add_row(
            table,
            group.name or _NO_POOL,
            f"{group.nodes:,}",
            f"{_dollars(group.parts.cost):,.4f}" if group.parts.cost else "–",
            f"{_month(group.parts.cost):,.0f}" if group.parts.cost else "–",
            f"{group.cpu:.0%}",
            f"{group.memory:.0%}",
            f"{unused:.0%}" if group.parts.cost else "–",
        )
    yield table
    nodes = sum(group.nodes for group in bill.groups)
    yield Text(
        f"{nodes:,} nodes cost {_both(bill.cost)}; {bill.unused:.0%} of it buys room that no pod asks for."
    )
    if unpriced := sum(group.unpriced for group in bill.groups):
        yield Text(f"{unpriced:,} of them have no type or price that is known, and are not in these sums.")
    if bill.kept:
        yield Text(
            f"{bill.kept:,} nodes are of no NodePool here: they stay as they are, and so do their pods."
        )
    yield from _least(bill)


def _least(bill: Bill) -> Iterator[RenderableType]:
    if not bill.movable.cost:
        return
    if bill.homeless:
        some = ", ".join(bill.homeless[:_SHOWN])
        more = f" and {len(bill.homeless) - _SHOWN:,} more" if len(bill.homeless) > _SHOWN else ""
        yield Text(
            f"{len(bill.homeless):,} pods that run now have no place on nodes of the NodePools, so what "
            f"follows leaves them out: {some}{more}."
        )
    yield Text(
        f"The movable pods cost {_both(bill.movable.cost)} now. On the cheapest new nodes they would cost "
        f"{_both(bill.fresh)}; no nodes do for less than {_both(bill.least)}."
    )
    parts = (
        ("packing", bill.packing),
        ("choice of types", bill.types),
        ("spot", bill.spot),
        ("daemonset copies", bill.daemons),
    )
    shown = ", ".join(f"{name} {_signed(amount)}" for name, amount in parts)
    yield Text(f"Of the difference of {_signed(bill.movable.cost - bill.fresh)}/h: {shown}.")
    found = bill.repacking
    if found is not None:
        end = "" if found.complete else " The search was cut short: there may be more."
        if not found.nodes_gone:
            yield Text(f"Repacking in place saves nothing.{end}")
            return
        bought = f", {found.nodes_bought:,} bought" if found.nodes_bought > 0 else ""
        yield Text(
            f"Repacking in place would save {_both(found.saving)} by moving {found.pods:,} pods "
            f"({found.nodes_gone:,} nodes go{bought}).{end}"
        )


def _dollars(nanos: int) -> float:
    return nanos / NANO_DOLLARS


def _month(nanos: int) -> float:
    return round(nanos * HOURS_A_MONTH / NANO_DOLLARS, 2)


def _both(nanos: int) -> str:
    return f"${_dollars(nanos):,.4f}/h (${_month(nanos):,.0f} a month)"


def _signed(nanos: int) -> str:
    return f"{'-' if nanos < 0 else ''}${abs(_dollars(nanos)):,.4f}"
