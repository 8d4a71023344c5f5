"""Static NodePools: as many nodes as `spec.replicas` says, renewed one for one, the new one first.

Other pools may keep a least number of nodes, which are bought here as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, is_true
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import NotFound
from dovetail.cluster.nodes import managed
from dovetail.cluster.problem import pool_labels
from dovetail.cluster.usage import NODES
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.turns import Turns
from dovetail.controllers.disruption.unfinished import replaces
from dovetail.controllers.disruption.views import node_views
from dovetail.controllers.disruption.whatif import Outcome
from dovetail.controllers.nodeclaim.disrupted import GRACEFUL, count_disrupted
from dovetail.controllers.nodeclaim.status import DISRUPTION_REASON
from dovetail.controllers.provisioning.claims import node_claim
from dovetail.controllers.provisioning.metrics import ProvisioningMetrics
from dovetail.controllers.reconciler import failure_log
from dovetail.controllers.shared_limits import admitted
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import (
    DRIFTED,
    EXPIRED,
    NO_RESERVED_CAPACITY,
    STATIC_AT_LIMIT,
    Command,
    Decision,
    Note,
)
from dovetail.disrupt.drift import drifted_since
from dovetail.disrupt.expiry import expired_since
from dovetail.disrupt.minimum import minimum_nodes
from dovetail.disrupt.rollout import Due
from dovetail.disrupt.static import is_static, surplus
from dovetail.kube.client import ChangeType
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.plan import PlannedClaim
from dovetail.model.requirement import Requirements
from dovetail.model.resources import amounts
from dovetail.units.timestamp import parse_rfc3339

# For so long a replacement may be there before the watches show the mark on what it replaces.
_SETTLES = MINUTE


def planned(context: Context, pool: NodePool) -> PlannedClaim | None:
    """One more node of the pool, of any type that it allows; None while nothing it allows is for sale."""
    wanted = _wanted(pool)
    found = sorted(
        (
            (offering.price, kind.name, offering.zone, offering.capacity_type, kind, offering)
            for kind, offering in _suitable(context, pool, wanted)
            if offering.launchable
        ),
        key=lambda item: item[:4],
    )
    if not found:
        return None
    kind, offering = found[0][4:]
    return _claim(pool, wanted, kind, offering, context.volume_price(pool), found[-1][0])


def _wanted(pool: NodePool) -> Requirements:
    stamped = Requirements.from_labels(pool_labels(pool))
    return Requirements.read(pool.spec.template.spec.requirements).add(*stamped)


def _suitable(
    context: Context, pool: NodePool, wanted: Requirements
) -> Iterator[tuple[InstanceType, Offering]]:
    """All that the pool allows, for sale or not."""
    for kind in context.instance_types(pool):
        if not kind.requirements.intersects(wanted):
            for offering in kind.offerings:
                if not offering.requirements.intersects(wanted):
                    yield kind, offering


def _full_reservations(context: Context, pool: NodePool) -> frozenset[str]:
    """The reservations that the pool is confined to, if nothing more may start in any of them."""
    found = [offering for _, offering in _suitable(context, pool, _wanted(pool))]
    full = all(one.reservation_id and one.available and not one.launchable for one in found)
    return frozenset(one.reservation_id for one in found) if full else frozenset()


def _claim(
    pool: NodePool, wanted: Requirements, kind: InstanceType, offering: Offering, volumes: int, worst: int
) -> PlannedClaim:
    custom = wanted.labels(exclude=labels.WELL_KNOWN | labels.AWS_WELL_KNOWN | {labels.HOSTNAME})
    return PlannedClaim(
        name=pool.metadata.name,
        pool=pool.metadata.name,
        pods=(),
        requirements=wanted,
        instance_types=(),  # the cloud chooses among all that the requirements allow
        requests={},
        instance_type=kind.name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        price=offering.price + volumes,
        worst=worst + volumes,
        volumes=volumes,
        price_estimated=offering.estimated,
        labels={**custom, **pool_labels(pool)},
        taints=pool.spec.template.spec.taints,
    )


def _claims(context: Context, pool: NodePool) -> tuple[NodeClaim, ...]:
    """All claims of the pool."""
    name = pool.metadata.name
    return tuple(
        claim for claim in context.state.all(NodeClaim) if claim.metadata.labels.get(labels.NODEPOOL) == name
    )


def present(context: Context, pool: NodePool) -> tuple[NodeClaim, ...]:
    """Claims of the pool that are not being deleted."""
    return tuple(claim for claim in _claims(context, pool) if not claim.deleting)


def standing(context: Context, claims: Sequence[NodeClaim]) -> tuple[NodeClaim, ...]:
    """Those that the pool's number counts: a node and the one that is bought in its place are one."""
    by_name = {claim.metadata.name: claim for claim in claims}
    leaving = set(context.state.marked())
    for claim in claims:
        found = replaces(claim)
        if found is None:
            continue
        fresh = context.clock.now() - parse_rfc3339(found.at) < _SETTLES
        for name in found.claims:
            old = by_name.get(name)
            if old is not None and (fresh or is_true(old.status.conditions, DISRUPTION_REASON)):
                leaving.add(name)
    return tuple(claim for claim in claims if claim.metadata.name not in leaving)


