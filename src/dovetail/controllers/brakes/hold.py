"""Nodes that would have to be ended by force now, and are kept for a while."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import MINUTE
from dovetail.controllers.context import Context
from dovetail.model import labels

HELD_POLL = MINUTE
_TTL = 15 * MINUTE


async def held(context: Context, claim: NodeClaim, reason: str) -> bool:
    """True iff a pause or the forceful budget keeps the claim for now; an event on it says so."""
    name = claim.metadata.labels.get(labels.NODEPOOL, "")
    if context.brakes.disruption_paused(context.state.get(NodePool, name)):
        why = "disruption is paused"
    else:
        why = context.brakes.force_refused(claim)
    if not why:
        # The next one may be asked about before this one's end is seen.
        context.state.mark((claim.metadata.name,))
        return False
    message = f"NodeClaim is {reason}, but {why}"
    await context.recorder.publish(
        claim, "Normal", "DisruptionBlocked", message, dedupe=(claim.metadata.uid, why), ttl=_TTL
    )
    return True
