"""The managed machines of the state as disruption sees them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import is_

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


class Views:
    """The views as they are now, the same for machines of which nothing changed."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[str, NodeView] = {}  # by the claim's name
        self._last: tuple[NodeView, ...] = ()

    def now(self, queued: Collection[str]) -> tuple[NodeView, ...]:
        """See `node_views`. The very same tuple while all of them are the same."""
        found = node_views(self._context, queued)
        known = self._known
        self._known = {
            view.claim.metadata.name: _same(known.get(view.claim.metadata.name), view) for view in found
        }
        views = tuple(self._known.values())
        same = len(views) == len(self._last) and all(map(is_, views, self._last))
        self._last = self._last if same else views
        return self._last


def _same(old: NodeView | None, new: NodeView) -> NodeView:
    """The old one if all is the very same: what was worked out of it need not be worked out again."""
    if (
        old is not None
        and old.claim is new.claim
        and old.node is new.node
        and old.pool is new.pool
        and old.pods is new.pods
        and (old.nominated, old.going, old.queued, old.price)
        == (new.nominated, new.going, new.queued, new.price)
    ):
        return old
    return new
