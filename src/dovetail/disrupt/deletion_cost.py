"""Which pods a ReplicaSet that shrinks should give up first: those of the nodes that are to go next. Pure.

As in Karpenter 1.15, behind the gate PodDeletionCostManagement: nodes are ranked as disruption would take
them, and the pods of the first have the lowest deletion cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import is_true
from dovetail.disrupt.allowance import allowances, within
from dovetail.disrupt.candidates import NodeView, blocker
from dovetail.disrupt.command import DRIFTED, UNDERUTILIZED
from dovetail.disrupt.pods import Budgets
from dovetail.disrupt.static import is_static
from dovetail.model import labels
from dovetail.units.duration import parse_nillable

LOWEST = -(2**31)
_MOST_RANKED = 50  # as in Karpenter: each rank that moves is a write for every pod of its node
_GIVEN_UP_FREELY = ("ReplicaSet", "Job", "DaemonSet")
_SYSTEM = "kube-system"


def deletion_costs(
    pools: Iterable[NodePool], views: Sequence[NodeView], budgets: Budgets, now: int
) -> dict[str, int | None]:
    """By node the cost that its pods should have; None: none that is ours.

    Nodes that go already have the lowest. The others have -n to -1, the next to go first: drifted ones before
    the rest, each by what they save per pod, as far as budgets allow.
    """
    pools = tuple(pools)
    found: dict[str, int | None] = {view.name: None for view in views if view.node is not None}
    found |= {view.name: LOWEST for view in views if _goes(view)}
    candidates = [view for view in views if view.name in found and found[view.name] is None]
    candidates = sorted((view for view in candidates if _may_go(view, budgets, now)), key=NodeView.rank)
    drifted = [view for view in candidates if _drifted(view)]
    others = [view for view in candidates if not _drifted(view) and _consolidates(view)]
    ranked = [
        *within(drifted, allowances(pools, views, DRIFTED, now))[0],
        *within(others, allowances(pools, views, UNDERUTILIZED, now))[0],
    ][:_MOST_RANKED]
    return found | {view.name: place - len(ranked) for place, view in enumerate(ranked)}


def managed(pod: Pod) -> bool:
    """True iff its deletion cost is ours to write: a ReplicaSet heeds it, nothing else does, and it has none
    that others gave it.
    """
    controller, there = pod.metadata.controller(), pod.metadata.annotations
    ours = there.get(labels.POD_DELETION_COST) in (None, there.get(labels.WRITTEN_COST))
    return ours and controller is not None and controller.kind == "ReplicaSet" and not pod.terminal


def stale(pods: Iterable[Pod], costs: Mapping[str, int | None]) -> list[tuple[Pod, int | None]]:
    """The pods of these nodes whose annotation is not as it should be, and what it should be."""
    return [
        (pod, costs[pod.spec.node_name])
        for pod in pods
        if pod.spec.node_name in costs
        and managed(pod)
        and pod.metadata.annotations.get(labels.POD_DELETION_COST) != written(costs[pod.spec.node_name])
    ]


def written(cost: int | None) -> str | None:
    """A cost as the annotation has it; None for no annotation."""
    return None if cost is None else str(cost)


def taken_back(pod: Pod) -> dict[str, None]:
    """The annotations to take off so that nothing is left of what was written; none if nothing was.

    A cost that others gave the pod since stays.
    """
    there = pod.metadata.annotations
    if labels.WRITTEN_COST not in there:
        return {}
    ours = there.get(labels.POD_DELETION_COST) == there[labels.WRITTEN_COST]
    return dict.fromkeys((labels.WRITTEN_COST, *((labels.POD_DELETION_COST,) if ours else ())))


def _goes(view: NodeView) -> bool:
    node = view.node
    return node is not None and (
        view.going or any(taint.key == labels.DISRUPTED_TAINT for taint in node.spec.taints)
    )


def _may_go(view: NodeView, budgets: Budgets, now: int) -> bool:
    return view.price is not None and not blocker(view, budgets, now) and not any(map(_pins, view.pods))


def _pins(pod: Pod) -> bool:
    """True iff taking the pod's node would cost more than a pod that its controller makes anew."""
    if pod.metadata.namespace == _SYSTEM or pod.terminal:
        return False
    controller = pod.metadata.controller()
    return controller is None or controller.kind not in _GIVEN_UP_FREELY


def _drifted(view: NodeView) -> bool:
    dynamic = view.pool is not None and not is_static(view.pool)
    return dynamic and is_true(view.claim.status.conditions, DRIFTED)


def _consolidates(view: NodeView) -> bool:
    return view.pool is not None and parse_nillable(view.pool.spec.disruption.consolidate_after) is not None
