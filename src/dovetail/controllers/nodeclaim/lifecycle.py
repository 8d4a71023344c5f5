"""One reconcile per NodeClaim: from its finalizer to an initialized node, and back."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.api.core import Node
from dovetail.api.devices import ResourceSlice
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object, is_true
from dovetail.base.errors import ApiError, CloudError, CreateFailed, NotFound
from dovetail.cluster.nodes import managed
from dovetail.controllers.brakes.definitions import DefinitionGuard
from dovetail.controllers.brakes.guard import HELD_POLL
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.disrupted import LAUNCH_TOO_LONG, REGISTRATION_TOO_LONG, count_given_up
from dovetail.controllers.nodeclaim.launch import Launcher
from dovetail.controllers.nodeclaim.liveness import time_left
from dovetail.controllers.nodeclaim.register import Held, initialize, register
from dovetail.controllers.nodeclaim.status import LAUNCHED, REGISTERED
from dovetail.controllers.nodeclaim.terminate import POLL, terminate, waits_for_nodes
from dovetail.controllers.reconciler import failure_log
from dovetail.kube.client import ChangeType
from dovetail.model import labels

# Called when a claim's node registered (True) or never did (False): the pool's registration health.
Outcome = Callable[[NodeClaim, bool], None]


class NodeClaimLifecycle:
    """Every step reads the API objects and writes to them alone, so a restart may happen between any two."""

    def __init__(
        self,
        context: Context,
        *,
        on_outcome: Outcome | None = None,
        held: Held = lambda _claim, _node: False,
    ) -> None:
        self._context = context
        self._launcher = Launcher(context)
        self._guard = DefinitionGuard(context)
        self._on_outcome = on_outcome
        self._held = held
        self._queue = context.queue(
            "nodeclaim.lifecycle",
            self.reconcile,
            of=NodeClaim,
            concurrency=100,
            on_failure=failure_log(context.log),
            rests=self._rests,
        )
        # What this wrote last, until the watch shows as much; and whose last turn failed: what is known of
        # these may be old.
        self._written: dict[str, NodeClaim] = {}
        self._doubtful: set[str] = set()
        context.state.subscribe(self._notice)
        context.made.subscribe(lambda claim: self._queue.add(claim.key))

    async def run(self) -> None:
        """Work for ever."""
        for claim in self._context.state.all(NodeClaim):
            self._queue.add(claim.key)
        await self._queue.run()

    def _notice(
        self,
        kind: type[Object],
        _: ChangeType,
        old: Object | None,
        new: Object | None,
    ) -> None:
        if isinstance(new, NodeClaim):
            self._queue.add(new.key)
        elif kind is NodeClaim and old is not None:
            self._written.pop(old.key, None)
            self._doubtful.discard(old.key)
        elif kind is ResourceSlice:
            self._published(*(item for item in (old, new) if isinstance(item, ResourceSlice)))
        elif kind is Node:
            for node in (old, new):
                claim = self._context.state.claim_of(node) if isinstance(node, Node) else None
                if claim is not None:
                    self._queue.add(claim.key)

    def _published(self, *slices: ResourceSlice) -> None:
        """Claims whose nodes wait for devices are looked at as these are published there."""
        for item in slices:
            node = self._context.state.get(Node, item.spec.node_name)
            claim = self._context.state.claim_of(node) if node is not None else None
            if claim is not None and labels.REQUESTED_DRIVERS in claim.metadata.annotations:
                self._queue.add(claim.key)

    def _rests(self, name: str) -> int | None:
        """A claim that goes waits for its nodes. Each write to either had both read from the API server: of
        1,018 reads while twenty nodes came and went, 468 were in vain.
        """
        claim = self._context.state.get(NodeClaim, name)
        if claim is None or not claim.deleting or name in self._doubtful:
            return None
        return POLL if waits_for_nodes(self._context, claim) else None

    async def reconcile(self, name: str) -> int | None:
        """Bring one claim forward; answers when to look again, in nanoseconds."""
        try:
            claim = await self._latest(name)
        except NotFound:
            self._doubtful.discard(name)
            return None
        if not managed(claim.spec.node_class_ref, self._context.provider.node_class_kinds):
            return None
        try:
            if claim.deleting:
                return await self._end(claim)
            return self._launcher.wait(claim) or await self._advance(await self._begin(claim))
        except (ApiError, CloudError):
            self._doubtful.add(name)
            raise

    async def _latest(self, name: str) -> NodeClaim:
        """The claim as it is known, or as the API server has it where that may be too old. Raises NotFound.

        What is written to a claim or its node is bound to the version that it is decided on, so an old copy
        costs no more than a request in vain. Buying and ending an instance are not: these look first.
        """
        known, written = self._context.state.get(NodeClaim, name), self._written.pop(name, None)
        if known is not None and written is not None and _newer(written, known):
            known = written
        if (
            known is None
            or known.deleting
            or name in self._doubtful
            or not is_true(known.status.conditions, LAUNCHED)
        ):
            known = await self._context.read(NodeClaim, name)
            self._doubtful.discard(name)
        return known

    async def _begin(self, claim: NodeClaim) -> NodeClaim:
        """The finalizer before anything that it has to clean up."""
        if labels.TERMINATION_FINALIZER in claim.metadata.finalizers:
            return claim
        merge = {
            "metadata": {
                "resourceVersion": claim.metadata.resource_version,
                "finalizers": [*claim.metadata.finalizers, labels.TERMINATION_FINALIZER],
            }
        }
        return await self._context.client.patch(NodeClaim, claim.metadata.name, merge=merge)

    async def _advance(self, claim: NodeClaim) -> int | None:
        if await self._expired(claim):
            return None
        launched = await self._launch(claim)
        if launched is None:
            return None
        claim = launched
        was_registered = is_true(claim.status.conditions, REGISTERED)
        claim, node = await register(self._context, claim, self._held)
        if not was_registered and is_true(claim.status.conditions, REGISTERED):
            self._report(claim, True)
        claim = await initialize(self._context, claim, node)
        if self._context.state.get(NodeClaim, claim.metadata.name) is not None:  # else it is gone already
            self._written[claim.metadata.name] = claim
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
        self._report(claim, False)
        await self._context.client.delete(NodeClaim, claim.metadata.name, uid=claim.metadata.uid)
        launched = is_true(claim.status.conditions, LAUNCHED)
        count_given_up(self._context, claim, REGISTRATION_TOO_LONG if launched else LAUNCH_TOO_LONG)
        return True

    def _report(self, claim: NodeClaim, registered: bool) -> None:
        if self._on_outcome is not None:
            self._on_outcome(claim, registered)

    async def _end(self, claim: NodeClaim) -> int | None:
        if await self._guard.holds(claim):
            return HELD_POLL
        again = await terminate(self._context, claim, await self._launcher.instance_of(claim))
        if again is None:
            self._launcher.forget(claim)
        return again


def _newer(one: NodeClaim, other: NodeClaim) -> bool:
    """True iff it is a later version of the same claim."""
    if one.metadata.uid != other.metadata.uid:
        return False
    return int(one.metadata.resource_version) > int(other.metadata.resource_version)
