"""The managed machines of the state as disruption sees them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.cluster.nodes import Machine
from dovetail.controllers.context import Context
from dovetail.controllers.prices import Offer, offer_of
from dovetail.disrupt.candidates import NodeView
from dovetail.model import labels


def node_views(context: Context, queued: Collection[str]) -> tuple[NodeView, ...]:
    """Every claim of ours with what stands on its node; `queued` are claims that a command disrupts."""
    state = context.state
    found = []
    tables: dict[str, Mapping[Offer, int]] = {}
    volumes: dict[str, int] = {}
    for claim in state.all(NodeClaim):
        name = claim.metadata.labels.get(labels.NODEPOOL, "")
        pool = state.get(NodePool, name)
        if pool is not None and name not in tables:
            with context.panics.alone("disruption", name, pool):  # without prices its nodes stay
                tables[name], volumes[name] = {}, 0
                volumes[name] = context.volume_price(pool)
                tables[name] = context.prices.of(name, context.instance_types(pool))
        instance = tables.get(name, {}).get(offer_of(claim))
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
