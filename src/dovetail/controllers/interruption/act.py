"""What each kind of interruption means for a claim and its node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.errors import NotFound
from dovetail.cloud.interruption import InterruptionKind
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.disrupted import GRACEFUL, count_disrupted


@dataclass(frozen=True, slots=True)
class _Meaning:
    """The event that tells of it, and whether the node has to go."""

    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Warning"
    ends: bool = True


_STOPPING = _Meaning("InstanceStopping", "Instance is stopping")
_TERMINATING = _Meaning("InstanceTerminating", "Instance is terminating")
UNHEALTHY = _Meaning("InstanceUnhealthy", "An unhealthy warning was triggered for the instance")
_MEANINGS = {
    InterruptionKind.SPOT: _Meaning("SpotInterrupted", "Spot interruption warning was triggered"),
    InterruptionKind.REBALANCE: _Meaning(
        "SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered", "Normal", ends=False
    ),
    InterruptionKind.SCHEDULED_CHANGE: UNHEALTHY,
    InterruptionKind.STOPPED: _STOPPING,
    InterruptionKind.TERMINATED: _TERMINATING,
    InterruptionKind.RESERVATION: _Meaning(
        "CapacityReservationInstanceInterrupted", "Capacity Reservation interruption warning was triggered"
    ),
}
_CAPACITY_IS_SHORT = (InterruptionKind.SPOT, InterruptionKind.RESERVATION)


async def act(context: Context, claim: NodeClaim, kind: InterruptionKind) -> None:
    """Tell of the interruption, avoid that capacity for now, and drain the node while there is time."""
    meaning = _MEANINGS[kind]
    await tell(context, claim, meaning)
    if kind in _CAPACITY_IS_SHORT:
        context.provider.out_of_capacity(claim)
    if meaning.ends and not claim.deleting:
        count_disrupted(context, claim, kind, GRACEFUL)
        await tell_end(context, claim)
        try:
            await context.client.delete(NodeClaim, claim.metadata.name, uid=claim.metadata.uid)
        except NotFound:
            return  # it went by itself


async def tell(context: Context, claim: NodeClaim, meaning: _Meaning) -> None:
    """The event, on the claim and on its node."""
    for obj in _both(context, claim):
        await context.recorder.publish(obj, meaning.type, meaning.reason, meaning.message)


async def tell_end(context: Context, claim: NodeClaim) -> None:
    """The claim and its node go because of what the cloud said."""
    for obj in _both(context, claim):
        message = f"Interruption triggered termination for the {obj.KIND}"
        await context.recorder.publish(obj, "Warning", "TerminatingOnInterruption", message)


def _both(context: Context, claim: NodeClaim) -> tuple[NodeClaim | Node, ...]:
    node = context.state.node_of(claim)
    return (claim,) if node is None else (claim, node)
