"""Static NodePools (`spec.replicas` nodes): which they are, and which of their nodes go first. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.expiry import expires
from dovetail.disrupt.pods import do_not_disrupt
from dovetail.units.duration import parse_nillable


def is_static(pool: NodePool | None) -> bool:
    """True iff the pool has a number of nodes: none is bought for pods, none goes to save money."""
    return pool is not None and pool.spec.replicas is not None


def surplus(views: Iterable[NodeView], count: int, now: int) -> tuple[NodeView, ...]:
    """The `count` nodes that go first: those never launched, then empty ones, then the cheapest to disrupt.

    Pods with do-not-disrupt keep theirs as long as others can go. `now` in nanoseconds since the epoch.
    """
    return tuple(sorted(views, key=lambda view: _order(view, now))[: max(0, count)])


def _order(view: NodeView, now: int) -> tuple[bool, bool, bool, float, str]:
    held = any(do_not_disrupt(pod, now) for pod in view.pods)
    cost = view.disruption_cost() * _left(view, now)
    return bool(view.claim.status.provider_id), not view.empty, held, cost, view.claim.metadata.name


def _left(view: NodeView, now: int) -> float:
    """The share of its life that the node still has: 1 for one that never expires."""
    end, age = expires(view.claim), parse_nillable(view.claim.spec.expire_after)
    if end is None or not age:
        return 1.0
    return min(1.0, max(0.0, (end - now) / age))
