"""The end of a NodeClaim: its nodes first, then its instance, then the finalizer."""

from __future__ import annotations

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Condition, is_true
from dovetail.base.clock import SECOND
from dovetail.base.errors import InstanceNotFound, NotFound
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.status import INSTANCE_TERMINATING, REGISTERED, write
from dovetail.model import labels
from dovetail.units.duration import parse_duration
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

POLL = 5 * SECOND


async def terminate(context: Context, claim: NodeClaim, provider_id: str) -> int | None:
    """Bring a deleted claim nearer to its end; answers when to look again, None once it is over."""
    if labels.TERMINATION_FINALIZER not in claim.metadata.finalizers:
        return None
    claim = await _stamp_deadline(context, claim)
    if is_true(claim.status.conditions, REGISTERED):
        nodes = await _nodes(context, claim)
        for node in nodes:
            if not node.deleting:
                await context.client.delete(Node, node.metadata.name, uid=node.metadata.uid)
        if nodes:
            return POLL
    if provider_id and not await instance_gone(context, provider_id):
        await write(context, claim, Condition(type=INSTANCE_TERMINATING, status="True"))
        return POLL
    await drop_finalizer(context, claim)
    return None


def waits_for_nodes(context: Context, claim: NodeClaim) -> bool:
    """True iff `terminate` has nothing to do for the claim, as far as the watches show, but to wait for its
    nodes: all of them are being deleted, and by when their pods must be gone is written.
    """
    held = labels.TERMINATION_FINALIZER in claim.metadata.finalizers
    if not held or not is_true(claim.status.conditions, REGISTERED):
        return False
    if claim.spec.termination_grace_period is not None and deadline(claim) is None:
        return False
    nodes = context.state.nodes_of(claim)
    return bool(nodes) and all(node.deleting for node in nodes)


async def instance_gone(context: Context, provider_id: str) -> bool:
    """Ask for the instance's termination; True once it is over."""
    try:
        await context.provider.delete(provider_id)
    except InstanceNotFound:
        return True
    return False


async def drop_finalizer(context: Context, obj: NodeClaim | Node) -> None:
    """Let the object go, and say so."""
    finalizer = labels.TERMINATION_FINALIZER
    meta = obj.metadata
    kept = [item for item in meta.finalizers if item != finalizer]
    merge = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": kept}}
    await context.client.patch(type(obj), meta.name, merge=merge)
    await context.recorder.publish(obj, "Normal", "Finalized", f"Finalized {finalizer}")


async def end_by_force(context: Context, claim: NodeClaim) -> None:
    """Delete the claim, and give its pods no more time: neither budgets nor do-not-disrupt are asked."""
    try:
        await limit_drain(context, claim, 0)
        await context.client.delete(NodeClaim, claim.metadata.name, uid=claim.metadata.uid)
    except NotFound:
        return  # it was ended already


async def limit_drain(context: Context, claim: NodeClaim, bound: int) -> None:
    """Its pods must be gone so long (ns) from now at the latest; a sooner deadline stays. Raises NotFound."""
    end, limit = context.clock.now() + bound, deadline(claim)
    if limit is None or limit > end:
        stamp = {labels.TERMINATION_TIMESTAMP: to_rfc3339(end)}
        merge = {"metadata": {"uid": claim.metadata.uid, "annotations": stamp}}
        await context.client.patch(NodeClaim, claim.metadata.name, merge=merge)


def deadline(claim: NodeClaim) -> int | None:
    """The instant by which all pods of the claim's node must be gone; None without a limit."""
    text = claim.metadata.annotations.get(labels.TERMINATION_TIMESTAMP, "")
    try:
        return parse_rfc3339(text) if text else None
    except ValueError:
        return None  # another text was written there: it limits nothing


async def _stamp_deadline(context: Context, claim: NodeClaim) -> NodeClaim:
    """Write the termination timestamp once: restarts and later changes must not move it."""
    period = claim.spec.termination_grace_period
    if period is None or labels.TERMINATION_TIMESTAMP in claim.metadata.annotations:
        return claim
    instant = parse_rfc3339(claim.metadata.deletion_timestamp) + parse_duration(period)
    merge = {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: to_rfc3339(instant)}}}
    return await context.client.patch(NodeClaim, claim.metadata.name, merge=merge)


async def _nodes(context: Context, claim: NodeClaim) -> list[Node]:
    """Every node of the claim, as the API server has them now."""
    known = [node.metadata.name for node in context.state.nodes_of(claim)]
    found: list[Node] = []
    for name in dict.fromkeys((*known, claim.status.node_name)):
        try:
            node = await context.read(Node, name)
        except NotFound:
            continue
        if node.spec.provider_id == claim.status.provider_id:
            found.append(node)
    return found
