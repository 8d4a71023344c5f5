"""status.resources and status.nodes of every pool, kept every 5 s."""

from __future__ import annotations

from contextlib import suppress

from dovetail.api.codec import encode
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import SECOND
from dovetail.base.errors import NotFound
from dovetail.cluster.pool_usage import PoolUsage
from dovetail.cluster.usage import BASE, NODES
from dovetail.controllers.context import Context
from dovetail.controllers.reconciler import every
from dovetail.model.resources import Resources, add, quantities

PERIOD = 5 * SECOND


class NodePoolCounter:
    """Adds up the capacity of the pool's nodes that stay; writes only what changed."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._usage = PoolUsage(context.state)
        # The pools and the usage as of the last count that was written.
        self._written: tuple[tuple[NodePool, ...], dict[str, dict[str, int]]] | None = None

    async def run(self) -> None:
        """Count for ever."""
        await every(self._context.clock, PERIOD, self.count)

    async def count(self) -> None:
        """Count once."""
        state = self._context.state
        if not state.synced():
            return
        pools, usage = state.all(NodePool), self._usage.now()
        if self._written is not None and self._written[0] is pools and self._written[1] is usage:
            return
        self._written = None
        for pool in pools:
            name = pool.metadata.name
            with self._context.panics.alone("nodepool.counter", name, pool), suppress(NotFound):
                await self._write(pool, add(BASE, usage.get(name, {})))
        self._written = pools, usage

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
