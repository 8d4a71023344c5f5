"""Stamps pools and their claims with the hash of the pool's template."""

from __future__ import annotations

from dovetail.api.karpenter.fingerprint import HASH_VERSION, pool_hash
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, is_true
from dovetail.controllers.context import Context
from dovetail.model import labels


class NodePoolHash:
    """Claims with a hash of another version are stamped anew; those that have drifted keep their state."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queue = context.queue("nodepool.hash", self.reconcile, of=NodePool)
        context.state.subscribe(self.notice, NodePool)

    def notice(self, kind: type[Object], _: str, old: Object | None, new: Object | None) -> None:
        """Follow new specs of pools."""
        same = old is not None and new is not None and old.metadata.generation == new.metadata.generation
        if kind is NodePool and new is not None and not same:
            self.queue.add(new.key)

    async def reconcile(self, key: str) -> int | None:
        """Stamp the pool, and its claims if the way of hashing changed."""
        state, client = self._context.state, self._context.client
        pool = state.get(NodePool, key)
        if pool is None or pool.deleting:
            return None
        annotations = pool.metadata.annotations
        stamp = {labels.NODEPOOL_HASH: pool_hash(pool), labels.NODEPOOL_HASH_VERSION: HASH_VERSION}
        merge = {"metadata": {"annotations": stamp}}
        if annotations.get(labels.NODEPOOL_HASH_VERSION) != HASH_VERSION:
            for claim in state.all(NodeClaim):
                if claim.metadata.labels.get(labels.NODEPOOL) == key and _stale(claim):
                    await client.patch(NodeClaim, claim.metadata.name, merge=merge)
        if any(annotations.get(name) != value for name, value in stamp.items()):
            await client.patch(NodePool, key, merge=merge)
        return None


def _stale(claim: NodeClaim) -> bool:
    version = claim.metadata.annotations.get(labels.NODEPOOL_HASH_VERSION)
    return version != HASH_VERSION and not is_true(claim.status.conditions, "Drifted")
