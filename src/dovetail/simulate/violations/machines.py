"""Rules on nodes, claims and instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dovetail.api.core import Node, Pod, Taint
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import condition, is_true
from dovetail.cloud.provider import Instance
from dovetail.model import labels
from dovetail.simulate.violations.mirror import Change, Mirror, owned_by, ready
from dovetail.simulate.violations.pods import CLOCKS_APART, left_behind, settled
from dovetail.units.timestamp import parse_rfc3339
from dovetail.verify import Violation

_REASON = "DisruptionReason"
_TERMINATING = "InstanceTerminating"


def finalized(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """A node may go only once its pods have, while it is up and time is left. Called before `apply`."""
    found = change.of(Node)
    if found is None:
        return
    node, old = found
    if old is None or labels.TERMINATION_FINALIZER not in old.metadata.finalizers:
        return
    if node is not None and labels.TERMINATION_FINALIZER in node.metadata.finalizers:
        return
    if old.spec.provider_id in mirror.ended or not ready(old) or _out_of_time(mirror, old, change.now):
        return
    view = mirror.view.nodes.get(old.key)
    stay = sorted(key for key, facts in (view.pods if view else {}).items() if left_behind(facts.pod))
    if stay:
        message = f"its finalizer went while {', '.join(stay)} were still there"
        yield Violation("finalizer", old.key, message)


def abandoned(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """Nodes and claims are let go only after their instance is. Called before `apply`."""
    new, old = change.new, change.old
    if not isinstance(old, Node | NodeClaim) or labels.TERMINATION_FINALIZER not in old.metadata.finalizers:
        return
    if new is not None and labels.TERMINATION_FINALIZER in new.metadata.finalizers:
        return
    provider_id = old.spec.provider_id if isinstance(old, Node) else old.status.provider_id
    if provider_id and provider_id not in mirror.ended:
        yield Violation(
            "abandoned instance", old.key, f"its finalizer went while {provider_id} was still there"
        )


def emptied(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """What is disrupted as empty has long had no pod that would have to move. Called before `apply`."""
    claim = _became(change, _REASON)
    if claim is None or _stated(claim) != "Empty":
        return
    node = mirror.node_of(claim)
    found = settled(mirror, node, change.now) if node is not None else []
    stay = [key for key in found if _moves(mirror.pods[key])]
    if stay:
        yield Violation("not empty", claim.key, f"is disrupted as empty while {', '.join(stay)} are there")


def terminated(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """An instance is ended only once its pods have left, while it is up and time is left."""
    claim = _became(change, _TERMINATING)
    node = mirror.node_of(claim) if claim is not None else None
    if claim is None or node is None or claim.status.provider_id in mirror.ended:
        return
    if not ready(node) or _out_of_time(mirror, node, change.now + CLOCKS_APART):
        return
    stay = settled(mirror, node, change.now)
    if stay:
        message = f"its instance is ended while {', '.join(stay)} are still there"
        yield Violation("ended with pods", node.key, message)


def _became(change: Change, kind: str) -> NodeClaim | None:
    """The claim, if the change gives it this condition."""
    found = change.of(NodeClaim)
    new, old = found if found is not None else (None, None)
    if new is None or not is_true(new.status.conditions, kind):
        return None
    return None if old is not None and is_true(old.status.conditions, kind) else new


def _moves(pod: Pod) -> bool:
    """True iff the pod counts where a node is looked at for being empty."""
    costs = {labels.DISRUPTION_COST, labels.POD_DELETION_COST}
    return not owned_by(pod, "DaemonSet") and costs.isdisjoint(pod.metadata.annotations)


def _stated(claim: NodeClaim) -> str:
    found = condition(claim.status.conditions, _REASON)
    return found.reason if found is not None else ""


def registered(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """A registered node carries the labels and taints of its claim. Called before `apply`."""
    found = change.of(Node)
    if found is None:
        return
    node, old = found
    if node is None or labels.REGISTERED not in node.metadata.labels:
        return
    if old is not None and labels.REGISTERED in old.metadata.labels:
        return
    claim = mirror.claim_of(node)
    if claim is None:
        return
    for key, value in sorted(claim.metadata.labels.items()):
        if node.metadata.labels.get(key) != value:
            yield Violation("registration", node.key, f"lacks the label {key}={value} of its claim")
    if node.metadata.labels.get(labels.DO_NOT_SYNC_TAINTS) == "true":
        return
    there = {_identity(item) for item in node.spec.taints}
    for taint in claim.spec.taints:
        if _identity(taint) not in there:
            message = f"lacks the taint {taint.key}:{taint.effect} of its claim"
            yield Violation("registration", node.key, message)


def launched_twice(claim: str, instances: Sequence[Instance]) -> Iterator[Violation]:
    """A claim has one instance: none is launched for it while another of it runs."""
    there = sorted(item.provider_id for item in instances if item.claim == claim and not item.terminating)
    if there:
        yield Violation(
            "launched twice", claim, f"another instance is asked for while {there[0]} runs for it"
        )


def _identity(taint: Taint) -> tuple[str, str, str]:
    return taint.key, taint.value, taint.effect


def _out_of_time(mirror: Mirror, node: Node, now: int) -> bool:
    claim = mirror.claim_of(node)
    text = claim.metadata.annotations.get(labels.TERMINATION_TIMESTAMP, "") if claim else ""
    return bool(text) and now >= parse_rfc3339(text)


@dataclass(slots=True)
class Pairing:
    """Claims without an instance, instances without a claim: how long each has been so."""

    patience: int  # nanoseconds that either may last
    since: dict[str, int] = field(default_factory=dict)  # subject -> when it was first seen alone
    reported: set[str] = field(default_factory=set)

    def look(self, mirror: Mirror, instances: Sequence[Instance], now: int) -> Iterator[Violation]:
        """Compare what the cloud runs with what the API server holds."""
        alone = dict(_alone(mirror, instances))
        self.since = {subject: self.since.get(subject, now) for subject in alone}
        for subject, message in sorted(alone.items()):
            if now - self.since[subject] > self.patience and subject not in self.reported:
                self.reported.add(subject)
                yield Violation("pairing", subject, message)


def _alone(mirror: Mirror, instances: Sequence[Instance]) -> Iterator[tuple[str, str]]:
    running = {item.provider_id for item in instances}
    claimed = {claim.status.provider_id for claim in mirror.claims.values()}
    for item in instances:
        starting = item.claim in mirror.claims and not mirror.claims[item.claim].status.provider_id
        if item.claim and not item.terminating and item.provider_id not in claimed and not starting:
            yield item.provider_id, f"runs for {item.claim}, but no claim knows it"
    for name, claim in mirror.claims.items():
        if _gone(claim, running):
            yield name, "has no instance"


def _gone(claim: NodeClaim, running: set[str]) -> bool:
    return claim.status.provider_id not in running
