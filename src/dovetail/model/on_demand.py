"""Shares of on-demand capacity: how many of the pods that a controller makes stay off spot. Pure.

A pod says in an annotation what share its siblings and it want, and waits at a scheduling gate of the same
name. There it is told what it is: held to on-demand, by a requirement that everything else understands (the
scheduler, plans, consolidation), or free to run on spot. Only pods that were told count, so a share holds
wherever pods happen to run, and nothing is remembered but what is written on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from dovetail.api.codec import encode
from dovetail.api.core import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, SelectorRequirement
from dovetail.api.meta import is_true
from dovetail.base.memo import by_identity
from dovetail.model import labels
from dovetail.model.requirement import pod_requirements

WHOLE = 100  # percent
_MOST = 1_000_000  # pods: more than a cluster has
_FORM = re.compile(
    r"\s*(?:(?P<base>[0-9]{1,7})\s*(?:\+\s*(?P<above>[0-9]{1,3})%)?|(?P<share>[0-9]{1,3})%)\s*"
)
VALID = 'valid are a number of pods ("2"), a share ("30%"), or both ("2 + 30%": 2, and 30% of the others)'
# What a pod that is held asks of its node. A capacity reservation is paid for, and never taken back.
_HELD = SelectorRequirement(
    key=labels.CAPACITY_TYPE, operator="In", values=(labels.ON_DEMAND, labels.RESERVED)
)
# Whose pods do not come and go one by one: each node has its own.
_PER_NODE = ("DaemonSet", "Node")


@dataclass(frozen=True, slots=True)
class Share:
    """The first `base` pods and `percent` of the others stay off spot.

    As OnDemandBaseCapacity and OnDemandPercentageAboveBaseCapacity of an Auto Scaling group, but for pods.
    """

    base: int
    percent: int

    @classmethod
    def read(cls, text: str) -> Share:
        """Raises ValueError for what is no share, saying what would be."""
        found = _FORM.fullmatch(text) if len(text) <= 32 else None
        if found is None:
            raise ValueError(f"{text[:32]!r} is no share of on-demand pods: {VALID}")
        base, percent = int(found["base"] or 0), int(found["above"] or found["share"] or 0)
        if base > _MOST or percent > WHOLE:
            raise ValueError(f"{text[:32]!r} is too much: {VALID}, up to {_MOST} pods and {WHOLE}%")
        return cls(base, percent)

    def __str__(self) -> str:
        parts = [str(self.base)] if self.base or not self.percent else []
        return " + ".join([*parts, f"{self.percent}%"] if self.percent else parts)

    def of(self, pods: int) -> int:
        """How many of so many pods stay off spot; a share is rounded up. It grows by 0 or 1 with each pod."""
        above = max(0, pods - self.base)
        return min(pods, self.base) - (-above * self.percent // WHOLE)


@dataclass(frozen=True, slots=True)
class Told:
    """What a pod is told at its gate. `turn` is its place in the order in which its controller's pods go,
    the last one first; None where nothing heeds such an order.
    """

    held: bool
    turn: int | None = None


def asks(pod: Pod) -> bool:
    """True iff the pod waits at the gate, or passed it with a share."""
    return labels.ON_DEMAND_SHARE in pod.metadata.annotations or gated(pod)


def gated(pod: Pod) -> bool:
    """True iff the pod is to be told still what it is."""
    return any(gate.name == labels.ON_DEMAND_SHARE for gate in pod.spec.scheduling_gates)


def share_of(pod: Pod) -> Share:
    """What the pod says. Raises ValueError where that is nothing, or nothing valid."""
    text = pod.metadata.annotations.get(labels.ON_DEMAND_SHARE)
    if text is None:
        raise ValueError(f"the pod has no annotation {labels.ON_DEMAND_SHARE}: {VALID}")
    return Share.read(text)


def maker_of(pod: Pod) -> str:
    """Which pods the pod is counted with: those of the same controller. One without is on its own.

    Each ReplicaSet of a Deployment counts for itself, so that a rollout ends with the share that it began
    with, whichever pods it takes away first.
    """
    owner, meta = pod.metadata.controller(), pod.metadata
    kind, name, uid = (owner.kind, owner.name, owner.uid) if owner else (Pod.KIND, meta.name, meta.uid)
    return f"{meta.namespace}/{kind}/{name}/{uid}"


@by_identity(16_384)
def held(pod: Pod) -> bool:
    """True iff no spot node takes the pod. One whose rules are not understood is not held."""
    if not pod.spec.node_selector and pod.spec.affinity is None:
        return False  # as nearly always
    try:
        alternatives = pod_requirements(pod)
    except ValueError:
        return False
    return all(not one.get(labels.CAPACITY_TYPE).has(labels.SPOT) for one in alternatives)


def passed(pod: Pod) -> bool:
    """True iff the pod was told at the gate what it is: others of its controller come through it as well."""
    return labels.OFF_SPOT in pod.metadata.annotations and not gated(pod)


def counts(pod: Pod) -> bool:
    """True iff the pod is one of those that were told, and stays."""
    return not pod.deleting and not pod.terminal and not gated(pod)


class Siblings:
    """The pods of one controller that were told what they are; `held` is how many of them stay off spot."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self.pods = 0
        self.held = 0
        self._taken: set[int] = set()
        self._next = {True: 1, False: 1}  # places below are taken, or not for such pods
        for pod in pods:
            self.add(pod)

    def add(self, pod: Pod) -> None:
        """Only one that `counts` does."""
        if counts(pod):
            self.pods += 1
            self.held += held(pod)
            if (turn := turn_of(pod)) is not None:
                self._taken.add(turn)

    def lacks(self, share: Share) -> int:
        """How many more would have to be held."""
        return max(0, share.of(self.pods) - self.held)

    def tell(self, pod: Pod, share: Share) -> Told:
        """What the gated pod, which comes to these, is told.

        One that keeps off spot by itself counts as held; it is told nothing new.
        """
        owner = pod.metadata.controller()
        if (owner is not None and owner.kind in _PER_NODE) or held(pod):
            return Told(held(pod))
        off = self.held < share.of(self.pods + 1)
        heeds = owner is not None and owner.kind == "ReplicaSet"
        own = labels.POD_DELETION_COST in pod.metadata.annotations
        return Told(off, self._place(share, off=off) if heeds and not own else None)

    def _place(self, share: Share, *, off: bool) -> int | None:
        """The first free place of its sort. A ReplicaSet that shrinks gives up the last place first, so what
        is left has the share at each step.
        """
        most = self.pods + len(self._taken) + 1
        for place in range(self._next[off], most + 1):
            self._next[off] = place + 1
            if (share.of(place) > share.of(place - 1)) == off and place not in self._taken:
                return place
        return None


