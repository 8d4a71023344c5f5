"""Waiting until a registered node can take pods."""

from __future__ import annotations

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Condition, is_true
from dovetail.cluster.nodes import is_ephemeral
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.register import NOT_FOUND
from dovetail.controllers.nodeclaim.status import INITIALIZED, REGISTERED, write
from dovetail.model import labels
from dovetail.model.taints import same_taint, taint_text


async def initialize(context: Context, claim: NodeClaim) -> NodeClaim:
    """The claim, initialized once nothing is missing; else its condition says what is."""
    done = is_true(claim.status.conditions, INITIALIZED)
    if done or not is_true(claim.status.conditions, REGISTERED):
        return claim
    nodes = context.state.nodes_of(claim)
    reason, message = missing(nodes[0], claim) if nodes else NOT_FOUND
    if reason:
        waiting = Condition(type=INITIALIZED, status="Unknown", reason=reason, message=message)
        return await write(context, claim, waiting)
    merge = {"metadata": {"labels": {labels.INITIALIZED: "true"}}}
    await context.client.patch(Node, nodes[0].metadata.name, merge=merge)
    return await write(context, claim, Condition(type=INITIALIZED, status="True"))


def missing(node: Node, claim: NodeClaim) -> tuple[str, str]:
    """Reason and message of what the node still lacks, the first in the order of checks; empty if nothing."""
    if not is_true(node.status.conditions, "Ready"):
        return "NodeNotReady", "Node status is NotReady"
    for startup in claim.spec.startup_taints:
        if any(same_taint(startup, taint) for taint in node.spec.taints):
            return "StartupTaintsExist", f'StartupTaint "{taint_text(startup)}" still exists'
    for taint in node.spec.taints:
        if is_ephemeral(taint):
            return "KnownEphemeralTaintsExist", f'KnownEphemeralTaint "{taint_text(taint)}" still exists'
    for name, wanted in sorted(claim.spec.resources.requests.items()):
        there = node.status.allocatable.get(name)
        if wanted.nanos and (there is None or there.nanos == 0):
            return "ResourceNotRegistered", f'Resource "{name}" was requested but not registered'
    return "", ""
