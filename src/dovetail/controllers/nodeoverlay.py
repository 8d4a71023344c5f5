"""NodeOverlays, behind the gate of that name: all of them are evaluated together, and judged."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.base.clock import HOUR, SECOND
from dovetail.base.errors import ApiError, NotFound
from dovetail.cluster.problem import pool_labels
from dovetail.controllers.conditions import Conditions, Stamp, document, set_condition, set_ready
from dovetail.controllers.context import Context
from dovetail.model.overlays import Supply, Verdict, evaluate

PERIOD = 6 * HOUR
RETRY = 10 * SECOND  # while a pool has no types, as before its class is resolved
VALIDATION = "ValidationSucceeded"
_ALL = "all"


class NodeOverlays:
    """Evaluates after each change of an overlay, a pool or a class, and every 6 h.

    `tells` is False for who only looks: no verdict is written.
    """

    def __init__(self, context: Context, *, tells: bool = True) -> None:
        self._context = context
        self._tells = tells
        # What was evaluated last: nothing else comes of the same.
        self._given: tuple[tuple[NodeOverlay, ...], list[Supply]] | None = None
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
        whole = self._evaluate()
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
        return PERIOD if whole else RETRY

    def _evaluate(self) -> bool:
        """False where a pool has no types: it is left out, and buys nothing until it has some."""
        context = self._context
        pools = context.state.all(NodePool)
        supplies = [Supply(pool.metadata.name, pool_labels(pool), context.sold(pool)) for pool in pools]
        known = [supply for supply in supplies if supply.types]
        given = context.state.all(NodeOverlay), known
        if given == self._given:
            return len(known) == len(supplies)
        self._given = given
        found = evaluate(*given)
        if found != context.overlays.found:
            context.overlays.swap(found)
            context.state.outdate()
        return len(known) == len(supplies)

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