def room(context: Context, pool: NodePool) -> int:
    """How many more nodes the pool's limit allows while those on their way out are still there; many without
    one.
    """
    limit = amounts(pool.spec.limits).get(NODES)
    return 2**31 if limit is None else max(0, limit - len(_claims(context, pool)))


def _buys(context: Context, pool: NodePool) -> bool:
    """True iff a node that the pool lacks is bought now."""
    ready = is_true(pool.status.conditions, "Ready") and not pool.deleting
    return ready and not context.brakes.launches_paused(pool)


async def buy(context: Context, metrics: ProvisioningMetrics, pool: NodePool, count: int) -> bool:
    """Launch so many nodes of the pool, as far as brakes let it; False where it buys none now."""
    wanted = planned(context, pool) if _buys(context, pool) else None
    if wanted is None:
        return False
    name = pool.metadata.name
    names = {kind.name for kind, _ in _suitable(context, pool, _wanted(pool))}
    marks = context.overlays.marks(name, names)
    async with admitted(context, [wanted] * count) as allowed:
        for planned_claim, why in allowed:
            if why:
                await context.recorder.publish(
                    pool, "Warning", "SharedLimitReached", f"Launches no more, {why}"
                )
                return False
            if context.brakes.launch_refused(1):
                break
            claim = await context.client.create(node_claim(planned_claim, pool, marks))
            context.brakes.launched(1)
            metrics.created(wanted)
            context.created(claim)
            context.log.record("static.launched", pool=name, claim=claim.metadata.name)
    return True


PERIOD = MINUTE
AT_LIMIT = 30 * SECOND
# Pods that wait may bring the nodes that are missing, of the sizes that they need: a batch is open for ten
# seconds at most, and its plan is made within some more.
LACKS = 30 * SECOND
# What the cloud refused is asked for again, but not at once.
_AFTER_LOSS = 10 * SECOND
OVERPROVISIONED = "overprovisioned"
FULL = "Static NodePool is at its node limit and cannot stage a replacement"
SOLD_OUT = "Nothing that the static NodePool allows can be launched now"
RESERVATIONS_FULL = "Static NodePool's capacity reservations are full and cannot stage a replacement"


