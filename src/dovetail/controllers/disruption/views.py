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

_NONE: Mapping[str, NodeView] = {}


def node_views(
    context: Context, queued: Collection[str], known: Mapping[str, NodeView] = _NONE
) -> tuple[NodeView, ...]:
    """Every claim of ours with what stands on its node; `queued` are claims that a command disrupts.

    Of `known`, by the claim's name, those are in it again of which all is the very same: what was worked out
    of them need not be worked out again.
    """
    state = context.state
    found = []
    pools: dict[str, NodePool | None] = {}
    tables: dict[str, Mapping[Offer, int]] = {}
    volumes: dict[str, int] = {}
    for claim in state.all(NodeClaim):
        name = claim.metadata.labels.get(labels.NODEPOOL, "")
        if name not in pools:
            pools[name] = state.get(NodePool, name)
        pool = pools[name]
        if pool is not None and name not in tables:
            with context.panics.alone("disruption", name, pool):  # without prices its nodes stay
                tables[name], volumes[name] = {}, 0
                volumes[name] = context.volume_price(pool)
                tables[name] = context.prices.of(name, context.instance_types(pool))
        instance = tables.get(name, {}).get(offer_of(claim))
        node = state.node_of(claim)
        machine = Machine(node, claim)
        pods: tuple[Pod, ...] = state.pods_on(node.metadata.name) if node is not None else ()
        nominated, going = state.nominated(machine), state.going(machine)
        taken = claim.metadata.name in queued
        price = None if instance is None else instance + volumes[name]
        old = known.get(claim.metadata.name)
        if (
            old is not None
            and old.claim is claim
            and old.node is node
            and old.pool is pool
            and old.pods is pods
            and (old.nominated, old.going, old.queued, old.price) == (nominated, going, taken, price)
        ):
            found.append(old)
        else:
            view = NodeView(claim, node, pool, pods, nominated, going, taken, price)
            found.append(view.like(old) if old is not None and old.pods is pods else view)
    return tuple(found)


class Views:
    """The views as they are now, the same for machines of which nothing changed."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[str, NodeView] = {}  # by the claim's name
        self._last: tuple[NodeView, ...] = ()

    def now(self, queued: Collection[str]) -> tuple[NodeView, ...]:
        """See `node_views`. The very same tuple while all of them are the same."""
        views = node_views(self._context, queued, self._known)
        same = len(views) == len(self._last) and all(map(is_, views, self._last))
        if not same:
            self._known = {view.claim.metadata.name: view for view in views}
            self._last = views
        return self._last
