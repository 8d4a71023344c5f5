"""NodeOverlays, behind the gate of that name: all of them are evaluated together, and judged."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, condition
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.errors import ApiError, NotFound
from dovetail.cluster.problem import pool_labels
from dovetail.controllers.conditions import READY, Conditions, Stamp, document, set_condition, set_ready
from dovetail.controllers.context import Context
from dovetail.model.overlays import Supply, Verdict, evaluate

PERIOD = 6 * HOUR
RETRY = 10 * SECOND  # while a pool has no types, as before its class is resolved
PATIENCE = MINUTE  # that long verdicts wait for such a pool; a class is resolved within seconds
VALIDATION = "ValidationSucceeded"
_ALL = "all"


class NodeOverlays:
    """Evaluates after each change of an overlay, a pool or a class, and every 6 h.

    `tells` is False in observe mode: no verdict is written.
    """

    def __init__(self, context: Context, *, tells: bool = True) -> None:
        self._context = context
        self._tells = tells
        # What was evaluated last: nothing else comes of the same.
        self._given: tuple[tuple[NodeOverlay, ...], list[Supply]] | None = None
        self._waits: int | None = None  # since when verdicts wait
        self.queue = context.queue("nodeoverlay", self.reconcile, concurrency=1)
        context.state.subscribe(self._notice, NodeOverlay, NodePool, NodeClass)
        self._evaluate()  # before anything is bought
        self.queue.add(_ALL)

    def _notice(self, kind: type[Object], _: str, old: Object | None, new: Object | None) -> None:
        """Classes also when their status changed: what they select decides which types there are."""
        kept = old is not None and new is not None and old.metadata.generation == new.metadata.generation
        if issubclass(kind, NodeClass) or not kept:
            self.queue.add(_ALL)

    async def reconcile(self, _: str) -> int | None:
        """Evaluate, and write the verdicts where they changed."""
        left_out = self._evaluate()
        if self._early(left_out):
            return RETRY
        verdicts = self._context.overlays.found.verdicts
        refused: ApiError | None = None
        for overlay in self._context.state.all(NodeOverlay) if self._tells else ():
            if not overlay.deleting:
                try:
                    await self._write(overlay, verdicts[overlay.metadata.name])
                except NotFound:
                    pass
                except ApiError as error:  # the others are judged all the same
                    refused = error
        if refused is not None:
            raise refused
        return RETRY if left_out else PERIOD

    def _early(self, left_out: list[NodePool]) -> bool:
        """True while a pool is about to have types: a verdict without it would soon be another.

        So it is after each start. Nothing is waited for that is known not to become ready.
        """
        now, state = self._context.clock.monotonic(), self._context.state
        ready = (condition(pool.status.conditions, READY) for pool in left_out)
        if state.watch_synced() and all(one is not None and one.status == "False" for one in ready):
            self._waits = None
            return False
        self._waits = now if self._waits is None else self._waits
        return now - self._waits < PATIENCE

    def _evaluate(self) -> list[NodePool]:
        """The pools that have no types: they are left out, and buy nothing until they have some."""
        context = self._context
        pools = context.state.all(NodePool)
        supplies = [Supply(pool.metadata.name, pool_labels(pool), context.sold(pool)) for pool in pools]
        known = [supply for supply in supplies if supply.types]
        left_out = [pool for pool, supply in zip(pools, supplies, strict=True) if not supply.types]
        given = context.state.all(NodeOverlay), known
        if given == self._given:
            return left_out
        self._given = given
        found = evaluate(*given)
        if found != context.overlays.found:
            context.overlays.swap(found)
            context.state.outdate()
        return left_out

    async def _write(self, overlay: NodeOverlay, verdict: Verdict) -> None:
        """Raises NotFound."""
        stamp = Stamp(self._context.clock.now(), overlay.metadata.generation)
        conditions = judged(overlay.status.conditions, verdict, stamp)
        if conditions != overlay.status.conditions:
            merge = {
                "metadata": {"resourceVersion": overlay.metadata.resource_version},
                "status": {"conditions": document(conditions)},
            }
            await self._context.client.patch(NodeOverlay, overlay.metadata.name, merge=merge, status=True)


def judged(conditions: Conditions, verdict: Verdict, stamp: Stamp) -> Conditions:
    """The conditions with the verdict in place. Pure."""
    status = "False" if verdict.reason else "True"
    found = set_condition(
        conditions, VALIDATION, status, stamp, reason=verdict.reason, message=verdict.message
    )
    return set_ready(found, (VALIDATION,), stamp)
