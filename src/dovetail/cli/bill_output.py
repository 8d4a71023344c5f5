"""What a cluster costs now and what it could: the prices of its nodes, and how the answer is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from dovetail.base.words import number_of
from dovetail.cli.searching import Search
from dovetail.cli.tables import add_row, new_table
from dovetail.cloud import catalog
from dovetail.disrupt.bill import Bill, Fresh, Price, Repacking, on_demand
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.problem import ExistingNode, Problem
from dovetail.units.money import dollars, monthly

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
    capacity = _capacity_type(node)
    sold = [one for one in kind.offerings if one.capacity_type == capacity and one.price]
    # A zone of another account's, or one that no longer sells the type, costs as the cheapest that does.
    here = [one for one in sold if one.zone == zone] or sorted(sold, key=lambda one: one.price)
    if not here:
        return None
    listed = on_demand(kind, here[0].zone, here[0].price)
    return Price(here[0].price + extra, listed + extra, here[0].estimated, here[0].asked)


def listed_on_demand(nodes: Iterable[ExistingNode], prices: Mapping[str, Price]) -> int:
    """What those of the nodes that run on demand come to at list prices, without their volumes."""
    return sum(
        prices[node.name].listed
        for node in nodes
        if node.name in prices and _capacity_type(node) not in (labels.SPOT, labels.RESERVED)
    )


def _capacity_type(node: ExistingNode) -> str:
    return labels.capacity_type(node.labels) or labels.ON_DEMAND


def bill_document(
    bill: Bill, repacking: Repacking | None, prices: dict[str, Price], *, cut_short: bool
) -> dict[str, Any]:
    """Dollars per hour, and per month of 730 hours; null for what was not looked at.

    `cut_short`: a longer search for new nodes may find cheaper ones.
    """
    fresh = bill.fresh
    known = repacking is not None and (repacking.complete or repacking.nodes_gone > 0)
    return {
        "hourly": dollars(bill.cost),
        "monthly": round(monthly(bill.cost), 2),
        "unusedShare": round(bill.unused, 4),
        "estimated": sum(price.estimated for price in prices.values()),
        "groups": [
            {
                "name": group.name or None,
                "nodes": group.nodes,
                "withoutPrice": group.unpriced,
                "hourly": dollars(group.parts.cost),
                "monthly": round(monthly(group.parts.cost), 2),
                "unusedShare": round(group.parts.unused / group.parts.cost, 4) if group.parts.cost else 0.0,
                "requestedCpu": round(group.cpu, 4),
                "requestedMemory": round(group.memory, 4),
            }
            for group in bill.groups
        ],
        "nodesKept": bill.kept,
        "movable": {
            "hourly": dollars(bill.movable.cost),
            "fresh": dollars(fresh.cost) if fresh else None,
            "lowerBound": dollars(fresh.least) if fresh else None,
            "homelessPods": list(bill.homeless),
            "pods": bill.pods,
            "podsLookedAt": bill.pods - bill.untried,
            "cutShort": cut_short,
        },
        "difference": None
        if fresh is None or not bill.movable.cost
        else {
            "hourly": dollars(bill.movable.cost - fresh.cost),
            "packing": dollars(fresh.packing),
            "types": dollars(fresh.types),
            "spot": dollars(fresh.spot),
            "daemonsets": dollars(fresh.daemons),
        },
        "repacking": None
        if repacking is None
        else {
            "saving": dollars(repacking.saving) if known else None,
            "monthlySaving": round(monthly(repacking.saving), 2) if known else None,
            "podsMoved": repacking.pods,
            "nodesRemoved": repacking.nodes_gone,
            "nodesBought": repacking.nodes_bought,
            "nodes": repacking.nodes,
            "nodesLookedAt": repacking.looked,
            "cutShort": not repacking.complete,
        },
    }


def bill_lines(
    bill: Bill, repacking: Repacking | None, search: Search, *, cut_short: bool
) -> Iterator[RenderableType]:
    """For people; `search` is how long was looked."""
    table = new_table("What the cluster costs now", "Pool or group")
    for heading in ("Nodes", "$/h", "$/month", "CPU asked", "Memory asked", "Unused"):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in bill.groups:
        unused = group.parts.unused / group.parts.cost if group.parts.cost else 0.0
        add_row(
            table,
            group.name or _NO_POOL,
            f"{group.nodes:,}",
            f"{dollars(group.parts.cost):,.4f}" if group.parts.cost else "–",
            f"{monthly(group.parts.cost):,.0f}" if group.parts.cost else "–",
            f"{group.cpu:.0%}",
            f"{group.memory:.0%}",
            f"{unused:.0%}" if group.parts.cost else "–",
        )
    yield table
    nodes = sum(group.nodes for group in bill.groups)
    unpriced = sum(group.unpriced for group in bill.groups)
    cost = number_of(nodes, "node costs", "nodes cost")
    if unpriced == nodes:
        yield Text(f"What {cost} is not known: no type has a price that is.")
    else:
        yield Text(f"{cost} {_both(bill.cost)}; {bill.unused:.0%} of it buys room that no pod asks for.")
    if 0 < unpriced < nodes:
        yield Text(f"{unpriced:,} of them have no type or price that is known, and are not in these sums.")
    if bill.kept:
        kept = number_of(bill.kept, "node is", "nodes are")
        yield Text(f"{kept} of no NodePool here: what is there stays as it is, and so do its pods.")
    if not bill.movable.cost and not (unpriced == nodes and bill.pods):
        return
    yield from _least(bill, search, cut_short=cut_short)
    if repacking is not None:
        yield Text(_repacking(repacking, search))


def _least(bill: Bill, search: Search, *, cut_short: bool) -> Iterator[RenderableType]:
    if bill.homeless:
        some = ", ".join(bill.homeless[:_SHOWN])
        more = f" and {len(bill.homeless) - _SHOWN:,} more" if len(bill.homeless) > _SHOWN else ""
        pods = number_of(len(bill.homeless), "pod that runs now has", "pods that run now have")
        yield Text(
            f"{pods} no place on nodes of the NodePools, so what follows is without them: {some}{more}."
        )
    now = f"The movable pods cost {_both(bill.movable.cost)} now."
    if not bill.movable.cost:
        now = f"{number_of(bill.pods, 'pod runs', 'pods run')} there."
    if bill.fresh is None:
        yield Text(
            f"{now} What they would cost on the cheapest new nodes is not known: "
            f"{bill.pods - bill.untried:,} of {bill.pods:,} pods were looked at in {search.patience}; "
            f"{search.further} looks further."
        )
        return
    more = f" {search.further} may find cheaper ones." if cut_short else ""
    yield Text(f"{now} {_anew(bill.fresh)}{more}")
    if bill.movable.cost:
        yield Text(_difference(bill.movable.cost, bill.fresh))


def _anew(fresh: Fresh) -> str:
    return (
        f"On the cheapest new nodes found they would cost {_both(fresh.cost)}; no nodes do for less than "
        f"{_both(fresh.least)}."
    )


def _difference(now: int, fresh: Fresh) -> str:
    parts = (
        ("packing", fresh.packing),
        ("choice of types", fresh.types),
        ("spot", fresh.spot),
        ("daemonset copies", fresh.daemons),
    )
    shown = ", ".join(f"{name} {_signed(amount)}" for name, amount in parts)
    return f"Of the difference of {_signed(now - fresh.cost)}/h: {shown}."


def _repacking(found: Repacking, search: Search) -> str:
    end = "" if found.complete else f" {_looked(found)} in {search.what_ifs}; {search.further} looks further."
    if not found.nodes_gone:
        if found.complete:
            return "Repacking in place saves nothing."
        return f"What repacking in place would save is not known.{end}"
    bought = f", {found.nodes_bought:,} bought" if found.nodes_bought > 0 else ""
    saving = _both(found.saving) + ("" if found.complete else " at least")
    return (
        f"Repacking in place would save {saving} by moving {number_of(found.pods, 'pod')} "
        f"({number_of(found.nodes_gone, 'node goes', 'nodes go')}{bought}).{end}"
    )


def _looked(found: Repacking) -> str:
    if found.looked < found.nodes:
        return f"{found.looked:,} of {found.nodes:,} nodes were looked at"
    return "Every node was looked at, but not every set of them,"


def _both(nanos: int) -> str:
    return f"${dollars(nanos):,.4f}/h (${monthly(nanos):,.0f} a month)"


def _signed(nanos: int) -> str:
    return f"{'-' if nanos < 0 else ''}${abs(dollars(nanos)):,.4f}"
