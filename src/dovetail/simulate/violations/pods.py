"""Rules on pods: where they are bound, and how they are made to leave."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.api.core import Pod, Taint
from dovetail.api.meta import is_true
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.model import labels
from dovetail.model.filters import Placement
from dovetail.model.resources import subtract
from dovetail.model.selector import Selector
from dovetail.model.taints import HARD_EFFECTS, untolerated
from dovetail.simulate.violations.mirror import Change, Mirror, owned_by, ready
from dovetail.solve.verify import Violation
from dovetail.units.duration import parse_duration
from dovetail.units.timestamp import parse_rfc3339

_EVICTED = "DisruptionTarget"
_RACE = 1_000_000_000  # nanoseconds within which a binding and a change of its node may cross
_NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")


def bound(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """At the moment of binding, every filter lets the pod pass and its node is up. Called before `apply`."""
    found = change.of(Pod)
    if found is None:
        return
    pod, old = found
    if pod is None or not pod.spec.node_name or (old and old.spec.node_name) or owned_by(pod, "Node"):
        return
    node = mirror.nodes.get(pod.spec.node_name)
    if node is None:
        yield Violation("bound nowhere", pod.key, f"is bound to {pod.spec.node_name}, which does not exist")
        return
    if change.now - mirror.marked.get(node.key, -_RACE) < _RACE:
        # The scheduler could not have seen yet what has just become of the node.
        return
    if not ready(node) and untolerated((_NOT_READY,), pod.spec.tolerations):
        yield Violation("bound to unready", pod.key, f"is bound to {node.key}, which is not Ready")
    unregistered = [item for item in node.spec.taints if item.key == labels.UNREGISTERED_TAINT]
    if untolerated(unregistered, pod.spec.tolerations):
        yield Violation("bound to unready", pod.key, f"is bound to {node.key}, which is not registered")
    for reason in Placement(pod, mirror.view).examine(mirror.view.nodes[node.key]):
        yield Violation("filter", pod.key, f"is bound to {node.key} against: {reason.text}")


def overcommitted(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """No node holds more than it has. Called after `apply`."""
    found = change.of(Pod)
    pod, old = found or (None, None)
    if pod is None or pod.spec.node_name not in mirror.view.nodes or (old and old.spec.node_name):
        return
    node = mirror.view.nodes[pod.spec.node_name]
    rest = subtract(node.allocatable, node.used)
    for name in sorted(node.used):
        if rest[name] < 0:
            message = f"pods ask for {node.used[name]} of {name}, {node.allocatable.get(name, 0)} are there"
            yield Violation("overcommitted", node.name, message)


def evicted(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """Evictions spare protected pods and keep every budget. Called before `apply`."""
    found = change.of(Pod)
    if found is None:
        return
    pod, old = found
    if old is None or is_true(old.status.conditions, _EVICTED):
        return
    if pod is None or not is_true(pod.status.conditions, _EVICTED):
        return
    if _protected(old, change.now):
        yield Violation("do-not-disrupt", pod.key, f"was evicted in spite of {labels.DO_NOT_DISRUPT}")
    for _, budget in sorted(mirror.budgets.items()):
        if budget.spec.selector is not None and budget.metadata.namespace == pod.metadata.namespace:
            yield from _broken(mirror, budget, old)


def _protected(pod: Pod, now: int) -> bool:
    text = pod.metadata.annotations.get(labels.DO_NOT_DISRUPT, "")
    if text == "true":
        return True
    try:
        lasts = parse_duration(text)
        return lasts > 0 and (not pod.status.start_time or now < parse_rfc3339(pod.status.start_time) + lasts)
    except ValueError:
        return False


def _broken(mirror: Mirror, budget: PodDisruptionBudget, pod: Pod) -> Iterator[Violation]:
    selector = Selector.read(budget.spec.selector)
    if not selector.matches(pod.metadata.labels) or not _healthy(pod):
        return
    covered = [
        item
        for item in mirror.pods.values()
        if item.metadata.namespace == pod.metadata.namespace
        and selector.matches(item.metadata.labels)
        and not item.terminal
    ]
    left = sum(1 for item in covered if item.key != pod.key and _healthy(item))
    wanted = _wanted(budget, budget.status.expected_pods or len(covered))
    if left < wanted:
        message = f"the eviction of {pod.key} leaves {left} healthy pods, {wanted} are wanted"
        yield Violation("disruption budget of pods", budget.key, message)


def _healthy(pod: Pod) -> bool:
    return is_true(pod.status.conditions, "Ready") and not pod.deleting


def _wanted(budget: PodDisruptionBudget, expected: int) -> int:
    """Healthy pods that must stay; shares are rounded up."""
    spec = budget.spec
    if spec.max_unavailable is not None:
        return max(0, expected - _share(spec.max_unavailable, expected))
    return 0 if spec.min_available is None else _share(spec.min_available, expected)


def _share(value: int | str, expected: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return -(-expected * int(value[:-1]) // 100)
    return int(value)


def lost(mirror: Mirror, patience: int, now: int) -> Iterator[Violation]:
    """Pods that still wait although a node that has not changed lately would take them."""
    for key, pod in sorted(mirror.pods.items()):
        waits = pod.spec.node_name or pod.deleting or pod.terminal or pod.spec.scheduling_gates
        created = pod.metadata.creation_timestamp
        if waits or not created or now - parse_rfc3339(created) < patience:
            continue
        placement = Placement(pod, mirror.view)
        for name, node in sorted(mirror.view.nodes.items()):
            calm = now - mirror.moved.get(name, 0) >= patience
            if calm and ready(mirror.nodes[name]) and not placement.examine(node):
                yield Violation("lost pod", key, f"still waits although {name} would take it")
                break


def left_behind(pod: Pod) -> bool:
    """True iff draining a node should have moved this pod."""
    disrupted = Taint(key=labels.DISRUPTED_TAINT, effect=HARD_EFFECTS[0])
    mirrored = owned_by(pod, "Node") or pod.terminal or pod.deleting
    return not mirrored and bool(untolerated((disrupted,), pod.spec.tolerations))
