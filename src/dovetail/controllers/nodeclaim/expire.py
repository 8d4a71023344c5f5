"""Claims that reached their age: deleted to the second, without a replacement first, whatever budgets say.

Unless their pool wants them replaced first: then the disruption loop does that.
"""

from __future__ import annotations

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.base.errors import NotFound
from dovetail.cluster.nodes import managed
from dovetail.controllers.brakes.guard import HELD_POLL, held
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.disrupted import FORCEFUL, count_disrupted
from dovetail.controllers.reconciler import failure_log
from dovetail.disrupt.expiry import expires, replaced_first
from dovetail.kube.client import ChangeType
from dovetail.model import labels


class NodeClaimExpiration:
    """Deletes each claim at its creation plus `expireAfter`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._queue = context.queue(
            "nodeclaim.expiration",
            self.reconcile,
            of=NodeClaim,
            on_failure=failure_log(context.log),
        )
        context.state.subscribe(self._notice, NodeClaim)

    async def run(self) -> None:
        """Work for ever."""
        for claim in self._context.state.all(NodeClaim):
            self._queue.add(claim.key)
        await self._queue.run()

    def _notice(
        self,
        kind: type[Object],
        change: ChangeType,
        _old: Object | None,
        new: Object | None,
    ) -> None:
        if kind is NodeClaim and change == "ADDED" and new is not None:
            self._queue.add(new.key)

    async def reconcile(self, name: str) -> int | None:
        """Delete the claim if it is time; answers how long it still has."""
        known = self._context.state.get(NodeClaim, name)
        left = self._left(known) if known is not None else None
        if left is None or left > 0:
            return left
        try:
            claim = await self._context.read(NodeClaim, name)
        except NotFound:
            return None
        if claim.deleting:  # and counted by whoever did that
            return None
        pool = self._context.state.get(NodePool, claim.metadata.labels.get(labels.NODEPOOL, ""))
        if replaced_first(pool) or await held(self._context, claim, "expired"):
            return HELD_POLL
        count_disrupted(self._context, claim, "expired", FORCEFUL)
        await self._context.client.delete(NodeClaim, name, uid=claim.metadata.uid)
        return None

    def _left(self, claim: NodeClaim) -> int | None:
        """Nanoseconds until the claim expires; None if it never does. Its spec never changes."""
        ours = managed(claim.spec.node_class_ref, self._context.provider.node_class_kinds)
        end = expires(claim)
        if not ours or claim.deleting or end is None:
            return None
        return max(0, end - self._context.clock.now())
