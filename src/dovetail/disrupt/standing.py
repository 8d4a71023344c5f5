"""What stands against disrupting a node, in the words of the events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import is_true
from dovetail.api.workloads import Deployment
from dovetail.cluster.nodes import join
from dovetail.cluster.problem import ClusterObjects
from dovetail.disrupt.allowance import allowances
from dovetail.disrupt.candidates import NodeView, blockers
from dovetail.disrupt.command import DRIFTED, EMPTY, EXPIRED, UNDERUTILIZED, UNHEALTHY
from dovetail.disrupt.consolidation.candidates import CONSOLIDATABLE, fresh_until
from dovetail.disrupt.consolidation.candidates import obstacle as unlooked
from dovetail.disrupt.consolidation.churn import MOVED_PODS, Arrival, Ledger, Present
from dovetail.disrupt.consolidation.search import FRESH, RESTING
from dovetail.disrupt.drift import drifted_since
from dovetail.disrupt.expiry import expired_since
from dovetail.disrupt.faults import ignored_mark, node_mark_fault, pool_faults
from dovetail.disrupt.minimum import kept, spare
from dovetail.disrupt.pods import Budgets, budget_allows, do_not_disrupt_error, evictable, never_met
from dovetail.disrupt.rollout import MOVED, arrivals, waits_until
from dovetail.disrupt.static import is_static
from dovetail.disrupt.surge import Case, obstacle, one_node_only, opted_in
from dovetail.model.gangs import Running
from dovetail.model.labels import SURGE
from dovetail.model.podtemplate import deployment_of
from dovetail.units.duration import parse_nillable
from dovetail.units.timestamp import to_rfc3339

REASONS = (EMPTY, DRIFTED, UNDERUTILIZED, UNHEALTHY)


@dataclass(frozen=True, slots=True)
class Standing:
    """What keeps it, in the words of the events; by reason, how many nodes the pool's budgets allow.

    `consolidation` says why only emptiness, drift and age take it, `replacement` why these two wait;
    `faults` is what cannot be read, `remedies` what would help against budgets that are never met.
    """

    blockers: tuple[str, ...]
    allowed: tuple[tuple[str, int], ...]
    consolidation: tuple[str, ...] = ()
    replacement: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()


def standing(
    objects: ClusterObjects, name: str, now: int, deployments: Iterable[Deployment] = ()
) -> Standing | None:
    """At `now` (ns since the epoch); None for a node without a NodeClaim: Dovetail never disrupts it."""
    views = tuple(node_views(objects))
    view = next((one for one in views if one.name == name), None)
    if view is None:
        return None
    budgets = Budgets(objects.pdbs)
    allowed = (
        (reason, allowances(objects.pools, views, reason, now).get(view.pool_name, 0)) for reason in REASONS
    )
    moved = _moved(objects, views, now)
    return Standing(
        tuple(dict.fromkeys(blockers(view, budgets, now))),
        tuple(allowed),
        (*unconsolidatable(view), *_kept(objects.pools, views, view), *_resting(view, moved, now)),
        tuple(_waits(view, moved, now)),
        tuple(dict.fromkeys(_faults(view))),
        tuple(dict.fromkeys(_remedies(view, budgets, {one.key: one for one in deployments}, objects))),
    )


def _remedies(
    view: NodeView, budgets: Budgets, deployments: Mapping[str, Deployment], objects: ClusterObjects
) -> Iterator[str]:
    """What would help with each budget that keeps the node, and does so however well its pods are."""
    for pod in view.pods:
        found = budgets.of(pod)
        if not found or not evictable(pod):
            continue
        if len(found) > 1:
            names = ", ".join(sorted(budget.key for budget in found))
            yield f"PodDisruptionBudgets {names} select the same pods, which are never evicted then: keep one"
        elif not budget_allows(found[0], pod) and never_met(found[0]):
            instead = _instead(pod, view, deployments, objects)
            yield f"PodDisruptionBudget {found[0].key} can never be met: {instead}"


def _instead(pod: Pod, view: NodeView, deployments: Mapping[str, Deployment], objects: ClusterObjects) -> str:
    plain = "run another replica and allow one to be missing (maxUnavailable: 1)"
    key = deployment_of(pod)
    known = deployments.get(key)
    if not key:
        return plain
    claims = [one for one in objects.volume_claims if one.metadata.namespace == pod.metadata.namespace]
    if known is not None and (why := obstacle(Case(pod, known, tied=one_node_only(pod, claims)))):
        return f"{plain}; no other pod can come first, because {why}"
    if opted_in(known, view.pool):
        return f"where the controller runs with --surge, Deployment {key} brings up another pod first"
    return f'{plain}, or let another pod come first ({SURGE}: "true" on Deployment {key})'


def _moved(objects: ClusterObjects, views: Sequence[NodeView], now: int) -> Mapping[str, Arrival]:
    """Pods that came by a move within the hour, by UID: the NodePools say what was moved."""
    ledger = Ledger(per_pod=1)  # how many may be moved in a day is not asked here
    for pool in objects.pools:
        ledger.read(pool.metadata.name, pool.metadata.annotations.get(MOVED_PODS, "{}"), now)
    return ledger.lately(Present(pod for view in views for pod in view.pods), now)


def _kept(pools: Sequence[NodePool], views: Sequence[NodeView], view: NodeView) -> Iterator[str]:
    if spare(pools, views).get(view.pool_name) == 0:
        yield f"{kept(view.pool_name)}: it goes for another one only"


def _resting(view: NodeView, moved: Mapping[str, Arrival], now: int) -> Iterator[str]:
    if now < fresh_until(view):
        yield FRESH
    if any(one.forced for one in arrivals(view, moved)):
        yield RESTING


def _waits(view: NodeView, moved: Mapping[str, Arrival], now: int) -> Iterator[str]:
    """Why methods for which the node is due leave it alone for a while."""
    if is_static(view.pool):
        return
    for reason, since in ((DRIFTED, drifted_since(view)), (EXPIRED, expired_since(view, now))):
        until = waits_until(view, since, moved, now) if since is not None else None
        if until is not None:
            yield f"{reason}: {MOVED} (until {to_rfc3339(until)} at the latest)"


def unconsolidatable(view: NodeView) -> Iterator[str]:
    """Why consolidation does not ask about the node; nothing where it may, or where there is no pool."""
    if view.pool is None:
        return
    if is_static(view.pool):
        yield f'NodePool "{view.pool_name}" has a number of nodes (spec.replicas), none goes to save money'
        return
    # Where it is not known what the node costs, the price is not given as a reason.
    why = unlooked(view if view.price is not None else replace(view, price=0))
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
    gangs = Running(objects.pods, objects.groups)
    pods: dict[str, list[Pod]] = {}
    for pod in objects.pods:
        pods.setdefault(pod.spec.node_name, []).append(pod)
    for machine in join(objects.nodes, objects.claims, None):
        if machine.claim is not None:
            here = tuple(pods.get(machine.name, ()))
            pool = pools.get(machine.pool)
            yield NodeView(machine.claim, machine.node, pool, here, going=machine.deleting, gangs=gangs)
