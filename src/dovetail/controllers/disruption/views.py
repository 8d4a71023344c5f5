"""The managed machines of the state as disruption sees them."""

from __future__ import annotations

from collections.abc import Collection

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.cluster.nodes import Machine
from dovetail.controllers.context import Context
from dovetail.disrupt.candidates import NodeView
from dovetail.model import labels
from dovetail.model.offering import InstanceType


def node_views(context: Context, queued: Collection[str]) -> tuple[NodeView, ...]:
    """Every claim of ours with what stands on its node; `queued` are claims that a command disrupts."""
    state = context.state
    found = []
    prices: dict[str, dict[tuple[str, str, str], int]] = {}
    for claim in state.all(NodeClaim):
        name = claim.metadata.labels.get(labels.NODEPOOL, "")
        pool = state.get(NodePool, name)
        if pool is not None and name not in prices:
            prices[name] = _prices(context.instance_types(pool))
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
                price=prices.get(name, {}).get(_offering(claim)),
            )
        )
    return tuple(found)


def _prices(types: tuple[InstanceType, ...]) -> dict[tuple[str, str, str], int]:
    return {
        (item.name, offering.zone, offering.capacity_type): offering.price
        for item in types
        for offering in item.offerings
    }


def _offering(claim: NodeClaim) -> tuple[str, str, str]:
    stamped = claim.metadata.labels
    return (
        stamped.get(labels.INSTANCE_TYPE, ""),
        stamped.get(labels.ZONE, ""),
        stamped.get(labels.CAPACITY_TYPE, ""),
    )
