"""What stands against disrupting a node, in the words of the events. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dovetail.api.core import Pod
from dovetail.api.meta import is_true
from dovetail.cluster.nodes import join
from dovetail.cluster.problem import ClusterObjects
from dovetail.disrupt.allowance import allowances
from dovetail.disrupt.candidates import NodeView, blockers
from dovetail.disrupt.command import DRIFTED, EMPTY, UNDERUTILIZED
from dovetail.disrupt.consolidation.candidates import CONSOLIDATABLE, obstacle
from dovetail.disrupt.faults import ignored_mark, node_mark_fault, pool_faults
from dovetail.disrupt.pods import Budgets, do_not_disrupt_error
from dovetail.disrupt.static import is_static
from dovetail.units.duration import parse_nillable

REASONS = (EMPTY, DRIFTED, UNDERUTILIZED)


@dataclass(frozen=True, slots=True)
class Standing:
    """What keeps it, in the words of the events; by reason, how many nodes the pool's budgets allow.

    `consolidation` says why only emptiness, drift and age take it; `faults` is what cannot be read.
    """

    blockers: tuple[str, ...]
    allowed: tuple[tuple[str, int], ...]
    consolidation: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def standing(objects: ClusterObjects, name: str, now: int) -> Standing | None:
    """At `now` (ns since the epoch); None for a node without a NodeClaim: Dovetail never disrupts it."""
    views = tuple(node_views(objects))
    view = next((one for one in views if one.name == name), None)
    if view is None:
        return None
    budgets = Budgets(objects.pdbs)
    allowed = (
        (reason, allowances(objects.pools, views, reason, now).get(view.pool_name, 0)) for reason in REASONS
    )
    return Standing(
        tuple(dict.fromkeys(blockers(view, budgets, now))),
        tuple(allowed),
        tuple(unconsolidatable(view)),
        tuple(dict.fromkeys(_faults(view))),
    )


def unconsolidatable(view: NodeView) -> Iterator[str]:
    """Why consolidation does not ask about the node; nothing where it may, or where there is no pool."""
    if view.pool is None:
        return
    if is_static(view.pool):
        yield f'NodePool "{view.pool_name}" has a number of nodes (spec.replicas), none goes to save money'
        return
    # Where it is not known what the node costs, the price is not given as a reason.
    why = obstacle(view if view.price is not None else replace(view, price=0))
    after = view.pool.spec.disruption.consolidate_after
    if why and (not view.empty or parse_nillable(after) is None):
        yield why
    elif not is_true(view.claim.status.conditions, CONSOLIDATABLE):
        yield f"Not Consolidatable yet: no pod may come or go for {after} (consolidateAfter)"


def _faults(view: NodeView) -> Iterator[str]:
    for obj in (view.node, view.claim):
        error = node_mark_fault(obj) if obj is not None else ""
        if obj is not None and error:
            yield f"{obj.KIND} {obj.metadata.name}: {ignored_mark(error)}"
    for pod in view.pods:
        error = do_not_disrupt_error(pod)
        if error:
            yield f"Pod {pod.key}: {ignored_mark(error)}"
    if view.pool is not None:
        yield from (one.message for one in pool_faults(view.pool))


def node_views(objects: ClusterObjects) -> Iterator[NodeView]:
    """Every machine that has a NodeClaim, with its pool and its pods."""
    pools = {pool.metadata.name: pool for pool in objects.pools}
    pods: dict[str, list[Pod]] = {}
    for pod in objects.pods:
        pods.setdefault(pod.spec.node_name, []).append(pod)
    for machine in join(objects.nodes, objects.claims, None):
        if machine.claim is not None:
            here = tuple(pods.get(machine.name, ()))
            pool = pools.get(machine.pool)
            yield NodeView(machine.claim, machine.node, pool, here, going=machine.deleting)
