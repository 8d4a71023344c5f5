"""Which pods Dovetail buys nodes for, and why it ignores the others. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dovetail.api.core import NodeSelectorTerm, Pod
from dovetail.api.karpenter.runtime import restricted, restriction
from dovetail.api.meta import condition
from dovetail.disrupt.pods import Budgets, do_not_disrupt, owned_by, reschedulable
from dovetail.model import labels
from dovetail.model.left_out import left_out
from dovetail.model.volumes import ONE_POD, VolumeIndex, exclusive_claims

NOT_FOR_US = (
    "configured to not run on a Karpenter provisioned node (requirement=karpenter.sh/nodepool DoesNotExist)"
)
MATCH_FIELDS = "node selector term with matchFields is not supported"


def provisionable(pod: Pod) -> bool:
    """True iff the scheduler found no node for the pod and waits for one.

    Pods that it has not looked at yet, that are gated, that preempt others, or that belong to a DaemonSet or
    to a node (mirror pods) are not.
    """
    scheduled = condition(pod.status.conditions, "PodScheduled")
    return (
        scheduled is not None
        and scheduled.status == "False"
        and scheduled.reason == "Unschedulable"
        and waits(pod)
    )


def waits(pod: Pod) -> bool:
    """True iff the pod is without a node, or others that go for it, and may have one."""
    return (
        not pod.spec.node_name
        and not evicts(pod)
        and not pod.terminal
        and not pod.deleting
        and not owned_by(pod, "DaemonSet")
        and not owned_by(pod, "Node")
    )


def evicts(pod: Pod) -> bool:
    """True iff the scheduler itself nominated the pod to a node, where it evicts others for it."""
    nominated = pod.status.nominated_node_name
    return bool(nominated) and pod.metadata.annotations.get(labels.NOMINATED) != nominated


def opted_out(pod: Pod) -> bool:
    """True iff every alternative of the pod's required node affinity keeps it off nodes of any pool."""
    terms = _required_terms(pod)
    return bool(terms) and all(
        any(
            item.key == labels.NODEPOOL and item.operator == "DoesNotExist" for item in term.match_expressions
        )
        for term in terms
    )


def ignored(pod: Pod, volumes: VolumeIndex, *, devices: bool = False) -> str:
    """Why the pod is left out of every plan; "" for a pod that is not. `devices`: plans know of some."""
    if opted_out(pod):
        return NOT_FOR_US
    return "; ".join(
        reason for reason in (*_selector_faults(pod), left_out(pod, volumes, devices=devices)) if reason
    )


class InUse:
    """Claims that one pod at a time may use (ReadWriteOncePod), and by which pod each is used, if it is.

    A node that is bought for another one stays empty, goes, and is bought again. `pods` are those that may
    use some; they are looked through once the first pod asks that has such a claim.
    """

    def __init__(self, volumes: VolumeIndex, pods: Callable[[], Iterable[Pod]]) -> None:
        self._volumes = volumes
        self._pods = pods
        self._users: dict[str, str] | None = None  # by the claim's key

    def refuses(self, pod: Pod) -> str:
        """Why the pod waits for another one; "" if it does not: then its claims are its own from now on."""
        wanted = exclusive_claims(pod, self._volumes)
        if not wanted:
            return ""
        if self._users is None:
            using = (one for one in self._pods() if one.spec.volumes and not (one.terminal or one.deleting))
            self._users = {key: one.key for one in using for key in exclusive_claims(one, self._volumes)}
        for claim in sorted(wanted):
            user = self._users.get(claim, pod.key)
            if user != pod.key:
                return f"persistentvolumeclaim {claim} ({ONE_POD}) is in use by pod {user}"
        self._users |= dict.fromkeys(wanted, pod.key)
        return ""


def moves_with_node(pod: Pod, budgets: Budgets, now: int) -> bool:
    """True iff the pod of a node that is going away needs a place elsewhere now (`now` in nanoseconds).

    Pods that may not be evicted yet stay where they are, and nothing is bought for them.
    """
    if not reschedulable(pod):
        return False
    return not do_not_disrupt(pod, now) and not budgets.block_fully(pod)


def _selector_faults(pod: Pod) -> Iterator[str]:
    for key in sorted(pod.spec.node_selector):
        if restricted(key):
            yield restriction(key)
    for term in _required_terms(pod):
        if term.match_fields:
            yield MATCH_FIELDS
        for item in term.match_expressions:
            if item.key != labels.NODEPOOL and restricted(item.key):
                yield restriction(item.key)


def _required_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return affinity.required.node_selector_terms if affinity and affinity.required else ()
