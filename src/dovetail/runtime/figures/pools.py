"""Gauges about NodePools, about what the provider sells, and about what is left of what launches share."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.controllers.prices import offer_of
from dovetail.controllers.shared_limits import counting_of, used_by
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.resources import CPU, MEMORY, Resources, amounts
from dovetail.model.shared_limits import HOURLY_COST
from dovetail.runtime.figures.text import header, series
from dovetail.units.money import NANO_DOLLARS

_OF = ("resource_type", "nodepool")
LIMIT = Metric("karpenter_nodepools_limit", "gauge", "The limits of a NodePool.", _OF)
USAGE = Metric("karpenter_nodepools_usage", "gauge", "What the nodes of a NodePool use of its limits.", _OF)
_OF_SHARED = ("resource_type", "limit")
SHARED_LIMIT = Metric(
    "dovetail_shared_limit", "gauge", "What NodePools may have together; hourly-cost in dollars.", _OF_SHARED
)
SHARED_USAGE = Metric(
    "dovetail_shared_limit_usage",
    "gauge",
    "What their nodes have of it, those that are coming up and those that cannot go included.",
    _OF_SHARED,
)
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
    "Deleted NodeClaims that are kept, because their CustomResourceDefinition was deleted, until a person"
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
        yield from _shared(self._context)
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


def _shared(context: Context) -> Iterator[str]:
    """What the limits that pools share are, and what is used of each."""
    if not context.shared_limits:
        return
    used, _ = used_by(context, counting_of(context))
    lines: dict[Metric, list[str]] = {SHARED_LIMIT: [], SHARED_USAGE: []}
    for limit in context.shared_limits:
        for name, most in limit.limits:
            named = (("resource_type", name), ("limit", limit.name))
            unit = NANO_DOLLARS if name == HOURLY_COST else 1000 if name == CPU else 1
            lines[SHARED_LIMIT].append(f"{series(SHARED_LIMIT, named)}{most / unit}\n")
            lines[SHARED_USAGE].append(
                f"{series(SHARED_USAGE, named)}{used.get(limit.quota(name), 0) / unit}\n"
            )
    for metric, text in lines.items():
        yield header(metric)
        yield from text


def _lines(metric: Metric, pool: NodePool, values: Resources) -> Iterator[str]:
    for name, amount in sorted(values.items()):
        named = (("resource_type", name), ("nodepool", pool.metadata.name))
        yield f"{series(metric, named)}{amount / 1000 if name == CPU else amount}\n"


_TYPE = ("instance_type",)
_OFFERING = ("instance_type", "capacity_type", "zone")
CORES = Metric("karpenter_cloudprovider_instance_type_cpu_cores", "gauge", "The vCPUs of a type.", _TYPE)
BYTES = Metric("karpenter_cloudprovider_instance_type_memory_bytes", "gauge", "The memory of a type.", _TYPE)
AVAILABLE = Metric(
    "karpenter_cloudprovider_instance_type_offering_available",
    "gauge",
    "1 where some NodePool may launch the type so, 0 where it was refused lately.",
    _OFFERING,
)
PRICE = Metric(
    "karpenter_cloudprovider_instance_type_offering_price_estimate",
    "gauge",
    "What the type costs there, in dollars per hour.",
    _OFFERING,
)
LEFT = Metric(
    "dovetail_launch_room", "gauge", "What is left of what launches share: vCPUs, addresses.", ("of",)
)
LASTS = Metric(
    "dovetail_launch_room_lasts_seconds",
    "gauge",
    "In what time nothing is left of it at the rate of the last hour; +Inf if it does not shrink.",
    ("of",),
)
_SHORTEST = MINUTE  # a rate over less than that says nothing


class OfferFigures:
    """Lines of types are kept until the provider says something else."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._types: list[tuple[InstanceType, ...]] = []
        self._text: tuple[str, ...] = ()
        self._before: deque[tuple[int, dict[str, int]]] = deque()

    def text(self) -> Iterator[str]:
        """The lines."""
        state = self._context.state
        types = [self._context.instance_types(pool) for pool in state.all(NodePool)]
        known = self._types
        if len(types) != len(known) or any(one is not two for one, two in zip(types, known, strict=True)):
            self._types, self._text = types, tuple(_type_lines(types))
        yield from self._text
        yield from self._room()

    def _room(self) -> Iterator[str]:
        now, left = self._context.clock.now(), dict(self._context.provider.supply.left())
        yield header(LEFT)
        yield from (f"{series(LEFT, (('of', name),))}{left[name]}\n" for name in sorted(left))
        while self._before and now - self._before[0][0] > HOUR:
            self._before.popleft()
        then, before = self._before[0] if self._before else (now, left)
        if not self._before or now - self._before[-1][0] >= _SHORTEST:
            self._before.append((now, left))
        yield header(LASTS)
        for name in sorted(left):
            lasts = _lasts(left[name], before.get(name, left[name]), now - then)
            yield f"{series(LASTS, (('of', name),))}{'+Inf' if math.isinf(lasts) else lasts}\n"


def _lasts(left: int, before: int, passed: int) -> float:
    """Seconds until nothing is left, at the rate at which it shrank."""
    if not left:
        return 0.0
    if passed < _SHORTEST or left >= before:
        return math.inf
    return left * passed / (before - left) / SECOND


def _type_lines(types: list[tuple[InstanceType, ...]]) -> Iterator[str]:
    kinds = {item.name: item for some in types for item in some}
    offers: dict[tuple[str, str, str], tuple[bool, int]] = {}
    for some in types:
        for item in some:
            for one in item.offerings:
                key = item.name, one.capacity_type, one.zone
                known = offers.get(key, (False, one.price))
                offers[key] = known[0] or one.available, min(known[1], one.price)
    for metric, resource, unit in ((CORES, CPU, 1000), (BYTES, MEMORY, 1)):
        yield header(metric)
        for name in sorted(kinds):
            amount = kinds[name].capacity.get(resource, 0) / unit
            yield f"{series(metric, (('instance_type', name),))}{amount}\n"
    yield header(AVAILABLE)
    rows = [(tuple(zip(_OFFERING, key, strict=True)), found) for key, found in sorted(offers.items())]
    yield from (f"{series(AVAILABLE, named)}{int(found[0])}\n" for named, found in rows)
    yield header(PRICE)
    yield from (f"{series(PRICE, named)}{found[1] / NANO_DOLLARS}\n" for named, found in rows)