class StaticCapacity:
    """Buys what is missing, ends what is too much: PodDisruptionBudgets hold up a drain, not the choice."""

    def __init__(self, context: Context, metrics: ProvisioningMetrics) -> None:
        self._context = context
        self._metrics = metrics
        self._full: set[str] = set()  # pools at their limit that are in the log
        self.queue = context.queue("static", self.reconcile, of=NodePool, on_failure=failure_log(context.log))
        context.state.subscribe(self.notice, NodePool, NodeClaim)

    def notice(self, _: type[Object], change: ChangeType, old: Object | None, new: Object | None) -> None:
        """Follow the pools, and claims that come or go."""
        claim = new or old
        if isinstance(claim, NodePool):
            self.queue.add(claim.key)
            return
        if isinstance(claim, NodeClaim) and (change != "MODIFIED" or claim.deleting):
            self.queue.add_after(claim.metadata.labels.get(labels.NODEPOOL, ""), _AFTER_LOSS)

    async def reconcile(self, key: str) -> int | None:
        """Bring the pool nearer to its number; answers when to look again."""
        context = self._context
        pool = context.state.get(NodePool, key)
        if pool is None or pool.deleting or pool.spec.replicas is None:
            self._full.discard(key)
            return None
        if not managed(pool.spec.template.spec.node_class_ref, context.provider.node_class_kinds):
            return None
        if not context.state.synced():
            return SECOND
        counted = standing(context, present(context, pool))
        missing = pool.spec.replicas - len(counted)
        if missing > 0:
            return await self._grow(pool, missing, room(context, pool))
        self._full.discard(key)
        if missing < 0 and not context.brakes.disruption_paused(pool):
            await self._shrink(pool, counted, -missing)
        return PERIOD

    async def _grow(self, pool: NodePool, missing: int, allowed: int) -> int:
        context, name = self._context, pool.metadata.name
        if allowed < missing and name not in self._full and _buys(context, pool):
            self._full.add(name)
            context.log.record("pool.full", pool=name)
        bought = await buy(context, self._metrics, pool, min(missing, allowed))
        return AT_LIMIT if bought and allowed < missing else PERIOD

    async def _shrink(self, pool: NodePool, counted: Sequence[NodeClaim], much: int) -> None:
        context = self._context
        names = {claim.metadata.name for claim in counted}
        views = [view for view in node_views(context, ()) if view.claim.metadata.name in names]
        for view in surplus(views, much, context.clock.now()):
            claim = view.claim
            try:
                await context.client.delete(NodeClaim, claim.metadata.name, uid=claim.metadata.uid)
            except NotFound:
                continue
            context.state.mark((claim.metadata.name, view.name))
            count_disrupted(context, claim, OVERPROVISIONED, GRACEFUL)
            context.log.record("static.ended", pool=pool.metadata.name, claim=claim.metadata.name)


class MinimumNodes:
    """Buys what a pool lacks to the least number of nodes that it keeps (disrupt/minimum.py)."""

    def __init__(self, context: Context, metrics: ProvisioningMetrics) -> None:
        self._context = context
        self._metrics = metrics
        self._short: dict[str, int] = {}  # pool -> since when it lacks nodes (monotonic)
        self.queue = context.queue(
            "minimum", self.reconcile, of=NodePool, on_failure=failure_log(context.log)
        )
        context.state.subscribe(self.notice, NodePool, NodeClaim)

    def notice(self, _: type[Object], change: ChangeType, old: Object | None, new: Object | None) -> None:
        """Follow pools that keep a number, and claims that go."""
        found = new or old
        if isinstance(found, NodePool):
            if labels.MINIMUM_NODES in found.metadata.annotations:
                self.queue.add(found.key)
        elif isinstance(found, NodeClaim) and (change != "MODIFIED" or found.deleting):
            pool = self._context.state.get(NodePool, found.metadata.labels.get(labels.NODEPOOL, ""))
            if pool is not None and labels.MINIMUM_NODES in pool.metadata.annotations:
                self.queue.add(pool.key)

    async def reconcile(self, key: str) -> int | None:
        """Buy what is missing, if it has been for so long that no batch of pods brings it."""
        context = self._context
        pool = context.state.get(NodePool, key)
        if pool is None or pool.deleting or labels.MINIMUM_NODES not in pool.metadata.annotations:
            self._short.pop(key, None)
            return None
        if not managed(pool.spec.template.spec.node_class_ref, context.provider.node_class_kinds):
            return None
        if not context.state.synced():
            return SECOND
        with suppress(ValueError):  # told on the pool; none goes, and none is bought
            missing = minimum_nodes(pool) - len(standing(context, present(context, pool)))
            if missing > 0:
                return await self._grow(pool, min(missing, room(context, pool)))
        self._short.pop(key, None)
        return PERIOD

    async def _grow(self, pool: NodePool, count: int) -> int:
        now, name = self._context.clock.monotonic(), pool.metadata.name
        wait = self._short.setdefault(name, now) + LACKS - now
        if wait > 0:
            return wait
        del self._short[name]  # what the cloud refuses is asked for again, but not at once
        await buy(self._context, self._metrics, pool, count)
        return PERIOD


