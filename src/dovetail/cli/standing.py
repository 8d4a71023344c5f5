"""What stands against disrupting a node of the manifests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from dovetail.cli.tables import add_row, new_table
from dovetail.cluster.nodes import join
from dovetail.cluster.problem import ClusterObjects
from dovetail.disrupt.allowance import allowances
from dovetail.disrupt.candidates import NodeView, blockers
from dovetail.disrupt.command import DRIFTED, EMPTY, UNDERUTILIZED
from dovetail.disrupt.pods import Budgets

_REASONS = (EMPTY, DRIFTED, UNDERUTILIZED)


@dataclass(frozen=True, slots=True)
class Standing:
    """What keeps it, in the words of the events; by reason, how many nodes the pool's budgets allow."""

    blockers: tuple[str, ...]
    allowed: tuple[tuple[str, int], ...]


def standing(objects: ClusterObjects, name: str, now: int) -> Standing | None:
    """At `now` (ns since the epoch); None for a node without a NodeClaim: Dovetail never disrupts it."""
    views = tuple(_views(objects))
    view = next((one for one in views if one.name == name), None)
    if view is None:
        return None
    budgets = Budgets(objects.pdbs)
    allowed = (
        (reason, allowances(objects.pools, views, reason, now).get(view.pool_name, 0)) for reason in _REASONS
    )
    return Standing(tuple(blockers(view, budgets, now)), tuple(allowed))


def _views(objects: ClusterObjects) -> Iterator[NodeView]:
    pools = {pool.metadata.name: pool for pool in objects.pools}
    for machine in join(objects.nodes, objects.claims, None):
        if machine.claim is not None:
            pods = tuple(pod for pod in objects.pods if pod.spec.node_name == machine.name)
            pool = pools.get(machine.pool)
            yield NodeView(machine.claim, machine.node, pool, pods, going=machine.deleting)


def standing_document(found: Standing | None) -> dict[str, Any]:
    """For programs."""
    if found is None:
        return {"managed": False}
    return {"managed": True, "blockers": list(found.blockers), "budgets": dict(found.allowed)}


def standing_lines(found: Standing | None) -> Iterator[RenderableType]:
    """For people."""
    if found is None:
        yield Text("No NodeClaim among the manifests is this node's, so Dovetail would never disrupt it.")
        return
    if found.blockers:
        table = new_table("What keeps it from being disrupted", "Reason")
        for text in found.blockers:
            add_row(table, text)
        yield table
    else:
        yield Text("Nothing on the node or its pods keeps it from being disrupted.")
    shown = ", ".join(f"{reason} {count}" for reason, count in found.allowed)
    yield Text(f"Nodes of its pool that budgets allow to be disrupted now: {shown}.")
