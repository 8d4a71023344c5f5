"""The managed machines of the state as disruption sees them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.cluster.nodes import Machine
from dovetail.controllers.context import Context
from dovetail.disrupt.candidates import NodeView
from dovetail.model import labels
from dovetail.model.offering import InstanceType

Offer = tuple[str, str, str]  # instance type, zone, capacity type


class Prices:
    """Instance prices by (type, zone, capacity type); rebuilt for a pool only when the types changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[InstanceType, ...], dict[Offer, int]]] = {}

    def of(self, pool: str, types: tuple[InstanceType, ...]) -> Mapping[Offer, int]:
        """All prices of these types; those of offerings that are unavailable now included."""
        known = self._known.get(pool)
        if known is None or known[0] is not types:
            known = self._known[pool] = (types, _prices(types))
        return known[1]


def node_views(context: Context, queued: Collection[str], prices: Prices) -> tuple[NodeView, ...]:
    """Every claim of ours with what stands on its node; `queued` are claims that a command disrupts."""
    state = context.state
    found = []
    tables: dict[str, Mapping[Offer, int]] = {}
    volumes: dict[str, int] = {}
    for claim in state.all(NodeClaim):
        name = claim.metadata.labels.get(labels.NODEPOOL, "")
        pool = state.get(NodePool, name)
        if pool is not None and name not in tables:
            tables[name] = prices.of(name, context.instance_types(pool))
            volumes[name] = context.volume_price(pool)
        instance = tables.get(name, {}).get(_offering(claim))
        node = state.node_of(claim)
        machine = Machine(node, claim)
        pods: tuple[Pod, ...] = state.pods_on(node.metadata.name) if node is not None else ()
        found.append(
            NodeView(
                claim=claim,
                node=node,
                pool=pool,
                pods=pods,
                nominated=state.nominated(machine),
                going=state.going(machine),
                queued=claim.metadata.name in queued,
                price=None if instance is None else instance + volumes[name],
            )
        )
    return tuple(found)


def _prices(types: tuple[InstanceType, ...]) -> dict[Offer, int]:
    return {
        (item.name, offering.zone, offering.capacity_type): offering.price
        for item in types
        for offering in item.offerings
    }


def _offering(claim: NodeClaim) -> Offer:
    stamped = claim.metadata.labels
    return (
        stamped.get(labels.INSTANCE_TYPE, ""),
        stamped.get(labels.ZONE, ""),
        stamped.get(labels.CAPACITY_TYPE, ""),
    )
