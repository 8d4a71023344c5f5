"""One reconcile per NodeClaim: from its finalizer to an initialized node, and back."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object, is_true
from dovetail.base.errors import CreateFailed, NotFound
from dovetail.cluster.nodes import managed
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.initialize import initialize
from dovetail.controllers.nodeclaim.launch import Launcher
from dovetail.controllers.nodeclaim.liveness import time_left
from dovetail.controllers.nodeclaim.register import register
from dovetail.controllers.nodeclaim.status import REGISTERED, write
from dovetail.controllers.nodeclaim.terminate import terminate
from dovetail.controllers.reconciler import Reconciler, failure_log
from dovetail.kube.client import ChangeType
from dovetail.model import labels

# Told when a claim's node registered (True) or never did (False): the pool's registration health.
Outcome = Callable[[NodeClaim, bool], None]


class NodeClaimLifecycle:
    """Every step reads the API objects and writes to them alone, so a restart may happen between any two."""

    def __init__(
        self, context: Context, *, concurrency: int = 100, on_outcome: Outcome | None = None
    ) -> None:
        self._context = context
        self._launcher = Launcher(context)
        self._on_outcome = on_outcome
        self._queue = Reconciler(
            "nodeclaim.lifecycle",
            context.clock,
            self.reconcile,
            concurrency=concurrency,
            on_failure=failure_log(context.log),
        )
        context.state.subscribe(self._notice)

    async def run(self) -> None:
        """Work for ever."""
        for claim in self._context.state.all(NodeClaim):
            self._queue.add(claim.key)
        await self._queue.run()

    def _notice(
        self,
        kind: type[Object],
        change: ChangeType,
        old: Object | None,
        new: Object | None,
    ) -> None:
        if isinstance(new, NodeClaim):
            if change == "ADDED" and self._context.state.news():
                self._launcher.born(new)
            self._queue.add(new.key)
        elif kind is Node:
            for node in (old, new):
                claim = self._context.state.claim_of(node) if isinstance(node, Node) else None
                if claim is not None:
                    self._queue.add(claim.key)

    async def reconcile(self, name: str) -> int | None:
        """Bring one claim forward; answers when to look again, in nanoseconds."""
        context = self._context
        try:
            claim = await context.read(NodeClaim, name)
        except NotFound:
            return None
        if not managed(claim.spec.node_class_ref, context.provider.node_class_kinds):
            return None
        if claim.deleting:
            return await self._end(claim)
        return await self._advance(await self._begin(claim))

    async def _begin(self, claim: NodeClaim) -> NodeClaim:
        """The finalizer before anything that it has to clean up; conditions start Unknown."""
        if labels.TERMINATION_FINALIZER not in claim.metadata.finalizers:
            merge = {
                "metadata": {
                    "resourceVersion": claim.metadata.resource_version,
                    "finalizers": [*claim.metadata.finalizers, labels.TERMINATION_FINALIZER],
                }
            }
            claim = await self._context.client.patch(NodeClaim, claim.metadata.name, merge=merge)
        return await write(self._context, claim)

    async def _advance(self, claim: NodeClaim) -> int | None:
        if await self._expired(claim):
            return None
        launched = await self._launch(claim)
        if launched is None:
            return None
        claim = launched
        was_registered = is_true(claim.status.conditions, REGISTERED)
        claim = await register(self._context, claim)
        if not was_registered and is_true(claim.status.conditions, REGISTERED):
            self._tell(claim, True)
        claim = await initialize(self._context, claim)
        return time_left(claim, self._context.clock.now())

    async def _launch(self, claim: NodeClaim) -> NodeClaim | None:
        try:
            return await self._launcher.step(claim)
        except CreateFailed:
            latest = await self._context.read(NodeClaim, claim.metadata.name)
            if await self._expired(latest):
                return None
            raise

    async def _expired(self, claim: NodeClaim) -> bool:
        """Delete the claim if it has come to nothing for too long."""
        left = time_left(claim, self._context.clock.now())
        if left is None or left > 0:
            return False
        self._tell(claim, False)
        await self._context.client.delete(NodeClaim, claim.metadata.name, uid=claim.metadata.uid)
        return True

    def _tell(self, claim: NodeClaim, registered: bool) -> None:
        if self._on_outcome is not None:
            self._on_outcome(claim, registered)

    async def _end(self, claim: NodeClaim) -> int | None:
        again = await terminate(self._context, claim, await self._launcher.instance_of(claim))
        if again is None:
            self._launcher.forget(claim)
        return again
