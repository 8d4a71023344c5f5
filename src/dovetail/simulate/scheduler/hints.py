"""Which changes may help a pod that was refused: the queueing hints of the filters that refused it. Pure.

The scheduler tries a refused pod again only when one of these filters says that a change may help it; whether
another filter still refuses it then, it does not ask. So pods that only taints keep off are left alone by
nodes that join with taints, and keep their turn until one opens. But any change of any node's taints has
those tried again that one of `_BLIND` refused: the scheduler may have kept from these that the node joined
(kubernetes/kubernetes#109437).
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace

from dovetail.model.affinity import AffinityRule, NamespaceLabels
from dovetail.model.cluster_view import NodeView, PodFacts
from dovetail.model.filters import (
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    NODE_VOLUME_LIMITS,
    POD_TOPOLOGY_SPREAD,
    TAINT_TOLERATION,
    VOLUME_BINDING,
    VOLUME_RESTRICTIONS,
    VOLUME_ZONE,
    fit,
    taints,
)
from dovetail.model.ports import port_error
from dovetail.model.resources import PODS

# Names of filters, as in `Reason.by`; of a pod that was refused, those that refused it on any node.
Refusers = AbstractSet[str]
# Those that a pod that comes may help, asked of each kind that waits at each binding: that takes 0.04 us, and
# what follows from a pod 1.4.
LOOK_AT_PODS = frozenset({POD_TOPOLOGY_SPREAD, INTER_POD_AFFINITY})


def after_node(facts: PodFacts, by: Refusers, old: NodeView | None, new: NodeView | None) -> bool:
    """True iff the pod is tried again as a node joins (without `old`), changes, or goes (without `new`)."""
    if new is None:
        return POD_TOPOLOGY_SPREAD in by and old is not None and _takes_part(facts, old)
    if old is not None and (old.taints != new.taints or _uncordoned(facts, old, new)) and by & _BLIND:
        return True
    return any(hint(facts, old, new) for name, hint in _OF_NODES.items() if name in by)


def after_binding(facts: PodFacts, by: Refusers, other: PodFacts, namespaces: NamespaceLabels) -> bool:
    """True iff the pod is tried again as the other one comes to a node."""
    if POD_TOPOLOGY_SPREAD in by and _counted(facts, other):
        return True
    return INTER_POD_AFFINITY in by and _means(facts.affinity.affinity, other, namespaces)


def after_leaving(facts: PodFacts, by: Refusers, other: PodFacts, namespaces: NamespaceLabels) -> bool:
    """True iff the pod is tried again as the other one leaves its node, or gives up a nomination."""
    if NODE_RESOURCES_FIT in by:
        return True
    if POD_TOPOLOGY_SPREAD in by and _counted(facts, other):
        return True
    if INTER_POD_AFFINITY in by and _apart(facts, other, namespaces):
        return True
    if NODE_PORTS in by and port_error(facts.ports, other.ports):
        return True
    if VOLUME_RESTRICTIONS in by and facts.exclusive & other.exclusive:
        return True
    return NODE_VOLUME_LIMITS in by and bool(other.attachments)


def after_volumes(by: Refusers) -> bool:
    """True iff the pod is tried again as a claim, a volume or a class of volumes changes."""
    return VOLUME_BINDING in by or VOLUME_ZONE in by


_Hint = Callable[[PodFacts, NodeView | None, NodeView], bool]


def _uncordoned(_: PodFacts, old: NodeView | None, new: NodeView) -> bool:
    return (old is None or old.unschedulable) and not new.unschedulable


def _tolerated(facts: PodFacts, old: NodeView | None, new: NodeView) -> bool:
    return (old is None or bool(taints(facts, old))) and not taints(facts, new)


def _matched(facts: PodFacts, old: NodeView | None, new: NodeView) -> bool:
    rule = facts.node_rule
    return (old is None or not rule.matches(old.name, old.labels)) and rule.matches(new.name, new.labels)


def _roomier(facts: PodFacts, old: NodeView | None, new: NodeView) -> bool:
    """It would fit there if nothing ran there, and there is more of what it asks for."""
    if fit(facts, replace(new, pods={}, used={})):
        return False
    asked = (PODS, *(name for name, amount in facts.requests.items() if amount > 0))
    return old is None or any(new.allocatable.get(name, 0) > old.allocatable.get(name, 0) for name in asked)


def _joined(_: PodFacts, old: NodeView | None, __: NodeView) -> bool:
    return old is None


def _joined_or_renamed(_: PodFacts, old: NodeView | None, new: NodeView) -> bool:
    return old is None or old.labels != new.labels


def _more_volumes(_: PodFacts, old: NodeView | None, new: NodeView) -> bool:
    return old is None or old.volume_limits != new.volume_limits


def _other_domains(facts: PodFacts, old: NodeView | None, new: NodeView) -> bool:
    """The node takes part in the pod's spreads, or did; its domains changed, or what may run there."""
    takes_part = _takes_part(facts, new)
    if old is None or not takes_part:
        return takes_part or (old is not None and _takes_part(facts, old))
    moved = any(old.labels.get(rule.key) != new.labels[rule.key] for rule in facts.spread)
    return moved or old.taints != new.taints


def _other_neighbours(facts: PodFacts, old: NodeView | None, new: NodeView) -> bool:
    near, far = facts.affinity.affinity, facts.affinity.anti_affinity
    if old is None:
        return bool(far) or any(rule.key in new.labels for rule in near)
    if any(rule.key in new.labels and old.labels.get(rule.key) != new.labels[rule.key] for rule in near):
        return True
    return any(rule.key in old.labels and old.labels[rule.key] != new.labels.get(rule.key) for rule in far)


# The filters that look at nodes that join and have no say about taints that change.
_BLIND = frozenset(
    {NODE_AFFINITY, NODE_PORTS, NODE_RESOURCES_FIT, VOLUME_BINDING, VOLUME_ZONE, INTER_POD_AFFINITY}
)
_OF_NODES: dict[str, _Hint] = {
    NODE_UNSCHEDULABLE: _uncordoned,
    TAINT_TOLERATION: _tolerated,
    NODE_AFFINITY: _matched,
    NODE_PORTS: _joined,
    NODE_RESOURCES_FIT: _roomier,
    NODE_VOLUME_LIMITS: _more_volumes,
    VOLUME_BINDING: _joined_or_renamed,
    VOLUME_ZONE: _joined_or_renamed,
    POD_TOPOLOGY_SPREAD: _other_domains,
    INTER_POD_AFFINITY: _other_neighbours,
}


def _takes_part(facts: PodFacts, node: NodeView) -> bool:
    return all(rule.key in node.labels for rule in facts.spread)


def _counted(facts: PodFacts, other: PodFacts) -> bool:
    return any(rule.counts(other.namespace, other.labels) for rule in facts.spread)


def _means(rules: tuple[AffinityRule, ...], other: PodFacts, namespaces: NamespaceLabels) -> bool:
    """All of the rules mean the other pod; where there is none nothing does."""
    return bool(rules) and all(rule.matches(other.namespace, other.labels, namespaces) for rule in rules)


def _apart(facts: PodFacts, other: PodFacts, namespaces: NamespaceLabels) -> bool:
    mine, others = facts.affinity.anti_affinity, other.affinity.anti_affinity
    return _means(mine, other, namespaces) or _means(others, facts, namespaces)
