"""The count of claims that were ended before their time, by why and how."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.disrupt.pods import reschedulable
from dovetail.model import labels

_LABELS = ("reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode")
CLAIMS = Metric(
    "karpenter_nodeclaims_disrupted_total",
    "counter",
    "NodeClaims that were ended for a reason other than a user's wish.",
    _LABELS,
)
PODS = Metric(
    "karpenter_pods_disruption_initiated_total",
    "counter",
    "Pods that had to move because their node was ended.",
    _LABELS,
)
UNHEALTHY = Metric(
    "karpenter_nodeclaims_unhealthy_disrupted_total",
    "counter",
    "NodeClaims that were ended because their node stayed unhealthy.",
    ("condition", "nodepool", "capacity_type", "image_id", "termination_mode"),
)
ALL = (CLAIMS, PODS, UNHEALTHY)

_REMEMBERED = 10_000  # claims that were counted

# Ways to end a node: with every consent, with a limit to the wait, and at once.
GRACEFUL, EVENTUAL, FORCEFUL = "graceful", "eventual", "forceful"
# Why a claim is given up whose launch was refused, or that took too long.
NO_CAPACITY, CLASS_NOT_READY = "insufficient_capacity", "nodeclass_not_ready"
LAUNCH_TOO_LONG, REGISTRATION_TOO_LONG = "launch_timeout", "registration_timeout"


def count_disrupted(context: Context, claim: NodeClaim, reason: str, mode: str) -> None:
    """The claim is being ended now; call it while its pods are still there. Once more, it does not count."""
    if not _first(context, claim):
        return
    series = _series(context, claim, reason, mode)
    node = context.state.node_of(claim)
    name = node.metadata.name if node is not None else ""
    pods = [pod for pod in context.state.pods_on(name) if reschedulable(pod)] if name else []
    context.metrics.add(CLAIMS, **series)
    context.metrics.add(PODS, len(pods), **series)
    context.log.record(
        "disrupted",
        claim=claim.metadata.name,
        node=name,
        pool=series["nodepool"],
        reason=reason,
        mode=mode,
        pods=len(pods),
        moved={pod.key: pod.metadata.managed_by() for pod in pods},
    )


def count_unhealthy(context: Context, claim: NodeClaim, condition: str, mode: str) -> None:
    """Its node is past help, by that condition, and the claim is being ended for it now."""
    context.metrics.add(
        UNHEALTHY,
        condition=condition,
        nodepool=claim.metadata.labels.get(labels.NODEPOOL, ""),
        capacity_type=claim.metadata.labels.get(labels.CAPACITY_TYPE, ""),
        image_id=claim.status.image_id,
        termination_mode=mode,
    )


def count_given_up(context: Context, claim: NodeClaim, reason: str) -> None:
    """The claim is given up before it has a node: no pod has to move. Once more, it does not count."""
    if _first(context, claim):
        context.metrics.add(CLAIMS, **_series(context, claim, reason, FORCEFUL))


def _first(context: Context, claim: NodeClaim) -> bool:
    """True iff the claim has not been counted; from now on it has."""
    if claim.metadata.uid in context.ended:
        return False
    context.ended[claim.metadata.uid] = None
    if len(context.ended) > _REMEMBERED:
        del context.ended[next(iter(context.ended))]
    return True


def _series(context: Context, claim: NodeClaim, reason: str, mode: str) -> dict[str, str]:
    pool = claim.metadata.labels.get(labels.NODEPOOL, "")
    found = context.state.get(NodePool, pool)
    return {
        "reason": reason,
        "nodepool": pool,
        "capacity_type": claim.metadata.labels.get(labels.CAPACITY_TYPE, ""),
        "consolidation_policy": found.spec.disruption.consolidation_policy if found is not None else "",
        "termination_mode": mode,
    }
