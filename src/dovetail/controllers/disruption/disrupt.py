"""The disruption loop: propose, wait, validate, taint, delete."""

from __future__ import annotations

from dovetail.api.codec import encode
from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Condition, condition
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, Conflict, NotFound
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.consolidatable import remove_condition
from dovetail.controllers.disruption.methods import Method
from dovetail.controllers.disruption.views import Prices, node_views
from dovetail.controllers.nodeclaim.status import DISRUPTION_REASON, write
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import Command, Note
from dovetail.disrupt.pods import DISRUPTED

POLL = 10 * SECOND
UNSYNCED_POLL = SECOND
VALIDATION_DELAY = 15 * SECOND
TIMES = {"Unconsolidatable": 15 * MINUTE, "DisruptionBlocked": 2 * MINUTE}
POOL_BLOCKED_TTL = MINUTE


class Disruption:
    """Asks the methods in order every 10 s, at once again after one acted; not while unsynced."""

    def __init__(self, context: Context, methods: tuple[Method, ...]) -> None:
        self._context = context
        self._methods = methods
        self._prices = Prices()
        # Claims that a command has taken: from its execution until they are deleting.
        self._queued: dict[str, None] = {}

    async def run(self) -> None:
        """Disrupt for ever."""
        clock = self._context.clock
        while True:
            if not self._context.state.synced():
                await clock.sleep(UNSYNCED_POLL)
                continue
            try:
                acted = await self.turn()
            except ApiError:
                acted = False
            await clock.sleep(0 if acted else POLL)

    async def turn(self) -> bool:
        """One pass over the methods; True iff one acted."""
        await self._tidy()
        for method in self._methods:
            decision = method.decide(self._views())
            for note in decision.notes:
                await self._tell(note)
            if decision.command is None:
                continue
            await self._context.clock.sleep(VALIDATION_DELAY)
            command = method.validate(decision.command, self._views())
            if command is not None:
                await self._execute(command)
                return True
        return False

    def _views(self) -> tuple[NodeView, ...]:
        return node_views(self._context, self._queued, self._prices)

    async def _tidy(self) -> None:
        """Undo what a command left behind on nodes that no command has taken, such as after a restart."""
        state = self._context.state
        for claim in state.all(NodeClaim):
            name = claim.metadata.name
            if claim.deleting:
                self._queued.pop(name, None)
            if claim.deleting or name in self._queued:
                continue
            node = state.node_of(claim)
            if node is not None and not node.deleting and _tainted(node):
                await self._untaint(node)
            if condition(claim.status.conditions, DISRUPTION_REASON) is not None:
                await remove_condition(self._context, claim, DISRUPTION_REASON)
        for name in [name for name in self._queued if state.get(NodeClaim, name) is None]:
            del self._queued[name]

    async def _execute(self, command: Command) -> None:
        """Taint all first, so that nothing comes; then delete the claims, whose termination does the rest."""
        self._queued.update(dict.fromkeys(view.claim.metadata.name for view in command.candidates))
        try:
            for view in command.candidates:
                await self._prepare(view, command.reason)
        except ApiError:
            # Nothing was deleted yet: the next turn takes the taints off again.
            for view in command.candidates:
                self._queued.pop(view.claim.metadata.name, None)
            raise
        self._context.state.mark(command.names())
        self._context.log.record(
            "disruption",
            reason=command.reason,
            decision="delete",
            nodes=[view.name for view in command.candidates],
            claims=[view.claim.metadata.name for view in command.candidates],
            savings=command.savings,
        )
        for view in command.candidates:
            await self._delete(view, command.reason)

    async def _prepare(self, view: NodeView, reason: str) -> None:
        client = self._context.client
        if view.node is not None:
            node = await client.get(Node, view.node.metadata.name)
            if not _tainted(node):
                await self._write_taints(
                    node, [*(encode(taint) for taint in node.spec.taints), encode(DISRUPTED)]
                )
        claim = await client.get(NodeClaim, view.claim.metadata.name)
        await write(self._context, claim, Condition(type=DISRUPTION_REASON, status="True", reason=reason))

    async def _delete(self, view: NodeView, reason: str) -> None:
        recorder, claim = self._context.recorder, view.claim
        await recorder.publish(claim, "Normal", "DisruptionTerminating", f"Disrupting NodeClaim: {reason}")
        if view.node is not None:
            text = f"Disrupting Node: {reason}"
            await recorder.publish(view.node, "Normal", "DisruptionTerminating", text)
        try:
            await self._context.client.delete(NodeClaim, claim.metadata.name, uid=claim.metadata.uid)
        except (NotFound, Conflict):
            self._context.state.unmark((claim.metadata.name, view.name))

    async def _untaint(self, node: Node) -> None:
        kept = [encode(taint) for taint in node.spec.taints if taint.key != DISRUPTED.key]
        await self._write_taints(node, kept)

    async def _write_taints(self, node: Node, taints: list[object]) -> None:
        merge = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": taints},
        }
        await self._context.client.patch(Node, node.metadata.name, merge=merge)

    async def _tell(self, note: Note) -> None:
        state, recorder = self._context.state, self._context.recorder
        if note.on_pool:
            pool = state.get(NodePool, note.subject)
            if pool is not None:
                await recorder.publish(pool, "Normal", note.reason, note.message, ttl=POOL_BLOCKED_TTL)
            return
        claim = state.get(NodeClaim, note.subject)
        if claim is None:
            return
        ttl = TIMES[note.reason]
        await recorder.publish(claim, "Normal", note.reason, note.message, ttl=ttl)
        node = state.node_of(claim)
        if node is not None:
            await recorder.publish(node, "Normal", note.reason, note.message, ttl=ttl)


def _tainted(node: Node) -> bool:
    return any(taint.key == DISRUPTED.key for taint in node.spec.taints)
