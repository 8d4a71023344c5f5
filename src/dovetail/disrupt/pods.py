"""What a pod means to the disruption of its node: does it move, does it block, what does evicting it cost."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from dovetail.api.core import Pod, Taint
from dovetail.api.meta import condition
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.memo import MOST_PODS, by_identity
from dovetail.model import labels
from dovetail.model.affinity import affinity_rules
from dovetail.model.resources import Resources, pod_requests
from dovetail.model.selector import Selector
from dovetail.model.spread import spread_rules
from dovetail.model.taints import untolerated
from dovetail.units.duration import parse_duration
from dovetail.units.timestamp import parse_rfc3339

DISRUPTED = Taint(key=labels.DISRUPTED_TAINT, effect="NoSchedule")
_COST_PER_DELETION_COST = 1 / 2**27
_COST_PER_PRIORITY = 1 / 2**25
# The costs that count: those of 32 bits, as the API server takes them of a deletion cost.
_COSTS = range(-(2**31), 2**31)
_INTEGER = re.compile(r"[+-]?[0-9]+")


def owned_by(pod: Pod, kind: str) -> bool:
    """True iff an owner of that kind (DaemonSet; Node for mirror pods) made the pod."""
    # A plain loop: asked of every pod at every look; a generator costs more.
    for owner in pod.metadata.owner_references:  # noqa: SIM110 - see above
        if owner.kind == kind:
            return True
    return False


def reschedulable(pod: Pod) -> bool:
    """True iff the pod comes back elsewhere when its node goes.

    A StatefulSet's pod does so even while it terminates: its successor has the same name and the same needs.
    """
    if pod.terminal:
        return False
    again = not pod.metadata.deletion_timestamp
    for owner in pod.metadata.owner_references:
        if owner.kind in ("DaemonSet", "Node"):
            return False
        again = again or owner.kind == "StatefulSet"
    return again


@by_identity(MOST_PODS)
def unbound(pod: Pod) -> Pod:
    """The pod that will come in this one's place: bound to no node yet."""
    return replace(pod, spec=replace(pod.spec, node_name=""))


@by_identity(8192)
def evictable(pod: Pod) -> bool:
    """True iff draining the node would evict the pod."""
    if pod.terminal or pod.deleting or owned_by(pod, "Node"):
        return False
    return not pod.spec.tolerations or bool(untolerated((DISRUPTED,), pod.spec.tolerations))


def do_not_disrupt(pod: Pod, now: int) -> bool:
    """True iff the pod's annotation blocks voluntary disruption at `now` (nanoseconds).

    "true" always does; a positive duration does that long after the start. Anything else is ignored.
    """
    text = pod.metadata.annotations.get(labels.DO_NOT_DISRUPT, "")
    if not text or pod.terminal or pod.deleting:
        return False
    if text == "true":
        return True
    if do_not_disrupt_error(pod):
        return False
    until = do_not_disrupt_until(pod)
    return until is None or now < until


def do_not_disrupt_until(pod: Pod) -> int | None:
    """When the annotation's duration is over (ns); None before the pod's start or without a duration."""
    text = pod.metadata.annotations.get(labels.DO_NOT_DISRUPT, "")
    if text in ("", "true") or do_not_disrupt_error(pod) or not pod.status.start_time:
        return None
    return parse_rfc3339(pod.status.start_time) + parse_duration(text)


def do_not_disrupt_error(pod: Pod) -> str:
    """What is wrong with the annotation's value; "" where nothing is."""
    text = pod.metadata.annotations.get(labels.DO_NOT_DISRUPT, "")
    if text in ("", "true"):
        return ""
    try:
        return "" if parse_duration(text) > 0 else f"duration must be positive, got {text!r}"
    except ValueError as error:
        return str(error)


@dataclass(frozen=True, slots=True)
class Eviction:
    """What taking a pod off its node means. `protected`: it has an annotation that may keep it there."""

    moves: bool
    cost: float  # see `eviction_cost`
    protected: bool


@by_identity(MOST_PODS)
def eviction(pod: Pod) -> Eviction:
    """All of it at once: asked of each pod of a node again whenever any other pod there changes."""
    return _eviction(pod, _STATED)


@by_identity(MOST_PODS)
def eviction_by_own_cost(pod: Pod) -> Eviction:
    """As `eviction`, where the controller writes deletion costs itself: only the pod's own cost counts."""
    return _eviction(pod, (labels.DISRUPTION_COST,))


