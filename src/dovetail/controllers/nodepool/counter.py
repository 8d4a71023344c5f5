"""status.resources and status.nodes of every pool, kept every 5 s."""

from __future__ import annotations

from contextlib import suppress

from dovetail.api.codec import encode
from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import SECOND
from dovetail.base.errors import NotFound
from dovetail.cluster.usage import BASE, NODES, usage_by_pool
from dovetail.controllers.context import Context
from dovetail.controllers.reconciler import every
from dovetail.model.resources import Resources, add, quantities

PERIOD = 5 * SECOND


class NodePoolCounter:
    """Adds up the capacity of the pool's nodes that stay; writes only what changed."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # What the last full count saw. The state answers the same tuples until something in them changes.
        self._counted: tuple[object, ...] | None = None

    async def run(self) -> None:
        """Count for ever."""
        await every(self._context.clock, PERIOD, self.count)

    async def count(self) -> None:
        """Count once."""
        state = self._context.state
        if not state.synced():
            return
        seen = (state.all(NodePool), state.all(NodeClaim), state.all(Node), state.marked())
        if seen == self._counted:
            return
        self._counted = None
        usage = usage_by_pool(machine for machine in state.machines() if not state.going(machine))
        for pool in state.all(NodePool):
            name = pool.metadata.name
            with self._context.panics.alone("nodepool.counter", name, pool), suppress(NotFound):
                await self._write(pool, add(BASE, usage.get(name, {})))
        self._counted = seen

    async def _write(self, pool: NodePool, used: Resources) -> None:
        """Raises NotFound."""
        wanted = quantities(used)
        if wanted == pool.status.resources and used[NODES] == pool.status.nodes:
            return
        # A resource that the last node took with it is removed from the map.
        gone = dict.fromkeys(pool.status.resources)
        resources = {**gone, **{name: str(value) for name, value in wanted.items()}}
        status = encode({"resources": resources, "nodes": used[NODES]})
        await self._context.client.patch(NodePool, pool.metadata.name, merge={"status": status}, status=True)
