"""What must have come right some time after the last fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import condition, is_true
from dovetail.model import labels
from dovetail.simulate.violations.mirror import Mirror
from dovetail.simulate.violations.pods import left_behind
from dovetail.solve.verify import Violation
from dovetail.units.timestamp import parse_rfc3339

PATIENCE = 20 * 60 * 1_000_000_000  # ns after the last fault, or after the object's own beginning


@dataclass(frozen=True, slots=True)
class Ending:
    """The moment of the verdict. Instants in nanoseconds."""

    now: int
    quiet_from: int  # when the last fault was over
    hopeless: frozenset[str]  # pods that no node could be bought for

    def overdue(self, since: str) -> bool:
        """True iff what began at that time (RFC 3339; "" if unknown) has had all the time it may take."""
        return bool(since) and self.now - max(self.quiet_from, parse_rfc3339(since)) > PATIENCE


def left_over(mirror: Mirror, end: Ending) -> Iterator[Violation]:
    """Pods without a node, claims without one, and what never ends: objects and commands."""
    yield from _waiting(mirror, end)
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
        if node.deleting:
            yield from _unending(mirror, end, node)


def _begun(claim: NodeClaim) -> str:
    """When a command took the claim's node, if one has it."""
    found = condition(claim.status.conditions, "DisruptionReason")
    return found.last_transition_time if found is not None and found.status == "True" else ""


def _waiting(mirror: Mirror, end: Ending) -> Iterator[Violation]:
    for key, pod in sorted(mirror.pods.items()):
        waits = not (pod.spec.node_name or pod.deleting or pod.terminal or pod.spec.scheduling_gates)
        if waits and key not in end.hopeless and end.overdue(pod.metadata.creation_timestamp):
            yield Violation("unbound pod", key, "still has no node, long after the last fault")


def _unending(mirror: Mirror, end: Ending, item: Node | NodeClaim) -> Iterator[Violation]:
    """A deletion that takes too long, unless pods hold it up that have all the time they like."""
    if labels.TERMINATION_FINALIZER not in item.metadata.finalizers:
        return
    if not end.overdue(item.metadata.deletion_timestamp):
        return
    node = item if isinstance(item, Node) else mirror.node_of(item)
    claim = item if isinstance(item, NodeClaim) else mirror.claim_of(item)
    view = mirror.view.nodes.get(node.key) if node is not None else None
    stay = [key for key, facts in sorted((view.pods if view else {}).items()) if left_behind(facts.pod)]
    patient = claim is None or claim.spec.termination_grace_period is None
    if not (stay and patient):
        yield Violation("finalizer", item.key, f"{item.KIND} is being deleted and never ends")
