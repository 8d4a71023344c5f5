"""Nodes that stay unhealthy: replaced by force, unless so many are that the fault must lie elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, condition
from dovetail.base.clock import MINUTE
from dovetail.cloud.provider import RepairPolicy
from dovetail.controllers.brakes.guard import HELD_POLL, held
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.disrupted import FORCEFUL, UNHEALTHY, count_disrupted
from dovetail.controllers.nodeclaim.terminate import end_by_force
from dovetail.controllers.reconciler import failure_log
from dovetail.disrupt.budgets import allowed_disruptions
from dovetail.disrupt.command import UNHEALTHY as SICK
from dovetail.kube.client import ChangeType
from dovetail.model import labels
from dovetail.units.timestamp import parse_rfc3339

BLOCKED_TTL = 15 * MINUTE
NODE_BLOCKED_TTL = 2 * MINUTE
POOL_BLOCKED_TTL = MINUTE
_BLOCKED_POLL = 5 * MINUTE
_SICK_PERCENT = 20
IN_POOL = "more than 20% nodes are unhealthy in the nodepool"
IN_CLUSTER = "more then 20% nodes are unhealthy in the cluster"


def diagnosis(node: Node, policies: Iterable[RepairPolicy]) -> tuple[int, str] | None:
    """The instant from which the node is past help, and the condition that says so; None while none does."""
    instants = []
    for policy in policies:
        found = condition(node.status.conditions, policy.condition)
        if found is not None and found.status == policy.status:
            begun = found.last_transition_time or node.metadata.creation_timestamp
            instants.append((parse_rfc3339(begun) + policy.toleration, policy.condition))
    return min(instants, default=None)


def too_many(nodes: Sequence[Node], policies: Sequence[RepairPolicy]) -> bool:
    """True iff more than a fifth of the nodes, rounded up, are unhealthy, for however short a time."""
    sick = sum(diagnosis(node, policies) is not None for node in nodes)
    return sick > -(-len(nodes) * _SICK_PERCENT // 100)


class NodeRepair:
    """Deletes the claims of nodes past help: their pods get no more time.

    Only budgets that name the reason Unhealthy are asked, and the annotation do-not-repair.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._policies = context.provider.repair_policies
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
        before = diagnosis(old, self._policies) if isinstance(old, Node) else None
        if diagnosis(new, self._policies) != before:
            self._queue.add(new.key)

    async def reconcile(self, name: str) -> int | None:
        """Repair the node if it is time; answers when to look again."""
        context = self._context
        node = context.state.get(Node, name)
        claim = context.state.claim_of(node) if node is not None else None
        if node is None or claim is None or node.deleting or claim.deleting:
            return None
        found = diagnosis(node, self._policies)
        if found is None:
            return None
        end, sickness = found
        if end > context.clock.now():
            return end - context.clock.now()
        if message := self._guard(node):
            await context.recorder.publish(node, "Warning", "NodeRepairBlocked", message, ttl=BLOCKED_TTL)
            return _BLOCKED_POLL
        if await self._kept(node, claim) or await held(context, claim, "unhealthy"):
            return HELD_POLL
        count_disrupted(context, claim, "unhealthy", FORCEFUL)
        marks = claim.metadata.labels
        context.metrics.add(
            UNHEALTHY,
            condition=sickness,
            nodepool=marks.get(labels.NODEPOOL, ""),
            capacity_type=marks.get(labels.CAPACITY_TYPE, ""),
            image_id=claim.status.image_id,
        )
        await end_by_force(context, claim)
        return None

    def _guard(self, node: Node) -> str:
        """Why the node must stay although it is sick, or ""."""
        pool = node.metadata.labels.get(labels.NODEPOOL, "")
        nodes = self._context.state.all(Node)
        if pool:
            nodes = tuple(item for item in nodes if item.metadata.labels.get(labels.NODEPOOL) == pool)
        if not too_many(nodes, self._policies):
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
        text = f"No allowed disruptions for disruption reason {SICK} due to blocking budget"
        await publish(pool, "Normal", "DisruptionBlocked", text, ttl=POOL_BLOCKED_TTL)
        return True

    def _left(self, pool: NodePool, claim: NodeClaim) -> int:
        """How many more sick nodes of the pool may go, by those of its budgets that name them.

        A budget that names no reason is about nodes that may stay: it holds no repair up.
        """
        state, budgets = self._context.state, pool.spec.disruption.budgets
        named = [one for one in budgets if one.reasons is not None and SICK in one.reasons]
        if not named:
            return 1  # so that no machine has to be looked at
        own = [one for one in state.machines() if one.pool == pool.metadata.name and one.initialized]
        others = [one for one in own if claim.metadata.name not in one.names()]
        if len(others) == len(own):
            return 1  # it is not initialized: budgets do not count it
        used = sum(map(state.going, others))
        return allowed_disruptions(named, SICK, len(own), used, self._context.clock.now())
