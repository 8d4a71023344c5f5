"""The last step of a command: its nodes go, and it is told and counted once."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.disrupted import EVENTUAL, GRACEFUL, count_disrupted
from dovetail.disrupt.candidates import NodeView


async def tell_end(context: Context, view: NodeView, reason: str) -> None:
    """The node goes now, for that reason."""
    claim, publish = view.claim, context.recorder.publish
    await publish(claim, "Normal", "DisruptionTerminating", f"Disrupting NodeClaim: {reason}")
    if view.node is not None:
        await publish(view.node, "Normal", "DisruptionTerminating", f"Disrupting Node: {reason}")
    mode = EVENTUAL if claim.spec.termination_grace_period is not None else GRACEFUL
    count_disrupted(context, claim, reason.lower(), mode)


def still_there(context: Context, claim: NodeClaim) -> bool:
    """True iff the claim is there, and nobody has deleted it yet."""
    known = context.state.get(NodeClaim, claim.metadata.name)
    return known is not None and known.metadata.uid == claim.metadata.uid and not known.deleting
