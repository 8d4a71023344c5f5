"""Rules on shares of on-demand capacity: who passes the gate as what, and what is left in the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.api.core import NodeSelectorTerm, Pod
from dovetail.base.clock import SECOND
from dovetail.model import labels
from dovetail.simulate.violations.mirror import Change, Mirror, owned_by
from dovetail.verify import Violation

# A pod that is gone may be known so much later: late watches and slow calls included.
_SEEN = 15 * SECOND


def passed(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """A pod passes the gate free to run on spot only where enough others stay off it. Called after `apply`.

    Of two leaders that act at once neither can know which pod the other one has just told, and
    which has just gone may not be known yet: such a share is mended later.
    """
    found = change.of(Pod)
    pod, old = found or (None, None)
    if pod is None or old is None or not _gated(old) or _gated(pod) or mirror.several():
        return
    if change.now - mirror.shrunk.get(_maker(pod), -_SEEN) < _SEEN:
        return
    if not _per_node(pod) and not _off_spot(pod) and (short := lacking(_siblings(mirror, pod))):
        yield Violation("on-demand share", pod.key, f"may run on spot though {short} more must not")


def left(mirror: Mirror) -> Iterator[tuple[Sequence[Pod], int]]:
    """Pods of each controller, all of which were told at the gate and run, and how many are short of a node
    off spot.
    """
    made: dict[str, list[Pod]] = {}
    for pod in mirror.pods.values():
        if labels.ON_DEMAND_SHARE in pod.metadata.annotations and not pod.terminal and not _per_node(pod):
            made.setdefault(_maker(pod), []).append(pod)
    for _, pods in sorted(made.items()):
        if all(pod.spec.node_name and not pod.deleting and _told(pod) for pod in pods):
            kinds = (_paid_as(mirror, pod) for pod in pods)
            short = _wanted(pods) - sum(kind in (labels.ON_DEMAND, labels.RESERVED) for kind in kinds)
            yield pods, max(0, short)


def mends(mirror: Mirror, pod: Pod) -> bool:
    """True iff the pod may be evicted from a node that stays, so that another comes that is held."""
    return _told(pod) and not _off_spot(pod) and lacking(_siblings(mirror, pod)) > 0


def lacking(pods: Sequence[Pod]) -> int:
    """How many more of them must be kept off spot."""
    return max(0, _wanted(pods) - sum(map(_off_spot, pods)))


def _wanted(pods: Sequence[Pod]) -> int:
    """By what they say, as `N`, `P%` or `N + P%`; 0 where that is not understood."""
    text = pods[0].metadata.annotations.get(labels.ON_DEMAND_SHARE, "") if pods else ""
    base, percent = 0, 0
    for part in text.split("+"):
        number = part.strip()
        if not number.removesuffix("%").isdecimal() or len(number) > 8:
            return 0
        if number.endswith("%"):
            percent = int(number[:-1])
        else:
            base = int(number)
    first = min(base, len(pods))
    return min(len(pods), first + -(-(len(pods) - first) * percent // 100))


def _siblings(mirror: Mirror, pod: Pod) -> list[Pod]:
    maker, namespace = _maker(pod), pod.metadata.namespace
    return [
        one
        for one in mirror.pods.values()
        if one.metadata.namespace == namespace
        and labels.ON_DEMAND_SHARE in one.metadata.annotations
        and _maker(one) == maker
        and not (_gated(one) or one.deleting or one.terminal)
    ]


def _maker(pod: Pod) -> str:
    owner = pod.metadata.controller()
    return owner.uid if owner is not None else pod.metadata.uid


def _per_node(pod: Pod) -> bool:
    return owned_by(pod, "DaemonSet") or owned_by(pod, "Node")


def _gated(pod: Pod) -> bool:
    return any(gate.name == labels.ON_DEMAND_SHARE for gate in pod.spec.scheduling_gates)


def _told(pod: Pod) -> bool:
    return labels.OFF_SPOT in pod.metadata.annotations and not _gated(pod)


def _off_spot(pod: Pod) -> bool:
    """True iff its own rules keep it off spot: by its selector, or in every alternative of its affinity."""
    if pod.spec.node_selector.get(labels.CAPACITY_TYPE, labels.SPOT) != labels.SPOT:
        return True
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    terms = affinity.required.node_selector_terms if affinity is not None and affinity.required else ()
    return bool(terms) and all(map(_excludes_spot, terms))


def _excludes_spot(term: NodeSelectorTerm) -> bool:
    if not term.match_expressions and not term.match_fields:
        return True  # it matches no node
    return any(
        one.key == labels.CAPACITY_TYPE
        and (labels.SPOT in one.values) == (one.operator == "NotIn")
        and one.operator in ("In", "NotIn")
        for one in term.match_expressions
    )


def _paid_as(mirror: Mirror, pod: Pod) -> str:
    node = mirror.nodes.get(pod.spec.node_name)
    return labels.capacity_type(node.metadata.labels) if node is not None else ""
