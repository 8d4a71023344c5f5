"""Which pods of a lower priority have to go for a pod that fits nowhere, and on which node. Pure.

Of each node as few pods as possible go, those that no budget protects first. Of the nodes the one is taken
that breaks the fewest budgets; then the one whose dearest victim, the sum of whose victims' priorities, and
the number of whose victims is least; then the one whose dearest victims started last. A budget is broken
where there is no other way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from dovetail.api.core import Pod
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.model.cluster_view import ClusterView, Without
from dovetail.model.filters import NEVER_PREEMPTS, Examination, Nominated, Placement, no_preemption
from dovetail.model.selector import Selector
from dovetail.units.timestamp import parse_rfc3339

DISRUPTION_TARGET, BY_SCHEDULER = "DisruptionTarget", "PreemptionByScheduler"
# Nodes are looked at until so many of them, or so many percent, would do; the more the better the choice.
_LEAST_CANDIDATES, _PERCENT_OF_CANDIDATES = 100, 10
_LOWEST_PRIORITY = -(2**31)
_NEVER_STARTED = 2**63  # later than any start


@dataclass(frozen=True, slots=True)
class Preemption:
    """What has to go from `node`, the dearest first; `violations` of them against a budget."""

    node: str
    victims: tuple[Pod, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing is evicted, in the scheduler's words. `keeps`: True iff a nomination stays as it is."""

    text: str
    keeps: bool = False


def preempt(
    pod: Pod,
    found: Examination,
    view: ClusterView,
    ahead: Nominated,
    budgets: Iterable[PodDisruptionBudget],
    draw: Random,
) -> Preemption | Refusal:
    """Look for the node where evicting pods does the least harm. `found` says why the pod fits nowhere."""
    if pod.spec.preemption_policy == "Never":
        return Refusal(NEVER_PREEMPTS, keeps=True)
    if _waits_for_victims(pod, found, view):
        return Refusal("not eligible due to a terminating pod on the nominated node.", keeps=True)
    potential = [name for name, reasons in found.reasons.items() if not any(one.helpless for one in reasons)]
    enough = max(_LEAST_CANDIDATES, len(potential) * _PERCENT_OF_CANDIDATES // 100)
    start = draw.randrange(len(potential)) if len(potential) > enough else 0
    candidates: list[Preemption] = []
    tried: dict[str, Sequence[str]] = {}
    placement = Placement(pod, view)
    for name in (*potential[start:], *potential[:start]):
        outcome = _on_node(placement, name, ahead, budgets)
        if isinstance(outcome, Preemption):
            candidates.append(outcome)
        elif outcome:
            tried[name] = outcome
        if len(candidates) >= enough and any(not one.violations for one in candidates):
            break
    if not candidates:
        return Refusal(no_preemption(pod, found, tried))
    least = min(map(_harm, candidates))
    return draw.choice([one for one in candidates if _harm(one) == least])


def is_preempted(pod: Pod) -> bool:
    """True iff the pod goes because the scheduler preempts it."""
    return pod.deleting and any(
        one.type == DISRUPTION_TARGET and one.status == "True" and one.reason == BY_SCHEDULER
        for one in pod.status.conditions
    )


def _waits_for_victims(pod: Pod, found: Examination, view: ClusterView) -> bool:
    node = view.nodes.get(pod.status.nominated_node_name)
    if node is None or any(one.helpless for one in found.reasons.get(node.name, ())):
        return False
    return any(
        one.pod.spec.priority < pod.spec.priority and is_preempted(one.pod) for one in node.pods.values()
    )


def _on_node(
    placement: Placement, name: str, ahead: Nominated, budgets: Iterable[PodDisruptionBudget]
) -> Preemption | Sequence[str]:
    """The victims there; what refuses the pod even without all of a lower priority; nothing without any."""
    view, pod = placement.view, placement.facts.pod
    lower = [one.pod for one in view.nodes[name].pods.values() if one.pod.spec.priority < pod.spec.priority]
    if not lower:
        return ()

    def refusals(gone: Collection[str]) -> Sequence[str]:
        if placement.local:
            reasons = placement.examine(view.nodes[name].without(gone), ahead(name))
        else:
            without = Without(view, name, gone)
            reasons = Placement(pod, without).examine(without.nodes[name], ahead(name))
        return tuple(one.text for one in reasons)

    lower.sort(key=_importance)
    gone = dict.fromkeys(one.key for one in lower)
    if text := refusals(gone):
        return text
    protected = _protected(lower, budgets)
    violations = 0
    for one in sorted(lower, key=lambda one: one.key not in protected):
        del gone[one.key]
        if refusals(gone):
            gone[one.key] = None
            violations += one.key in protected
    return Preemption(name, tuple(one for one in lower if one.key in gone), violations)


def _protected(pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget]) -> frozenset[str]:
    """Keys of those whose eviction would break a budget, if those before them in line went."""
    # One whose selector is empty covers every pod when they are evicted by request, and none here.
    lines = [(one, selector) for one in budgets if (selector := Selector.read(one.spec.selector)).expressions]
    left = [one.status.disruptions_allowed for one, _ in lines]
    found = set()
    for pod in pods:
        meta = pod.metadata
        for number, (budget, selector) in enumerate(lines):
            covers = budget.metadata.namespace == meta.namespace and selector.matches(meta.labels)
            # What the API server let go is counted already.
            if covers and meta.labels and meta.name not in budget.status.disrupted_pods:
                left[number] -= 1
                if left[number] < 0:
                    found.add(pod.key)
    return frozenset(found)


def _importance(pod: Pod) -> tuple[int, int, str]:
    return -pod.spec.priority, _started(pod), pod.key


def _started(pod: Pod) -> int:
    return parse_rfc3339(pod.status.start_time) if pod.status.start_time else _NEVER_STARTED


def _harm(candidate: Preemption) -> tuple[int, int, int, int, int]:
    priorities = [one.spec.priority for one in candidate.victims]
    dearest = max(priorities)
    start = min(_started(one) for one in candidate.victims if one.spec.priority == dearest)
    # Counted from the lowest there is: more victims are never cheaper for being less than nothing.
    whole = sum(one - _LOWEST_PRIORITY for one in priorities)
    return candidate.violations, dearest, whole, len(priorities), -start
