"""Keeps as many nodes as `spec.replicas` of a NodePool says."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, is_true
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import NotFound
from dovetail.cluster.nodes import managed
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.views import node_views
from dovetail.controllers.nodeclaim.disrupted import GRACEFUL, count_disrupted
from dovetail.controllers.provisioning.claims import node_claim
from dovetail.controllers.provisioning.metrics import ProvisioningMetrics
from dovetail.controllers.reconciler import failure_log
from dovetail.controllers.static.claims import planned, present, room, standing
from dovetail.disrupt.static import surplus
from dovetail.kube.client import ChangeType
from dovetail.model import labels

PERIOD = MINUTE
AT_LIMIT = 30 * SECOND
# What the cloud refused is asked for again, but not at once.
_AFTER_LOSS = 10 * SECOND
OVERPROVISIONED = "overprovisioned"


class StaticCapacity:
    """Buys what is missing, ends what is too much: PodDisruptionBudgets hold up a drain, not the choice."""

    def __init__(self, context: Context, metrics: ProvisioningMetrics) -> None:
        self._context = context
        self._metrics = metrics
        self._full: set[str] = set()  # pools at their limit of which the log was told
        self.queue = context.queue("static", self.reconcile, of=NodePool, on_failure=failure_log(context.log))
        context.state.subscribe(self.notice)

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
        if not is_true(pool.status.conditions, "Ready") or context.brakes.launches_paused(pool):
            return PERIOD
        wanted = planned(context, pool)
        if wanted is None:
            return PERIOD
        count = min(missing, allowed)
        if count < missing and name not in self._full:
            self._full.add(name)
            context.log.record("pool.full", pool=name)
        for _ in range(count):
            if context.brakes.launch_refused(1):
                break
            claim = await context.client.create(node_claim(wanted, pool))
            context.brakes.launched(1)
            self._metrics.created(wanted)
            context.created(claim)
            context.log.record("static.launched", pool=name, claim=claim.metadata.name)
        return AT_LIMIT if count < missing else PERIOD

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
