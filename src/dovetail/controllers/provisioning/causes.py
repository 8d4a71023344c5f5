"""Why a pod is not where the plan put it. Pure.

The scheduler says of nodes only in sum why they do not suit a pod, so this is read from the node as it is
when the pod goes elsewhere: what keeps the pod off it now, else what may have done so when its turn came.
"""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.api.core import Node, Pod
from dovetail.model import labels
from dovetail.model.resources import amounts, fits, pod_requests, subtract, total
from dovetail.model.taints import PREFER_NO_SCHEDULE, tolerates

SCORE = "score"  # another node was as good for the scheduler, or better
ORDER = "order"  # pods whose turn came before had taken the room
PRIORITY = "priority"  # pods of a higher priority had
SPREAD = "spread"  # a topology spread constraint, as things stood when its turn came
AFFINITY = "affinity"  # a rule about other pods, as things stood
TAINT = "taint"  # its node was not up yet
OTHER = "other"


def open_to(pod: Pod, node: Node) -> bool:
    """True iff no taint keeps the pod off the node."""
    return all(
        taint.effect == PREFER_NO_SCHEDULE or any(tolerates(one, taint) for one in pod.spec.tolerations)
        for taint in node.spec.taints
    )


def leans_on(pod: Pod) -> set[str]:
    """Labels on which it hangs where the pod may go: on which values of these have nodes."""
    affinity = pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None
    keys = {term.topology_key for term in affinity.required} if affinity else set[str]()
    rules = [one for one in pod.spec.topology_spread_constraints if one.when_unsatisfiable == "DoNotSchedule"]
    return keys | {rule.topology_key for rule in rules if rule.topology_key != labels.HOSTNAME}


def leans(pod: Pod) -> bool:
    """True iff where the pod may go hangs on which zones, or whatever it names, have nodes."""
    return bool(leans_on(pod))


def cause(pod: Pod, node: Node | None, there: Iterable[Pod]) -> str:
    """Why the pod is not on the node that was meant for it, on which there are those pods; None: no node yet.

    Where nothing keeps it off, a rule that it must obey was in the way: the scheduler counts pods that are
    only nominated as if they were there. Without such a rule the scheduler went by its scores.
    """
    if node is None or not open_to(pod, node):
        return TAINT
    others = tuple(there)
    room = subtract(amounts(node.status.allocatable), total(map(pod_requests, others)))
    if not fits(pod_requests(pod), room):
        above = any(other.spec.priority > pod.spec.priority for other in others)
        return PRIORITY if above else ORDER
    if any(rule.when_unsatisfiable == "DoNotSchedule" for rule in pod.spec.topology_spread_constraints):
        return SPREAD
    affinity = pod.spec.affinity
    rules = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ()
    return AFFINITY if any(rule is not None and rule.required for rule in rules) else SCORE
