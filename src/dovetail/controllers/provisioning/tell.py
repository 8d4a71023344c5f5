"""What pods are told: where they are to run, or why nowhere."""

from __future__ import annotations

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE
from dovetail.controllers.context import Context

FAILED_SCHEDULING_TTL = 5 * MINUTE


async def nominate(context: Context, pods: tuple[str, ...], name: str) -> None:
    """Tell the pods where to expect to run; `name` is a node's or, before it comes up, a claim's."""
    state = context.state
    state.nominate(name)
    node = state.get(Node, name)
    claim = state.claim_of(node) if node is not None else state.get(NodeClaim, name)
    places = []
    if claim is not None:
        places.append(f"nodeclaim/{claim.metadata.name}")
    if node is not None:
        places.append(f"node/{node.metadata.name}")
    for key in pods:
        context.log.record(
            "nominated",
            pod=key,
            claim=claim.metadata.name if claim else "",
            node=node.metadata.name if node else "",
        )
        pod = state.get(Pod, key)
        if pod is not None:
            if not pod.spec.node_name:
                state.promise(pod, name)
            message = f"Pod should schedule on: {', '.join(places)}"
            await context.recorder.publish(pod, "Normal", "Nominated", message)


async def failed(context: Context, key: str, reason: str) -> None:
    """Tell the pod, if it is still there, why no plan has a place for it."""
    pod = context.state.get(Pod, key)
    if pod is None:
        return
    message = f"Failed to schedule pod, {reason}"
    await context.recorder.publish(pod, "Warning", "FailedScheduling", message, ttl=FAILED_SCHEDULING_TTL)
