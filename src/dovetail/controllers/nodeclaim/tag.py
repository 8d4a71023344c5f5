"""Instances that say in the cloud which claim and which node they are."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object, is_true
from dovetail.base.clock import SECOND
from dovetail.base.errors import InstanceNotFound, NotFound
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.status import REGISTERED
from dovetail.controllers.reconciler import failure_log

# Names can wait: what launches and ends instances has the cloud's patience first.
PAUSE = SECOND


class NodeClaimTagging:
    """Once a node registered, its instance is marked; one a second, and each once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._marked: set[str] = set()  # uids
        self.queue = context.queue(
            "nodeclaim.tagging",
            self.reconcile,
            of=NodeClaim,
            concurrency=1,
            on_failure=failure_log(context.log),
        )
        context.state.subscribe(self._notice, NodeClaim)

    def _notice(self, _: type[Object], __: str, old: Object | None, new: Object | None) -> None:
        if isinstance(new, NodeClaim):
            if new.metadata.uid not in self._marked and is_true(new.status.conditions, REGISTERED):
                self.queue.add(new.key)
        elif isinstance(old, NodeClaim):
            self._marked.discard(old.metadata.uid)

    async def reconcile(self, name: str) -> None:
        """Mark the claim's instance, and note on the claim that it is marked."""
        context = self._context
        claim = context.state.get(NodeClaim, name)
        if claim is None or claim.deleting or claim.metadata.uid in self._marked:
            return
        try:
            noted = await context.provider.machines.mark(claim, claim.status.node_name)
            if noted:
                merge = {"metadata": {"annotations": dict(noted)}}
                await context.client.patch(NodeClaim, name, merge=merge)
                await context.clock.sleep(PAUSE)
        except (InstanceNotFound, NotFound):
            return  # others see to it that the claim goes
        present = context.state.get(NodeClaim, name)
        if present is not None and present.metadata.uid == claim.metadata.uid:  # else it has gone meanwhile
            self._marked.add(claim.metadata.uid)
