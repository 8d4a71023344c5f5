"""What must have come right some time after the last fault."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.runtime import restricted
from dovetail.api.meta import condition, is_true
from dovetail.base.clock import MINUTE
from dovetail.model import labels
from dovetail.model.filters import Placement
from dovetail.model.left_out import left_out
from dovetail.simulate.violations.mirror import Mirror, owned_by
from dovetail.simulate.violations.pods import left_behind, protected, to_schedule
from dovetail.simulate.violations.shares import left
from dovetail.units.timestamp import parse_rfc3339
from dovetail.verify import Violation

PATIENCE = 20 * MINUTE  # after the last fault, or after the object's own beginning


@dataclass(frozen=True, slots=True)
class Ending:
    """The moment of the verdict. Instants in nanoseconds."""

    now: int
    quiet_from: int  # when the last fault was over
    hopeless: Set[str]  # pods that no node could be bought for when they were last planned
    patience: int = PATIENCE
    gangs: bool = True  # nodes are bought for enough of a gang or for none

    def overdue(self, since: str) -> bool:
        """True iff what began at that time (RFC 3339; "" if unknown) has had all the time it may take."""
        return bool(since) and self.now - max(self.quiet_from, parse_rfc3339(since)) > self.patience


def left_over(mirror: Mirror, end: Ending) -> Iterator[Violation]:
    """Pods without a node, claims without one, and what never ends: objects and commands."""
    yield from _waiting(mirror, end)
    yield from _shares(mirror, end)
    for key, claim in sorted(mirror.claims.items()):
        if claim.deleting:
            yield from _unending(mirror, end, claim)
        elif not is_true(claim.status.conditions, "Registered") and end.overdue(
            claim.metadata.creation_timestamp
        ):
            yield Violation("claim left over", key, "has neither become a node nor been given up")
        elif end.overdue(_begun(claim)):
            yield Violation("disruption left over", key, "was to go, and neither goes nor is let be")
    for _, node in sorted(mirror.nodes.items()):
        yield from _unending(mirror, end, node)


def _shares(mirror: Mirror, end: Ending) -> Iterator[Violation]:
    """Controllers whose pods run on too few nodes off spot, unless what could go may not be evicted."""
    for pods, short in left(mirror):
        kept = any(protected(pod, end.now) or pod.metadata.namespace in _guarded(mirror) for pod in pods)
        if short and not kept and all(end.overdue(pod.metadata.creation_timestamp) for pod in pods):
            yield Violation("on-demand share", pods[0].key, f"{short} more of {len(pods)} must be off spot")


def _guarded(mirror: Mirror) -> Set[str]:
    return {budget.metadata.namespace for budget in mirror.budgets.values()}


def _begun(claim: NodeClaim) -> str:
    """When a command took the claim's node, if one has it."""
    found = condition(claim.status.conditions, "DisruptionReason")
    return found.last_transition_time if found is not None and found.status == "True" else ""


def _waiting(mirror: Mirror, end: Ending) -> Iterator[Violation]:
    for key, pod in sorted(mirror.pods.items()):
        hopeless = key in end.hopeless or _beyond_help(pod, mirror)
        if not end.gangs and not hopeless:  # nodes that were bought for some of them are of no use
            group, mates = mirror.mates(pod)
            hopeless = group is not None and sum(bool(one.spec.node_name) for one in mates) < group.minimum
        if to_schedule(pod) and not hopeless and end.overdue(pod.metadata.creation_timestamp):
            yield Violation("unbound pod", key, "still has no node, long after the last fault")


def _beyond_help(pod: Pod, mirror: Mirror) -> bool:
    """True iff no plan is made for such pods: daemons, and those whose users get a message that says so; or
    the pod waits for a claim that another one uses.
    """
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    needed = affinity.required if affinity is not None else None
    terms = needed.node_selector_terms if needed is not None else ()
    named = [*pod.spec.node_selector, *(one.key for term in terms for one in term.match_expressions)]
    restrictions = any(restricted(key) for key in named)
    fields = any(term.match_fields for term in terms)
    if owned_by(pod, "DaemonSet") or restrictions or fields or left_out(pod, mirror.view.volumes):
        return True
    return Placement(pod, mirror.view).held


def _unending(mirror: Mirror, end: Ending, item: Node | NodeClaim) -> Iterator[Violation]:
    """A deletion that takes too long, unless pods hold it up that have all the time they like.

    What is not being deleted is never overdue.
    """
    if labels.TERMINATION_FINALIZER not in item.metadata.finalizers:
        return
    if not end.overdue(item.metadata.deletion_timestamp):
        return
    node = item if isinstance(item, Node) else mirror.node_of(item)
    claim = item if isinstance(item, NodeClaim) else mirror.claim_of(item)
    view = mirror.view.nodes.get(node.key) if node is not None else None
    stay = any(left_behind(facts.pod) for facts in view.pods.values()) if view is not None else False
    patient = claim is None or claim.spec.termination_grace_period is None
    if not (stay and patient):
        yield Violation("finalizer", item.key, f"{item.KIND} is being deleted and never ends")
