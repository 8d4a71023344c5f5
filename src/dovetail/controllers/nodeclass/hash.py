"""Stamps node classes and their claims with the hash of the class."""

from __future__ import annotations

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.fingerprint import CLASS_HASH_VERSION, class_hash
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object, is_true
from dovetail.controllers.context import Context
from dovetail.model import labels


class NodeClassHash:
    """Claims with a hash of another version are stamped anew; those that have drifted keep their state."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queue = context.queue("nodeclass.hash", self.reconcile, of=EC2NodeClass)
        context.state.subscribe(self.notice, EC2NodeClass)

    def notice(self, kind: type[Object], _: str, old: Object | None, new: Object | None) -> None:
        """Follow new specs of classes."""
        same = old is not None and new is not None and old.metadata.generation == new.metadata.generation
        if kind is EC2NodeClass and new is not None and not same:
            self.queue.add(new.key)

    async def reconcile(self, key: str) -> int | None:
        """Stamp the class, and its claims if the way of hashing changed."""
        state, client = self._context.state, self._context.client
        node_class = state.get(EC2NodeClass, key)
        if node_class is None or node_class.deleting:
            return None
        digest = class_hash(node_class)
        stamp = {
            "metadata": {
                "annotations": {
                    labels.NODECLASS_HASH: digest,
                    labels.NODECLASS_HASH_VERSION: CLASS_HASH_VERSION,
                }
            }
        }
        if node_class.metadata.annotations.get(labels.NODECLASS_HASH_VERSION) != CLASS_HASH_VERSION:
            for claim in state.all(NodeClaim):
                if claim.spec.node_class_ref.name == key and _stale(claim):
                    await client.patch(NodeClaim, claim.metadata.name, merge=stamp)
        if node_class.metadata.annotations.get(labels.NODECLASS_HASH) != digest:
            await client.patch(EC2NodeClass, key, merge=stamp)
        return None


def _stale(claim: NodeClaim) -> bool:
    version = claim.metadata.annotations.get(labels.NODECLASS_HASH_VERSION)
    return version != CLASS_HASH_VERSION and not is_true(claim.status.conditions, "Drifted")
