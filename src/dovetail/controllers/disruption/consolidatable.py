"""The Consolidatable condition: the node has been quiet for its pool's consolidateAfter."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Condition, Object, condition, is_true
from dovetail.base.clock import MINUTE
from dovetail.base.errors import NotFound
from dovetail.controllers.conditions import document, without
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.status import INITIALIZED, write
from dovetail.model import labels
from dovetail.units.duration import parse_nillable
from dovetail.units.timestamp import parse_rfc3339

CONSOLIDATABLE = "Consolidatable"
PERIOD = 5 * MINUTE


class Consolidatable:
    """Sets the condition when the quiet time is over, removes it when a pod event begins it anew."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queue = context.queue("nodeclaim.disruption", self.reconcile, of=NodeClaim, rests=self._rests)
        context.state.subscribe(self.notice)

    def notice(self, _: type[Object], __: str, old: Object | None, new: Object | None) -> None:
        """Follow claims, and pools whose settings changed."""
        if isinstance(new, NodeClaim):
            self.queue.add(new.key)
        elif isinstance(new, NodePool) and isinstance(old, NodePool):
            if new.spec.disruption.consolidate_after == old.spec.disruption.consolidate_after:
                return
            for claim in self._context.state.all(NodeClaim):
                if claim.metadata.labels.get(labels.NODEPOOL) == new.metadata.name:
                    self.queue.add(claim.key)

    def _rests(self, key: str) -> int | None:
        """A claim that is quiet and says so stays that way until something about it changes."""
        claim = self._context.state.get(NodeClaim, key)
        if claim is None or claim.deleting or not is_true(claim.status.conditions, CONSOLIDATABLE):
            return None
        pool = self._context.state.get(NodePool, claim.metadata.labels.get(labels.NODEPOOL, ""))
        instant = quiet_from(claim, pool)
        return PERIOD if instant is not None and self._context.clock.now() >= instant else None

    async def reconcile(self, key: str) -> int | None:
        """Bring the condition up to date; come back when the quiet time would be over."""
        claim = self._context.state.get(NodeClaim, key)
        if claim is None or claim.deleting:
            return None
        pool = self._context.state.get(NodePool, claim.metadata.labels.get(labels.NODEPOOL, ""))
        instant = quiet_from(claim, pool)
        now = self._context.clock.now()
        present = is_true(claim.status.conditions, CONSOLIDATABLE)
        if instant is not None and now >= instant:
            if not present:
                await write(self._context, claim, Condition(type=CONSOLIDATABLE, status="True"))
            return PERIOD
        if present:
            await remove_condition(self._context, claim, CONSOLIDATABLE)
        return min(PERIOD, instant - now) if instant is not None else None


def quiet_from(claim: NodeClaim, pool: NodePool | None) -> int | None:
    """From which instant on the node counts as quiet (nanoseconds); None for never. Pure."""
    if pool is None or not is_true(claim.status.conditions, INITIALIZED):
        return None
    after = parse_nillable(pool.spec.disruption.consolidate_after)
    if after is None:
        return None
    initialized = condition(claim.status.conditions, INITIALIZED)
    text = claim.status.last_pod_event_time or (initialized.last_transition_time if initialized else "")
    return parse_rfc3339(text) + after if text else None


async def remove_condition(context: Context, claim: NodeClaim, kind: str) -> None:
    """Take a condition off a claim. Raises Conflict when the claim changed meanwhile."""
    merge = {
        "metadata": {"resourceVersion": claim.metadata.resource_version},
        "status": {"conditions": document(without(claim.status.conditions, kind))},
    }
    try:
        await context.client.patch(NodeClaim, claim.metadata.name, merge=merge, status=True)
    except NotFound:
        return
