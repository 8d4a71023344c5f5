"""Node repair as in Karpenter 1.14: by force and at once, unless so many nodes are unhealthy that the fault
must lie elsewhere. The repair of 1.15, a method of disruption, is in controllers/disruption/repair.py.
"""

from __future__ import annotations

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.base.clock import MINUTE
from dovetail.controllers.brakes.guard import HELD_POLL, held
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.disrupted import FORCEFUL, count_disrupted, count_unhealthy
from dovetail.controllers.nodeclaim.terminate import end_by_force
from dovetail.controllers.reconciler import failure_log
from dovetail.disrupt.budgets import allowed_disruptions, zone_of
from dovetail.disrupt.command import UNHEALTHY
from dovetail.disrupt.repair import Matcher, too_many
from dovetail.kube.client import ChangeType
from dovetail.model import labels

BLOCKED_TTL = 15 * MINUTE
NODE_BLOCKED_TTL = 2 * MINUTE
POOL_BLOCKED_TTL = MINUTE
_BLOCKED_POLL = 5 * MINUTE
IN_POOL = "more than 20% nodes are unhealthy in the nodepool"
IN_CLUSTER = "more then 20% nodes are unhealthy in the cluster"


class LegacyNodeRepair:
    """Deletes the claims of nodes past help: their pods get no more time.

    Only budgets that name the reason Unhealthy are asked, and the annotation do-not-repair.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._matcher = Matcher(context.provider.repair_policies.legacy)
        self._queue = context.queue(
            "node.health", self.reconcile, of=Node, on_failure=failure_log(context.log)
        )
        context.state.subscribe(self._notice, Node)

    async def run(self) -> None:
        """Work for ever."""
        for node in self._context.state.all(Node):
            self._queue.add(node.key)
        await self._queue.run()

    def _notice(
        self,
        _kind: type[Object],
        _change: ChangeType,
        old: Object | None,
        new: Object | None,
    ) -> None:
        if not isinstance(new, Node):
            return
        # Heartbeats alone make no node sick.
        before = self._matcher.matches(old) if isinstance(old, Node) else ()
        if self._matcher.matches(new) != before:
            self._queue.add(new.key)

    async def reconcile(self, name: str) -> int | None:
        """Repair the node if it is time; answers when to look again."""
        context = self._context
        node = context.state.get(Node, name)
        claim = context.state.claim_of(node) if node is not None else None
        if node is None or claim is None or node.deleting or claim.deleting:
            return None
        first = min(self._matcher.matches(node), key=lambda one: (one.since, one.condition), default=None)
        if first is None:
            return None
        if first.since > context.clock.now():
            return first.since - context.clock.now()
        if message := self._guard(node):
            await context.recorder.publish(node, "Warning", "NodeRepairBlocked", message, ttl=BLOCKED_TTL)
            return _BLOCKED_POLL
        if await self._kept(node, claim) or await held(context, claim, "unhealthy"):
            return HELD_POLL
        count_disrupted(context, claim, "unhealthy", FORCEFUL)
        count_unhealthy(context, claim, first.condition, FORCEFUL)
        await end_by_force(context, claim)
        return None

    def _guard(self, node: Node) -> str:
        """Why the node must stay although it is sick, or ""."""
        pool = node.metadata.labels.get(labels.NODEPOOL, "")
        nodes = self._context.state.all(Node)
        if pool:
            nodes = tuple(item for item in nodes if item.metadata.labels.get(labels.NODEPOOL) == pool)
        if not too_many(sum(bool(self._matcher.matches(item)) for item in nodes), len(nodes)):
            return ""
        return IN_POOL if pool else IN_CLUSTER

    async def _kept(self, node: Node, claim: NodeClaim) -> bool:
        """True iff its annotation or its pool's budget for sick nodes keeps it for now; an event says so."""
        publish = self._context.recorder.publish
        if any(one.metadata.annotations.get(labels.DO_NOT_REPAIR) == "true" for one in (node, claim)):
            text = f'Repair is blocked through the "{labels.DO_NOT_REPAIR}" annotation'
            for obj in (node, claim):
                # Named apart, so that what keeps the node from other disruption does not hide it.
                key = (obj.KIND, obj.metadata.name, labels.DO_NOT_REPAIR)
                await publish(obj, "Normal", "DisruptionBlocked", text, dedupe=key, ttl=NODE_BLOCKED_TTL)
            return True
        pool = self._context.state.get(NodePool, claim.metadata.labels.get(labels.NODEPOOL, ""))
        if pool is None or self._left(pool, claim) > 0:
            return False
        text = f"No allowed disruptions for disruption reason {UNHEALTHY} due to blocking budget"
        await publish(pool, "Normal", "DisruptionBlocked", text, ttl=POOL_BLOCKED_TTL)
        return True

    def _left(self, pool: NodePool, claim: NodeClaim) -> int:
        """How many more sick nodes of the pool may go, by those of its budgets that name them.

        A budget that names no reason is about nodes that may stay: it holds no repair up.
        """
        state, budgets = self._context.state, pool.spec.disruption.budgets
        named = [one for one in budgets if one.reasons is not None and UNHEALTHY in one.reasons]
        if not named:
            return 1  # so that no machine has to be looked at
        own = [one for one in state.machines() if one.pool == pool.metadata.name and one.initialized]
        others = [one for one in own if claim.metadata.name not in one.names()]
        if len(others) == len(own):
            return 1  # it is not initialized: budgets do not count it
        used = sum(map(state.going, others))
        now = self._context.clock.now()
        return allowed_disruptions(named, UNHEALTHY, len(own), used, now, zone_of(pool))
