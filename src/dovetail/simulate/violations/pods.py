"""Rules on pods: where they are bound, and how they are made to leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dovetail.api.core import Node, Pod, Taint
from dovetail.api.meta import condition, is_true
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.clock import SECOND
from dovetail.model import labels
from dovetail.model.filters import Placement
from dovetail.model.resources import subtract
from dovetail.model.selector import Selector
from dovetail.model.taints import HARD_EFFECTS, untolerated
from dovetail.simulate.violations.mirror import DISRUPTION_REASON, Change, Mirror, owned_by, ready
from dovetail.simulate.violations.shares import mends
from dovetail.units.duration import parse_duration
from dovetail.units.timestamp import parse_rfc3339
from dovetail.verify import Violation

_EVICTED = "DisruptionTarget"
_BY_REQUEST = "EvictionByEvictionAPI"  # why: the scheduler, for one, says so of pods that it preempts
_SCHEDULER = "default-scheduler"
_RACE = SECOND  # within which a binding and a change of its node may cross
CLOCKS_APART = 95 * SECOND  # how far the clock of the controllers may be off
_STUCK_AFTER = 60 * SECOND
_SETTLED = 30 * SECOND  # a pod that came later may be unknown to who drains the node
_NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")


def bound(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """At the moment of binding, every filter lets the pod pass and its node is up. Called before `apply`.

    A pod that its author bound at creation went past the scheduler: no promise was made about it.
    """
    found = change.of(Pod)
    if found is None:
        return
    pod, old = found
    if pod is None or old is None or not pod.spec.node_name or old.spec.node_name:
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
    """No node holds more than it has by what the scheduler bound to it. Called after `apply`."""
    found = change.of(Pod)
    pod, old = found or (None, None)
    if pod is None or old is None or old.spec.node_name or pod.spec.node_name not in mirror.view.nodes:
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
    if old is None or pod is None or not _evicted(pod) or _evicted(old):
        return
    if protected(old, change.now):
        yield Violation("do-not-disrupt", pod.key, f"was evicted in spite of {labels.DO_NOT_DISRUPT}")
    for _, budget in sorted(mirror.budgets.items()):
        if budget.spec.selector is not None and budget.metadata.namespace == pod.metadata.namespace:
            yield from _broken(mirror, budget, old)


def deleted(mirror: Mirror, key: str, uid: str, now: int) -> Iterator[Violation]:
    """Pods are deleted past budgets and annotations only to be gone when their node's time is up.

    `uid` is the request's precondition ("" for none): the API server refuses it for a successor of that name.
    """
    pod = mirror.pods.get(key)
    if pod is not None and uid and pod.metadata.uid != uid:
        return
    node = mirror.nodes.get(pod.spec.node_name) if pod is not None else None
    claim = mirror.claim_of(node) if node is not None else None
    if pod is None or pod.deleting:
        return
    text = claim.metadata.annotations.get(labels.TERMINATION_TIMESTAMP, "") if claim is not None else ""
    if not text:
        yield Violation("forced deletion", key, "is deleted by force though its node has no deadline")
        return
    grace = pod.spec.termination_grace_period_seconds * SECOND
    if now + CLOCKS_APART < parse_rfc3339(text) - grace:
        yield Violation("forced deletion", key, f"is deleted by force too early: its node has until {text}")


def in_turn(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """Of a node that drains, ordinary pods leave before daemons, and both before critical ones."""
    pod = _leaving(change)
    view = mirror.view.nodes.get(pod.spec.node_name) if pod is not None else None
    if pod is None or view is None or _makes_room(pod, view.taints):
        return
    for key, facts in sorted(view.pods.items()):
        other = facts.pod
        first = _turn(other) < _turn(pod) and _to_drain(other) and not other.terminal
        new = change.now - mirror.bound.get(key, 0) < _SETTLED
        if not first or new or (other.deleting and _stuck(other, change.now)):
            continue
        yield Violation("drain order", pod.key, f"is evicted before {key}, whose turn is earlier")
        return


def tainted(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """Pods leave a node only once it is tainted, else they would come back; or before they started, or
    because another is to come that is kept off spot.
    """
    pod = _leaving(change)
    node = mirror.nodes.get(pod.spec.node_name) if pod is not None else None
    if pod is None or node is None or _makes_room(pod, node.spec.taints) or mends(mirror, pod):
        return
    if not _drained(node.spec.taints):
        message = f"is evicted from {node.key}, which lacks the taint {labels.DISRUPTED_TAINT}"
        yield Violation("drain without taint", pod.key, message)


def _leaving(change: Change) -> Pod | None:
    """The pod as it was before its eviction, if the change is one."""
    found = change.of(Pod)
    new, old = found if found is not None else (None, None)
    if new is None or old is None or not _evicted(new):
        return None
    return None if _evicted(old) else old


def _evicted(pod: Pod) -> bool:
    found = condition(pod.status.conditions, _EVICTED)
    return found is not None and found.status == "True" and found.reason == _BY_REQUEST


def _makes_room(pod: Pod, taints: Iterable[Taint]) -> bool:
    """True iff the node stays and surely no container of the pod has run: of several, one may have."""
    waits = pod.status.phase == "Pending" and len(pod.spec.containers) == 1 and not pod.spec.init_containers
    return waits and not _drained(taints)


def _drained(taints: Iterable[Taint]) -> bool:
    """True iff it is being emptied, to go or to reboot."""
    return any(item.key in (labels.DISRUPTED_TAINT, labels.REBOOTING_TAINT) for item in taints)


def _stuck(pod: Pod, now: int) -> bool:
    return now > parse_rfc3339(pod.metadata.deletion_timestamp) + _STUCK_AFTER - CLOCKS_APART


def _turn(pod: Pod) -> int:
    critical = pod.spec.priority_class_name in ("system-cluster-critical", "system-node-critical")
    return 2 * critical + owned_by(pod, "DaemonSet")


def protected(pod: Pod, now: int) -> bool:
    """True iff an annotation keeps it from being evicted."""
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
        created = pod.metadata.creation_timestamp
        if pod.spec.resource_claims:
            continue  # whether there are devices for it is not known here
        if not to_schedule(pod) or not created or now - parse_rfc3339(created) < patience:
            continue
        placement = Placement(pod, mirror.view)
        for name, node in sorted(mirror.view.nodes.items()):
            calm = now - mirror.moved.get(name, 0) >= patience
            if calm and ready(mirror.nodes[name]) and not placement.examine(node):
                if not _held_for_mates(mirror, pod):
                    yield Violation("lost pod", key, f"still waits although {name} would take it")
                break


def _held_for_mates(mirror: Mirror, pod: Pod) -> bool:
    """True iff the scheduler holds it, since nodes would take too few pods of its gang.

    Tried one after the other, each on the first node that takes it.
    """
    group, mates = mirror.mates(pod)
    if group is None:
        return False
    bound = sum(1 for one in mates if one.spec.node_name)
    tried: list[str] = []
    for one in mates:
        if not to_schedule(one):
            continue
        placement = Placement(one, mirror.view)
        nodes = (name for name, node in sorted(mirror.view.nodes.items()) if ready(mirror.nodes[name]))
        found = next((name for name in nodes if not placement.examine(mirror.view.nodes[name])), "")
        if found:
            mirror.view.add_pod(one, found)
            tried.append(one.key)
    for key in tried:
        mirror.view.remove_pod(key)
    return bound + len(tried) < group.minimum


def gang_stopped(mirror: Mirror, change: Change) -> Iterator[Violation]:
    """No gang is stopped to save money: one that ran when the command was begun. Called before `apply`."""
    pod = _leaving(change)
    node = mirror.nodes.get(pod.spec.node_name) if pod is not None else None
    claim = mirror.claim_of(node) if node is not None else None
    begun = condition(claim.status.conditions, DISRUPTION_REASON) if claim is not None else None
    if pod is None or begun is None or begun.reason != "Underutilized" or not begun.last_transition_time:
        return
    group, mates = mirror.mates(pod)
    if group is None or pod.metadata.annotations.get(labels.GANG_MAY_STOP) == "true":
        return
    since = parse_rfc3339(begun.last_transition_time) - CLOCKS_APART
    ran = [one for one in mates if one.spec.node_name and mirror.bound.get(one.key, 0) < since]
    left = [one for one in ran if not one.deleting and one.key != pod.key]
    if len(left) + 1 >= group.minimum > len(left):
        message = f"was evicted to save money: {len(left)} of the {group.minimum} that {group.name} needs run"
        yield Violation("gang stopped", pod.key, message)


def to_schedule(pod: Pod) -> bool:
    """True iff the scheduler is to find a node for it; pods that name another scheduler wait for that one."""
    done = pod.spec.node_name or pod.deleting or pod.terminal
    return not done and not pod.spec.scheduling_gates and pod.spec.scheduler_name == _SCHEDULER


def settled(mirror: Mirror, node: Node, now: int) -> list[str]:
    """Pods that a drain must move, on the node for so long that no controller can have missed them."""
    view = mirror.view.nodes.get(node.key)
    return sorted(
        key
        for key, facts in (view.pods if view else {}).items()
        if left_behind(facts.pod) and now - mirror.bound.get(key, 0) >= _SETTLED
    )


def left_behind(pod: Pod) -> bool:
    """True iff draining a node should have moved this pod."""
    return not pod.terminal and not pod.deleting and _to_drain(pod)


def _to_drain(pod: Pod) -> bool:
    disrupted = Taint(key=labels.DISRUPTED_TAINT, effect=HARD_EFFECTS[0])
    return not owned_by(pod, "Node") and bool(untolerated((disrupted,), pod.spec.tolerations))