def _eviction(pod: Pod, stated: tuple[str, ...]) -> Eviction:
    protected = labels.DO_NOT_DISRUPT in pod.metadata.annotations
    return Eviction(reschedulable(pod), eviction_cost(pod, stated), protected)


def eviction_turn(pod: Pod, room: Resources) -> tuple[float, bool]:
    """Sorts pods of a node that goes: those first that ask for the largest share of its `room`, and among
    equals those with rules of their own.
    """
    return -_share(pod, room), not _constrained(pod)


def _share(pod: Pod, room: Resources) -> float:
    """The largest share of any resource that it asks for."""
    asked = pod_requests(pod)
    return max((amount / room[name] for name, amount in asked.items() if room.get(name, 0) > 0), default=0.0)


def _constrained(pod: Pod) -> bool:
    """True iff rules of its own keep it off some nodes."""
    spec, rules = pod.spec, affinity_rules(pod)
    chosen = spec.affinity.node_affinity if spec.affinity is not None else None
    apart = rules.affinity or rules.anti_affinity or any(rule.hard for rule in spread_rules(pod))
    return bool(spec.node_selector or apart or (chosen is not None and chosen.required))


class Budgets:
    """PodDisruptionBudgets with their selectors read once, by namespace."""

    def __init__(self, pdbs: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[tuple[Selector, PodDisruptionBudget]]] = {}
        for budget in pdbs:
            try:
                selector = Selector.read(budget.spec.selector)
            except Exception:  # not understood: nothing of its namespace is surely outside it
                selector = Selector()
            entry = (selector, budget)
            self._by_namespace.setdefault(budget.metadata.namespace, []).append(entry)
        # A cluster's budgets may stay the same for days: what is remembered of its pods has to have an end.
        self._known = by_identity(8192)(self._selecting)

    def __bool__(self) -> bool:
        """False iff there are none."""
        return bool(self._by_namespace)

    def of(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        """Those that select the pod."""
        return self._known(pod)

    def _selecting(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        entries = self._by_namespace.get(pod.metadata.namespace, ())
        return tuple(budget for selector, budget in entries if selector.matches(pod.metadata.labels))

    def block_fully(self, pod: Pod) -> bool:
        """True iff one of them can never allow the pod's eviction, whatever the pods do."""
        return any(never_allows(budget) for budget in self.of(pod))


def budget_allows(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """True iff the budget lets this pod be evicted now."""
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        ready = condition(pod.status.conditions, "Ready")
        if ready is None or ready.status != "True":
            return True
    return budget.status.disruptions_allowed > 0


@by_identity(4)
def budgets_among(pdbs: tuple[PodDisruptionBudget, ...]) -> Budgets:
    """The budgets of a snapshot: all that look at the same one share what was worked out."""
    return Budgets(pdbs)


def never_allows(budget: PodDisruptionBudget) -> bool:
    """True iff the budget allows no eviction, however many pods there are and however well they are."""
    return budget.spec.max_unavailable in (0, "0", "0%") or budget.spec.min_available == "100%"


def never_met(budget: PodDisruptionBudget) -> bool:
    """True iff it allows no eviction of the pods that there are, however well they all are."""
    status = budget.status
    return never_allows(budget) or 0 < status.expected_pods <= status.desired_healthy


# Annotations that state a cost: Karpenter's own before the ReplicaSet's.
_STATED = (labels.DISRUPTION_COST, labels.POD_DELETION_COST)


def eviction_cost(pod: Pod, stated_in: tuple[str, ...] = _STATED) -> float:
    """1 for an ordinary pod, more for dear ones, -10 to 10: from the cost it states and the priority."""
    stated = _stated_cost(pod, stated_in) if pod.metadata.annotations else 0
    if not stated and not pod.spec.priority:
        return 1.0
    cost = 1 + stated * _COST_PER_DELETION_COST + pod.spec.priority * _COST_PER_PRIORITY
    return max(-10.0, min(10.0, cost))


def _stated_cost(pod: Pod, stated_in: tuple[str, ...]) -> int:
    """What the first of these annotations says that has a number of 32 bits; 0 without one."""
    for name in stated_in:
        text = pod.metadata.annotations.get(name, "")
        # No longer text is a number of 32 bits, unless of leading zeros.
        if len(text) <= 11 and _INTEGER.fullmatch(text) and int(text) in _COSTS:
            return int(text)
    return 0
