"""Gauges about NodePools, and about the cluster as it is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import SECOND
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.controllers.prices import offer_of
from dovetail.model import labels
from dovetail.model.offering import NANO_DOLLARS
from dovetail.model.resources import CPU, Resources, amounts
from dovetail.runtime.figures.text import header, series

_OF = ("resource_type", "nodepool")
LIMIT = Metric("karpenter_nodepools_limit", "gauge", "The limits of a NodePool.", _OF)
USAGE = Metric("karpenter_nodepools_usage", "gauge", "What the nodes of a NodePool use of its limits.", _OF)
COST = Metric(
    "karpenter_nodepools_cost_total",
    "gauge",
    "What the nodes of a NodePool cost, in dollars per hour.",
    ("nodepool",),
)
COST_ERRORS = Metric(
    "karpenter_nodepools_cost_tracker_errors_total",
    "counter",
    "NodeClaims whose price is not known; they cost nothing in the pool's cost.",
    ("nodepool", "nodeclaim"),
)
NODES = Metric("karpenter_cluster_state_node_count", "gauge", "Nodes that are known.")
SYNCED = Metric("karpenter_cluster_state_synced", "gauge", "1 while the whole cluster is known, else 0.")
UNSYNCED = Metric(
    "karpenter_cluster_state_unsynced_time_seconds", "gauge", "For how long not all of the cluster is known."
)
GUARDED = Metric(
    "dovetail_guarded_nodeclaims",
    "gauge",
    "Deleted NodeClaims that are kept, because their CustomResourceDefinition was deleted, until somebody"
    " confirms their end.",
)


class PoolFigures:
    """Made anew each time: pools are few."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._unsynced: int | None = None
        self._priceless: dict[str, tuple[str, str]] = {}  # UID of a claim without a price -> pool, name

    def text(self) -> Iterator[str]:
        """The lines."""
        state = self._context.state
        pools = state.all(NodePool)
        yield header(LIMIT)
        for pool in pools:
            yield from _lines(LIMIT, pool, amounts(pool.spec.limits))
        yield header(USAGE)
        for pool in pools:
            yield from _lines(USAGE, pool, amounts(pool.status.resources))
        yield header(COST)
        cost = self._cost()
        for pool in pools:
            name = pool.metadata.name
            yield f"{series(COST, (('nodepool', name),))}{cost[name] / NANO_DOLLARS}\n"
        yield header(COST_ERRORS)
        for pool_name, claim in self._priceless.values():
            yield f"{series(COST_ERRORS, (('nodepool', pool_name), ('nodeclaim', claim)))}1\n"
        yield f"{header(NODES)}{series(NODES, ())}{len(state.all(Node))}\n"
        kept = sum(self._context.brakes.keeps(claim) for claim in state.all(NodeClaim))
        yield f"{header(GUARDED)}{series(GUARDED, ())}{kept}\n"
        synced, now = state.synced(), self._context.clock.now()
        self._unsynced = None if synced else self._unsynced or now
        yield f"{header(SYNCED)}{series(SYNCED, ())}{int(synced)}\n"
        waited = 0 if self._unsynced is None else (now - self._unsynced) / SECOND
        yield f"{header(UNSYNCED)}{series(UNSYNCED, ())}{waited}\n"

    def _cost(self) -> Counter[str]:
        """Nano-dollars per hour by pool, volumes included."""
        context, cost = self._context, Counter[str]()
        there = {claim.metadata.uid for claim in context.state.all(NodeClaim)}
        self._priceless = {uid: named for uid, named in self._priceless.items() if uid in there}
        pools = {pool.metadata.name: pool for pool in context.state.all(NodePool)}
        for claim in context.state.all(NodeClaim):
            pool = pools.get(claim.metadata.labels.get(labels.NODEPOOL, ""))
            if pool is None or not claim.status.provider_id:
                continue
            name = pool.metadata.name
            price = context.prices.of(name, context.instance_types(pool)).get(offer_of(claim))
            if price is None:
                self._priceless[claim.metadata.uid] = (name, claim.metadata.name)
            cost[name] += (price or 0) + context.volume_price(pool)
        return cost


def _lines(metric: Metric, pool: NodePool, values: Resources) -> Iterator[str]:
    for name, amount in sorted(values.items()):
        named = (("resource_type", name), ("nodepool", pool.metadata.name))
        yield f"{series(metric, named)}{amount / 1000 if name == CPU else amount}\n"
