"""The managed machines of the state as disruption sees them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field

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
    names = dict.fromkeys(map(_pool_of, context.state.all(NodeClaim)))
    offers = _all_offers(context, SteadyPools(), names)
    return tuple(
        _view(context, claim, offers[_pool_of(claim)], taken=claim.metadata.name in queued)
        for claim in context.state.all(NodeClaim)
    )


def _pool_of(claim: NodeClaim) -> str:
    return claim.metadata.labels.get(labels.NODEPOOL, "")


def _all_offers(context: Context, pools: SteadyPools, names: Iterable[str]) -> dict[str, _Offers]:
    """By name, of pools that claims are of."""
    found: dict[str, _Offers] = {}
    for name in names:
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
    surges = context.surges if context.surges is not None and context.surges.enabled else None
    return NodeView(
        claim,
        node,
        offers.pool,
        pods,
        nominated,
        going,
        taken,
        price,
        reserved,
        written,
        shifted,
        surges,
        context.gangs,
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

    Invariant: `_known` are the views of `_all`, in its order. `_claims` says which of these are of a node of
    that name, and `_watched` which of them were bought in place of others or have virtual pods.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._changed = context.state.follow()
        self._pools = SteadyPools()
        self._all: tuple[NodeClaim, ...] = ()
        self._known: dict[str, NodeView] = {}  # by the claim's name
        self._claims: dict[str, set[str]] = {}
        self._watched: dict[str, None] = {}
        self._names: tuple[str, ...] = ()  # of the pools of all claims
        # As of the last look: by the pool's name, and the names of what was nominated and queued.
        self._offers: dict[str, _Offers] = {}
        self._nominated: Set[str] = frozenset()
        self._queued: Set[str] = frozenset()
        self._shifted: Set[str] = frozenset()  # zones
        self._last: tuple[NodeView, ...] = ()

    def now(self, queued: Collection[str]) -> tuple[NodeView, ...]:
        """As `node_views`. The very same tuple while all of them are the same.

        Only machines of which something changed are looked at: of a day of 550 nodes the looks at all of them
        were 3 % of the CPU.
        """
        context, state = self._context, self._context.state
        claims, changed = state.all(NodeClaim), self._taken()
        nominated, taken = state.nominations(), frozenset(queued)
        asked = {*changed, *self._watched, *context.buffers.machines()}
        asked.update(nominated ^ self._nominated, taken ^ self._queued)
        asked.update(*[self._claims.get(name, ()) for name in asked])
        if claims is not self._all:
            self._names = tuple(dict.fromkeys(map(_pool_of, claims)))
            asked.update(claim.metadata.name for claim in claims if claim.metadata.name not in self._known)
        offers = _all_offers(context, self._pools, self._names)
        self._pools.keep(offers)
        shifted = frozenset(context.provider.supply.shifted_zones())
        same = shifted == self._shifted
        other = {name for name, each in offers.items() if not (same and each.same(self._offers.get(name)))}
        self._offers, self._nominated, self._queued, self._shifted = offers, nominated, taken, shifted
        some = claims if other else [one for name in sorted(asked) if (one := state.get(NodeClaim, name))]
        differ = False
        for claim in some:
            name, pool = claim.metadata.name, _pool_of(claim)
            if name in asked or pool in other:
                old = self._known.get(name)
                view = _renewed(old, _view(context, claim, offers[pool], taken=name in taken))
                if view is not old:
                    self._know(name, old, view)
                    differ = True
        if claims is not self._all:
            differ = self._in_order(claims) or differ
        if differ:
            self._last = tuple(self._known.values())
        return self._last

    def _know(self, name: str, old: NodeView | None, view: NodeView) -> None:
        if old is not None:
            self._forget(name, old)
        self._known[name] = view
        self._claims.setdefault(view.name, set()).add(name)
        if view.reserved or replaces(view.claim) is not None:
            self._watched[name] = None

    def _forget(self, name: str, old: NodeView) -> None:
        self._watched.pop(name, None)
        self._claims[old.name].discard(name)
        if not self._claims[old.name]:
            del self._claims[old.name]

    def _in_order(self, claims: tuple[NodeClaim, ...]) -> bool:
        """These are all that there are now, in this order; False if they were before."""
        self._all, names = claims, [claim.metadata.name for claim in claims]
        if names == list(self._known):
            return False
        there = {name: self._known.pop(name) for name in names}
        for name, old in self._known.items():
            self._forget(name, old)
        self._known = there
        return True

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
