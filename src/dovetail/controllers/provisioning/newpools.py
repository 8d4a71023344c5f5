"""Pools that were not judged yet: a plan waits for them a little."""

from __future__ import annotations

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import SECOND
from dovetail.controllers.context import Context
from dovetail.controllers.nodepool.readiness import being_judged

_LOOK = SECOND // 10
_MOST = 10 * SECOND


class NewPools:
    """Where pools, classes and pods come together (one `kubectl apply`, a first start), the pool that is
    ready first would be given all pods, whatever it costs.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._since: dict[str, int] = {}  # UID -> when a plan came upon it first, while it is not judged

    async def judged(self) -> None:
        """Return once each pool that may buy is judged, or is not after 10 s: then the others go on alone."""
        while self._any():
            await self._context.clock.sleep(_LOOK)

    def _any(self) -> bool:
        now = self._context.clock.monotonic()
        new = [pool.metadata.uid for pool in self._context.state.all(NodePool) if self._new(pool)]
        self._since = {uid: self._since.get(uid, now) for uid in new}
        return any(now - since < _MOST for since in self._since.values())

    def _new(self, pool: NodePool) -> bool:
        if pool.deleting or pool.spec.replicas is not None:
            return False
        return being_judged(pool, self._context.node_class(pool.spec.template.spec.node_class_ref))
