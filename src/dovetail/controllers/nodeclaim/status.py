"""Conditions of a NodeClaim: their names, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Condition, condition
from dovetail.controllers.conditions import Conditions, Stamp, document, set_condition, set_ready, without
from dovetail.controllers.context import Context
from dovetail.controllers.transitions import describe, moved
from dovetail.units.timestamp import parse_rfc3339

LAUNCHED = "Launched"
REGISTERED = "Registered"
INITIALIZED = "Initialized"
DRAINED = "Drained"
VOLUMES_DETACHED = "VolumesDetached"
INSTANCE_TERMINATING = "InstanceTerminating"
DISRUPTION_REASON = "DisruptionReason"
REBOOTING = "Rebooting"
ROOT = (LAUNCHED, REGISTERED, INITIALIZED)  # Ready follows from these
NOT_FOUND = ("NodeNotFound", "Node not registered with cluster")

_LONGEST_TEXT = 1024


def cut(text: str) -> str:
    """An error's text as conditions and events hold it: at most 1024 characters, then an ellipsis."""
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "..."


def status_of(claim: NodeClaim, kind: str) -> str:
    """The status of a condition; Unknown where it is absent."""
    found = condition(claim.status.conditions, kind)
    return found.status if found is not None else "Unknown"


def since(claim: NodeClaim, kind: str) -> int:
    """The instant of a condition's last transition; the claim's creation where it is absent."""
    found = condition(claim.status.conditions, kind)
    text = found.last_transition_time if found is not None else ""
    return parse_rfc3339(text or claim.metadata.creation_timestamp)


async def write(
    context: Context,
    claim: NodeClaim,
    *wanted: Condition,
    fields: Mapping[str, Any] | None = None,
    drop: str = "",
) -> NodeClaim:
    """Set conditions and other status fields, and drop the condition of that type; answers the claim as
    stored. Writes only what differs.

    The conditions list is bound to the version that was read: raises Conflict when others were faster.
    """
    stamp = Stamp(context.clock.now(), claim.metadata.generation)
    old = claim.status.conditions
    new: Conditions = without(old, drop)
    for one in wanted:
        new = set_condition(new, one.type, one.status, stamp, reason=one.reason, message=one.message)
    new = set_ready(new, ROOT, stamp)
    if new == old and not fields:
        return claim
    merge = {
        "metadata": {"resourceVersion": claim.metadata.resource_version},
        "status": {**(fields or {}), "conditions": document(new)},
    }
    stored = await context.client.patch(NodeClaim, claim.metadata.name, merge=merge, status=True)
    await _report(context, stored, old, new)
    return stored


async def _report(context: Context, claim: NodeClaim, old: Conditions, new: Conditions) -> None:
    """One event per transition; an absent condition counts as Unknown."""
    for item in new:
        if moved(item, old):
            dedupe = (claim.metadata.uid, item.status)
            await context.recorder.publish(claim, "Normal", item.type, describe(item, old), dedupe=dedupe)
