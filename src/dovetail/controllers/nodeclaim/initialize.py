"""Waiting until a registered node can take pods."""

from __future__ import annotations

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Condition, is_true
from dovetail.cluster.nodes import is_ephemeral
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.status import INITIALIZED, NOT_FOUND, REGISTERED, write
from dovetail.model import labels
from dovetail.model.taints import same_taint, taint_text


async def initialize(context: Context, claim: NodeClaim, node: Node | None) -> NodeClaim:
    """The claim, initialized once nothing is missing; else its condition says what is.

    `node` is its node, where it is known better than from the watches.
    """
    done = is_true(claim.status.conditions, INITIALIZED)
    if done or not is_true(claim.status.conditions, REGISTERED):
        return claim
    node = node or context.state.node_of(claim)
    lacks = waiting(node, claim)
    if lacks is not None:
        return await write(context, claim, lacks)
    if node is not None and labels.INITIALIZED not in node.metadata.labels:
        merge = {"metadata": {"labels": {labels.INITIALIZED: "true"}}}
        await context.client.patch(Node, node.metadata.name, merge=merge)
    return await write(context, claim, Condition(type=INITIALIZED, status="True"))


def waiting(node: Node | None, claim: NodeClaim) -> Condition | None:
    """The condition that says what is missing, None if nothing is. Pure."""
    reason, message = missing(node, claim) if node is not None else NOT_FOUND
    return Condition(type=INITIALIZED, status="Unknown", reason=reason, message=message) if reason else None


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
