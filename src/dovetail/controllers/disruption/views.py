"""The managed machines of the state as disruption sees them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field
from operator import is_

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.cluster.nodes import Machine
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.moves import SteadyPools
from dovetail.controllers.disruption.unfinished import replaces
from dovetail.controllers.nodeclaim.terminate import deadline
from dovetail.controllers.prices import Offer, offer_of
from dovetail.disrupt.candidates import NodeView
from dovetail.model import labels


@dataclass(slots=True)
class _Offers:
    """A pool, and what its nodes cost."""

    pool: NodePool | None
    prices: Mapping[Offer, int] = field(default_factory=dict)
    volumes: int = 0

    def same(self, other: _Offers | None) -> bool:
        """True iff the pool and the prices are the very same."""
        return (
            other is not None
            and self.pool is other.pool
            and self.prices is other.prices
            and self.volumes == other.volumes
        )

    def price(self, claim: NodeClaim) -> int | None:
        """What the claim's node costs; None if that is not known."""
        instance = self.prices.get(offer_of(claim))
        return None if instance is None else instance + self.volumes


def node_views(context: Context, queued: Collection[str]) -> tuple[NodeView, ...]:
    """Every claim of ours with what stands on its node; `queued` are claims that a command disrupts."""
    offers = _all_offers(context, SteadyPools())
    return tuple(
        _view(context, claim, offers[_pool_of(claim)], taken=claim.metadata.name in queued)
        for claim in context.state.all(NodeClaim)
    )


def _pool_of(claim: NodeClaim) -> str:
    return claim.metadata.labels.get(labels.NODEPOOL, "")


def _all_offers(context: Context, pools: SteadyPools) -> dict[str, _Offers]:
    """By the name of a pool that some claim is of."""
    found: dict[str, _Offers] = {}
    for name in dict.fromkeys(map(_pool_of, context.state.all(NodeClaim))):
        pool = context.state.get(NodePool, name)
        found[name] = mine = _Offers(pools.of(pool) if pool is not None else None)
        if mine.pool is not None:
            with context.panics.alone("disruption", name, mine.pool):  # without prices its nodes stay
                mine.volumes = context.volume_price(mine.pool)
                mine.prices = context.prices.of(name, context.instance_types(mine.pool))
    return found


def _view(context: Context, claim: NodeClaim, offers: _Offers, *, taken: bool) -> NodeView:
    state, node = context.state, context.state.node_of(claim)
    machine = Machine(node, claim)
    pods: tuple[Pod, ...] = state.pods_on(node.metadata.name) if node is not None else ()
    nominated, going = state.nominated(machine) or awaits_pods(context, claim), state.going(machine)
    price, written = offers.price(claim), context.writes_costs
    reserved = context.buffers.on(*machine.names())
    shifted = _in(context.provider.supply.shifted_zones(), claim)
    return NodeView(
        claim, node, offers.pool, pods, nominated, going, taken, price, reserved, written, shifted
    )


def _in(shifted: Mapping[str, str], claim: NodeClaim) -> bool:
    return bool(shifted) and claim.metadata.labels.get(labels.ZONE) in shifted


def awaits_pods(context: Context, claim: NodeClaim) -> bool:
    """True iff it was bought for pods of a node on its way out that may stay there until their time is up.

    Found empty meanwhile, it would be deleted, and bought anew for the very same pods.
    """
    found = replaces(claim)
    if found is None:
        return False
    old = (context.state.get(NodeClaim, name) for name in found.claims)
    now = context.clock.now()
    return any(one is not None and one.deleting and (deadline(one) or 0) > now for one in old)


class Views:
    """The views as they are now, the same for machines of which nothing changed.

    Of their pools the status and the counted moves may be older.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._changed = context.state.follow()
        self._pools = SteadyPools()
        self._known: dict[str, NodeView] = {}  # by the claim's name
        self._offers: dict[str, _Offers] = {}  # by the pool's name, as of the last look
        self._last: tuple[NodeView, ...] = ()

    def now(self, queued: Collection[str]) -> tuple[NodeView, ...]:
        """As `node_views`. The very same tuple while all of them are the same."""
        context, known = self._context, self._known
        changed, nominated = self._taken(), context.state.nominations()
        shifted = context.provider.supply.shifted_zones()
        offers = _all_offers(context, self._pools)
        self._pools.keep(offers)
        same = {name for name, each in offers.items() if each.same(self._offers.get(name))}
        views = []
        for claim in context.state.all(NodeClaim):
            name, pool = claim.metadata.name, _pool_of(claim)
            old, taken = known.get(name), name in queued
            if (
                old is None
                or name in changed
                or old.name in changed
                or pool not in same
                or old.reserved is not context.buffers.on(old.name, name)
                or old.queued != taken
                or old.shifted != _in(shifted, claim)
                or old.nominated
                != (name in nominated or old.name in nominated or awaits_pods(context, claim))
            ):
                old = _renewed(old, _view(context, claim, offers[pool], taken=taken))
            views.append(old)
        self._offers = offers
        if len(views) != len(self._last) or not all(map(is_, views, self._last)):
            self._known = {view.claim.metadata.name: view for view in views}
            self._last = tuple(views)
        return self._last

    def _taken(self) -> Set[str]:
        """Names of the nodes and claims of which something changed since they were taken last."""
        state, names = self._context.state, set(self._changed)
        self._changed.clear()
        nodes = [node for name in names if (node := state.get(Node, name)) is not None]
        return names.union(claim.metadata.name for node in nodes for claim in state.claims_of(node))


def _renewed(old: NodeView | None, view: NodeView) -> NodeView:
    """The old one if all of it is the very same; what was worked out of the very same pods is known."""
    if old is None or old.pods is not view.pods:
        return view
    same = old.claim is view.claim and old.node is view.node and old.pool is view.pool
    same = same and old.reserved is view.reserved
    state = (old.nominated, old.going, old.queued, old.price, old.shifted)
    now = (view.nominated, view.going, view.queued, view.price, view.shifted)
    return old if same and state == now else view.like(old)
