"""EC2NodeClass readiness: what its selectors resolve to, as status and conditions."""

from __future__ import annotations

from contextlib import suppress

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.base.clock import MINUTE
from dovetail.base.errors import NotFound
from dovetail.controllers.conditions import Stamp, document
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclass.judge import judge, status

FINALIZER = "karpenter.k8s.aws/termination"
PERIOD = MINUTE
WAITING_TTL = 10 * MINUTE


class NodeClassReadiness:
    """Resolves each class on every change and once a minute; holds its finalizer while claims use it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queue = context.queue("nodeclass", self.reconcile, of=EC2NodeClass)
        context.state.subscribe(self.notice)

    def notice(self, kind: type[Object], _: str, old: Object | None, new: Object | None) -> None:
        """Follow changes of classes, and claims that go away."""
        if kind is EC2NodeClass and new is not None:
            # A deletion counts the generation up as well.
            if old is None or old.metadata.generation != new.metadata.generation:
                self.queue.add(new.key)
        elif isinstance(old, EC2NodeClass):
            self._context.provider.forget(old.metadata.name)
        elif isinstance(old, NodeClaim) and new is None:
            self.queue.add(old.spec.node_class_ref.name)

    async def reconcile(self, key: str) -> int | None:
        """Bring status and finalizer up to date."""
        node_class = self._context.state.get(EC2NodeClass, key)
        if node_class is None:
            return None
        if node_class.deleting:
            return await self._terminate(node_class)
        client = self._context.client
        if FINALIZER not in node_class.metadata.finalizers:
            await client.patch(
                EC2NodeClass,
                key,
                merge={"metadata": {"finalizers": [*node_class.metadata.finalizers, FINALIZER]}},
            )
        resolution = await self._context.provider.resolve(node_class)
        stamp = Stamp(self._context.clock.now(), node_class.metadata.generation)
        conditions = judge(node_class, resolution, stamp)
        merge = {"status": {**status(node_class, resolution), "conditions": document(conditions)}}
        await client.patch(EC2NodeClass, key, merge=merge, status=True)
        return PERIOD

    async def _terminate(self, node_class: EC2NodeClass) -> int | None:
        name = node_class.metadata.name
        users = [
            claim.metadata.name
            for claim in self._context.state.all(NodeClaim)
            if claim.spec.node_class_ref.name == name
        ]
        if users:
            await self._context.recorder.publish(
                node_class,
                "Normal",
                "WaitingOnNodeClaimTermination",
                f"Waiting on NodeClaim termination for {', '.join(users)}",
                ttl=WAITING_TTL,
            )
            return WAITING_TTL
        await self._context.provider.release(node_class)
        kept = [item for item in node_class.metadata.finalizers if item != FINALIZER]
        with suppress(NotFound):
            await self._context.client.patch(EC2NodeClass, name, merge={"metadata": {"finalizers": kept}})
            await self._context.recorder.publish(node_class, "Normal", "Finalized", f"Finalized {FINALIZER}")
        return None