def replacement(context: Context, view: NodeView, reason: str, *, terminates_first: bool) -> Outcome:
    """How to replace a node of a static pool by one more.

    `terminates_first`: where there is no room for one more, the node itself goes first, if another is bought,
    and none of the pool makes room anyway.
    """
    pool = view.pool
    if pool is None:
        return Outcome(None)
    wanted = pool.spec.replicas or 0
    if len(standing(context, present(context, pool))) > wanted:
        return Outcome(None)  # one that is too many is about to go
    goes_first = terminates_first and _buys(context, pool)
    if offered := _full_reservations(context, pool):
        if goes_first and view.claim.metadata.labels.get(labels.RESERVATION_ID, "") in offered:
            return Outcome(Command(reason, (view,), terminate_first=NO_RESERVED_CAPACITY))
        return Outcome(None, RESERVATIONS_FULL)
    if not room(context, pool):
        if len(_claims(context, pool)) > wanted:
            return Outcome(None)  # one that is being replaced makes room before long
        if goes_first:
            return Outcome(Command(reason, (view,), terminate_first=STATIC_AT_LIMIT))
        return Outcome(None, FULL)
    if context.brakes.launches_paused(pool):
        return Outcome(None)
    bought = planned(context, pool)
    return Outcome(Command(reason, (view,), (bought,))) if bought is not None else Outcome(None, SOLD_OUT)


class StaticReplacement(Turns):
    """One node at a time, those due for longest first. Above its number the pool may go up to its limit."""

    def __init__(self, context: Context, reason: str, due: Due, *, terminates_first: bool = False) -> None:
        """`terminates_first`: see `replacement`."""
        super().__init__(context, reason, due)
        self._terminates_first = terminates_first

    async def decide(self, views: tuple[NodeView, ...]) -> Decision:
        """See the protocol."""
        turn = self._turn(views)
        notes = list(turn.notes)
        for view in (*turn.empty, *turn.loaded):
            outcome = replacement(self._context, view, self.reason, terminates_first=self._terminates_first)
            if outcome.command is not None:
                return Decision(outcome.command, tuple(notes))
            if outcome.obstacle:
                notes.append(Note(view.claim.metadata.name, "DisruptionBlocked", outcome.obstacle))
        return Decision(None, tuple(notes))


def static_drift(context: Context, *, terminates_first: bool = False) -> StaticReplacement:
    """Nodes that drifted."""

    def due(view: NodeView) -> int | None:
        return drifted_since(view) if is_static(view.pool) else None

    return StaticReplacement(context, DRIFTED, due, terminates_first=terminates_first)


def static_expiry(context: Context) -> StaticReplacement:
    """Nodes that reached their age, where the pool wants a replacement first."""

    def due(view: NodeView) -> int | None:
        return expired_since(view, context.clock.now()) if is_static(view.pool) else None

    return StaticReplacement(context, EXPIRED, due)