def turn_of(pod: Pod) -> int | None:
    """Which place the pod has, as `told` wrote it."""
    text = pod.metadata.annotations.get(labels.POD_DELETION_COST, "")
    return int(text[1:]) if re.fullmatch("-[1-9][0-9]{0,6}", text) else None


def told(pod: Pod, what: Told) -> Pod:
    """The pod once it passed the gate."""
    spec, meta = pod.spec, pod.metadata
    gates = tuple(gate for gate in spec.scheduling_gates if gate.name != labels.ON_DEMAND_SHARE)
    affinity = spec.affinity
    if what.held and not held(pod):
        affinity = _off_spot(spec.affinity or Affinity())
    annotations = {**meta.annotations, labels.OFF_SPOT: "true" if what.held else "false"}
    if what.turn is not None:
        annotations[labels.POD_DELETION_COST] = str(-what.turn)
    meta = replace(meta, annotations=annotations)
    return replace(pod, metadata=meta, spec=replace(spec, scheduling_gates=gates, affinity=affinity))


def patch(pod: Pod, after: Pod) -> Mapping[str, object]:
    """What makes the pod be as `told` answered, as a merge patch for the version that was looked at.

    The API server lets required node affinity be narrowed only while a pod is gated, so all goes at once.
    """
    gates = [encode(gate) for gate in after.spec.scheduling_gates]
    spec: dict[str, object] = {"schedulingGates": gates or None}
    if after.spec.affinity is not pod.spec.affinity and after.spec.affinity is not None:
        node = after.spec.affinity.node_affinity
        required = node.required if node is not None else None
        terms = [encode(term) for term in required.node_selector_terms] if required is not None else []
        name = "requiredDuringSchedulingIgnoredDuringExecution"
        spec["affinity"] = {"nodeAffinity": {name: {"nodeSelectorTerms": terms}}}
    meta: dict[str, object] = {"resourceVersion": pod.metadata.resource_version}
    before = pod.metadata.annotations.items()
    meta["annotations"] = dict(item for item in after.metadata.annotations.items() if item not in before)
    return {"metadata": meta, "spec": spec}


def _off_spot(affinity: Affinity) -> Affinity:
    """Every alternative of the required node affinity asks for it too; one of nothing matches no node."""
    node = affinity.node_affinity or NodeAffinity()
    terms = node.required.node_selector_terms if node.required is not None else ()
    narrowed = tuple(
        replace(term, match_expressions=(*term.match_expressions, _HELD))
        if term.match_expressions or term.match_fields
        else term
        for term in terms
    )
    required = NodeSelector(node_selector_terms=narrowed or (NodeSelectorTerm(match_expressions=(_HELD,)),))
    return replace(affinity, node_affinity=replace(node, required=required))


def told_together(pods: Iterable[Pod], there: Iterable[Pod] = ()) -> tuple[Pod, ...]:
    """Pods of one workload in their order, each gated one as it is once it was told, beside those that are
    `there`. One whose share is not valid stays at the gate. Time: O(pods).
    """
    siblings = Siblings(there)
    found = []
    for pod in pods:
        after = pod
        if gated(pod):
            with suppress(ValueError):
                after = tell_one(pod, siblings)
        siblings.add(after)
        found.append(after)
    return tuple(found)


def tell_one(pod: Pod, siblings: Siblings) -> Pod:
    """The gated pod once it was told what it is beside its siblings. Raises ValueError: see `share_of`."""
    return told(pod, siblings.tell(pod, share_of(pod)))


def to_give_up(pods: Iterable[Pod], may: Callable[[Pod], bool]) -> Pod | None:
    """The pod of a controller to evict, so that what comes in its place is held: its pods lack some.

    None while anything is under way: a pod waits, goes, or is not ready. The last one of those free to run
    on spot goes that `may`.
    """
    pods = [pod for pod in pods if not pod.terminal]
    if not pods or not all(passed(pod) and is_true(pod.status.conditions, "Ready") for pod in pods):
        return None
    if any(pod.deleting for pod in pods):
        return None
    try:
        lacks = Siblings(pods).lacks(share_of(pods[0]))
    except ValueError:
        return None
    free = [pod for pod in pods if not held(pod) and may(pod)] if lacks else []
    return max(free, key=_last, default=None)


def _last(pod: Pod) -> tuple[int, str, str]:
    return turn_of(pod) or 0, pod.metadata.creation_timestamp, pod.key
