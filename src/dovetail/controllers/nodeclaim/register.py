"""Matching a node to its claim, and waiting until the registered node can take pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from dovetail.api.codec import encode
from dovetail.api.core import Node, Taint
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Condition, OwnerReference, is_true
from dovetail.base.errors import Conflict
from dovetail.cluster.nodes import is_ephemeral
from dovetail.cluster.state import State
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.consistency import FOUND, shortfalls
from dovetail.controllers.nodeclaim.status import (
    INITIALIZED,
    LAUNCHED,
    NOT_FOUND,
    REBOOTING,
    REGISTERED,
    write,
)
from dovetail.model import labels
from dovetail.model.taints import same_taint, taint_text


async def initialize(context: Context, claim: NodeClaim, node: Node | None) -> NodeClaim:
    """The claim, initialized once nothing is missing; else its condition says what is.

    `node` is its node, where it is known better than from the watches.
    """
    conditions = claim.status.conditions
    settled = is_true(conditions, INITIALIZED) or is_true(conditions, REBOOTING)
    if settled or not is_true(conditions, REGISTERED):
        return claim
    node = node or context.state.node_of(claim)
    lacks = waiting(context.state, node, claim)
    if lacks is not None:
        return await write(context, claim, lacks)
    if node is not None and labels.INITIALIZED not in node.metadata.labels:
        merge = {"metadata": {"labels": {labels.INITIALIZED: "true"}}}
        await context.client.patch(Node, node.metadata.name, merge=merge)
    # Of a node that has less than was bought `Consistency` tells.
    whole = node is not None and not any(shortfalls(claim, node))
    ready = Condition(type=INITIALIZED, status="True")
    return await write(context, claim, ready, *((FOUND,) if whole else ()))


def waiting(state: State, node: Node | None, claim: NodeClaim) -> Condition | None:
    """The condition that says what is missing, None if nothing is."""
    reason, message = NOT_FOUND if node is None else missing(node, claim, state.unpublished(claim, node))
    return Condition(type=INITIALIZED, status="Unknown", reason=reason, message=message) if reason else None


def missing(node: Node, claim: NodeClaim, driver: str) -> tuple[str, str]:
    """Reason and message of what the node still lacks, the first in the order of checks; empty if nothing.

    `driver` has not published its devices there yet; "" for none. Pure.
    """
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
    if driver:
        return (
            "DRADriverPoolsNotPublished",
            f'DRA driver "{driver}" has not published a complete resource pool',
        )
    return "", ""


def lacks_only_opening(state: State, node: Node | None, claim: NodeClaim) -> bool:
    """True iff nothing but the taint OPENING keeps the registered node from being initialized."""
    if node is None or OPENING not in node.spec.taints or labels.REGISTERED not in node.metadata.labels:
        return False
    others = tuple(taint for taint in node.spec.taints if taint != OPENING)
    opened = replace(node, spec=replace(node.spec, taints=others))
    return not missing(opened, claim, state.unpublished(claim, node))[0]


_MULTIPLE = ("MultipleNodesFound", "Invariant violated, matched multiple nodes")
_TAINT_MISSING = (
    "Missing karpenter.sh/unregistered taint which prevents registration related race conditions"
    " on Karpenter-managed nodes"
)


# Whether the node of a claim gets the taint OPENING, which goes once its pods are nominated to it.
Held = Callable[[NodeClaim, Node], bool]
OPENING = Taint(key=labels.OPENING_TAINT, effect="NoSchedule")


async def register(context: Context, claim: NodeClaim, held: Held) -> tuple[NodeClaim, Node | None]:
    """The claim, registered once its node is there, and that node as it was written, if it was.

    Raises Conflict when others change the node meanwhile.
    """
    done = is_true(claim.status.conditions, REGISTERED)
    if done or not is_true(claim.status.conditions, LAUNCHED):
        return claim, None
    nodes = context.state.nodes_of(claim)
    if not nodes:
        return await write(context, claim, unregistered(*NOT_FOUND)), None
    if len(nodes) > 1:
        reason, message = _MULTIPLE
        failed = Condition(type=REGISTERED, status="False", reason=reason, message=message)
        return await write(context, claim, failed), None
    claim = await _placed(context, claim)
    node = await _mark(context, nodes[0], claim, held)
    found = Condition(type=REGISTERED, status="True")
    # What the node still lacks is written with it: each write takes its turn at the API server.
    also = (lacks,) if (lacks := waiting(context.state, node, claim)) is not None else ()
    return await write(context, claim, found, *also, fields={"nodeName": node.metadata.name}), node


async def _placed(context: Context, claim: NodeClaim) -> NodeClaim:
    """The claim with the partition of its placement group in its labels, which its node gets from it.

    EC2 alone knows which it chose, and pods that are spread over them must not come before. Raises CloudError
    and Conflict.
    """
    meta = claim.metadata
    if labels.PLACEMENT_GROUP not in meta.labels or labels.PARTITION in meta.labels:
        return claim
    instance = await context.provider.get(claim.status.provider_id)
    found = instance.labels.get(labels.PARTITION)
    if found is None:  # groups of other strategies have none
        return claim
    merge = {"metadata": {"resourceVersion": meta.resource_version, "labels": {labels.PARTITION: found}}}
    return await context.client.patch(NodeClaim, meta.name, merge=merge)


async def _mark(context: Context, node: Node, claim: NodeClaim, held: Held) -> Node:
    """The node, made the claim's. Raises Conflict.

    Kubelets write to new nodes: one that changed since it was seen is read, and tried once more.
    """
    name = node.metadata.name
    if labels.REGISTERED not in node.metadata.labels and not _awaits_registration(node):
        await context.recorder.publish(claim, "Warning", "UnregisteredTaintMissing", _TAINT_MISSING)
    hold = held(claim, node)
    try:
        return await context.client.patch(Node, name, merge=registration(node, claim, hold=hold))
    except Conflict:
        latest = await context.read(Node, name)
        return await context.client.patch(Node, name, merge=registration(latest, claim, hold=hold))


def registration(node: Node, claim: NodeClaim, *, hold: bool = False) -> dict[str, Any]:
    """The merge patch that makes a node the claim's; bound to the version of the node."""
    meta = node.metadata
    owner = OwnerReference(
        api_version=claim.API_VERSION,
        kind=claim.KIND,
        name=claim.metadata.name,
        uid=claim.metadata.uid,
        block_owner_deletion=True,
    )
    others = [item for item in meta.owner_references if item.uid != claim.metadata.uid]
    finalizers = dict.fromkeys((*meta.finalizers, labels.TERMINATION_FINALIZER))
    return {
        "metadata": {
            "resourceVersion": meta.resource_version,
            "labels": {**claim.metadata.labels, labels.REGISTERED: "true"},
            "annotations": dict(claim.metadata.annotations),
            "finalizers": list(finalizers),
            "ownerReferences": [encode(item) for item in (*others, owner)],
        },
        "spec": {"taints": [encode(taint) for taint in _taints(node, claim, hold=hold)]},
    }


def _taints(node: Node, claim: NodeClaim, *, hold: bool) -> list[Taint]:
    """The node's own, and the claim's where the kubelet does not register with them itself."""
    taints = list(node.spec.taints)
    # One that is registered was held already, and may be open: the answer to that write was lost.
    if hold and labels.REGISTERED not in node.metadata.labels and OPENING not in taints:
        taints.append(OPENING)
    if node.metadata.labels.get(labels.DO_NOT_SYNC_TAINTS) != "true":
        for wanted in (*claim.spec.taints, *claim.spec.startup_taints):
            if not any(same_taint(wanted, taint) for taint in taints):
                taints.append(wanted)
    return [taint for taint in taints if taint.key != labels.UNREGISTERED_TAINT]


def _awaits_registration(node: Node) -> bool:
    return any(taint.key == labels.UNREGISTERED_TAINT for taint in node.spec.taints)


def unregistered(reason: str, message: str) -> Condition:
    """The condition of a claim whose node is not there yet."""
    return Condition(type=REGISTERED, status="Unknown", reason=reason, message=message)
