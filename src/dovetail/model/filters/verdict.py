"""All filters in the scheduler's order, and the message that it writes when none of the nodes will do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from dovetail.api.core import Pod
from dovetail.model.filters.fit import fit
from dovetail.model.filters.inter_pod import Neighbours, inter_pod, neighbours, neighbours_with
from dovetail.model.filters.node_affinity import node_affinity
from dovetail.model.filters.node_name import node_name
from dovetail.model.filters.ports import ports
from dovetail.model.filters.reason import Reason, Reasons
from dovetail.model.filters.spread import SpreadCount, spread, spread_counts, spread_counts_with
from dovetail.model.filters.taints import taints
from dovetail.model.filters.unschedulable import unschedulable
from dovetail.model.filters.view import ClusterView, NodeView, PodFacts
from dovetail.model.filters.volumes import pod_reason, volume_binding, volume_limits, volume_zone
from dovetail.model.resources import add

_OF_NODE = (unschedulable, node_name, taints, node_affinity, ports, fit)
_OF_VOLUMES = (volume_limits, volume_binding, volume_zone)
# Per node the nominated pods that a pod must leave room for: of its own priority or a higher one.
Nominated = Mapping[str, Sequence[PodFacts]]
_NONE: Nominated = {}


class Placement:
    """One pod against one state of the cluster: what is the same for all nodes is worked out once."""

    def __init__(self, pod: Pod, view: ClusterView) -> None:
        self.facts = view.facts(pod)
        self.view = view

    @cached_property
    def nowhere(self) -> str:
        """Why no node can be considered at all; '' usually."""
        return pod_reason(self.facts, self.view.volumes)

    @cached_property
    def spread(self) -> tuple[SpreadCount, ...]:
        return spread_counts(self.facts, self.view)

    @cached_property
    def neighbours(self) -> Neighbours:
        return neighbours(self.facts, self.view)

    def examine(self, node: NodeView, nominated: Sequence[PodFacts] = ()) -> Reasons:
        """What the first filter that refuses says; nothing when all let the pod pass.

        `nominated` are pods without a node yet that the scheduler keeps room for on this one. They may run
        elsewhere in the end: the pod must pass both beside them and without them.
        """
        refused = self._beside(node, nominated) if nominated else ()
        return refused or self.alone(node) or self.together(node)

    def _beside(self, node: NodeView, nominated: Sequence[PodFacts]) -> Reasons:
        pods, used = dict(node.pods), node.used
        for one in nominated:
            pods[one.pod.key] = one
            used = add(used, one.requests)
        if found := self.alone(replace(node, pods=pods, used=used)):
            return found
        counts = spread_counts_with(self.spread, self.facts, node, nominated)
        known = neighbours_with(self.neighbours, self.facts, node, nominated, self.view.namespaces)
        return spread(counts, node) or inter_pod(self.facts, known, node)

    def alone(self, node: NodeView) -> Reasons:
        """The filters that look at this node only."""
        if self.nowhere:
            return (Reason(self.nowhere),)
        for of_node in _OF_NODE:
            if found := of_node(self.facts, node):
                return found
        for of_volumes in _OF_VOLUMES:
            if found := of_volumes(self.facts, node, self.view.volumes):
                return found
        return ()

    def together(self, node: NodeView) -> Reasons:
        """The filters that look at pods all over the cluster: spread, then affinity."""
        return spread(self.spread, node) or inter_pod(self.facts, self.neighbours, node)


def examine(pod: Pod, node: str, view: ClusterView) -> Reasons:
    """Why the pod may not run on the node now; nothing when it may."""
    return Placement(pod, view).examine(view.nodes[node])


def check(pod: Pod, node: str, view: ClusterView) -> tuple[str, ...]:
    """`examine`, in words alone."""
    return tuple(reason.text for reason in examine(pod, node, view))


def feasible_nodes(pod: Pod, view: ClusterView, nominated: Nominated = _NONE) -> list[str]:
    """The nodes where every filter lets the pod pass, in order of name."""
    placement = Placement(pod, view)
    return [
        name
        for name, node in sorted(view.nodes.items())
        if not placement.examine(node, nominated.get(name, ()))
    ]


def unschedulable_message(pod: Pod, view: ClusterView, nominated: Nominated = _NONE) -> str:
    """What the scheduler writes into the PodScheduled condition of a pod that fits nowhere."""
    if not view.nodes:
        return "no nodes available to schedule pods"
    placement = Placement(pod, view)
    verdicts = [placement.examine(node, nominated.get(name, ())) for name, node in sorted(view.nodes.items())]
    total = len(verdicts)
    if placement.nowhere:
        why = placement.nowhere
    else:
        why = _histogram(Counter(reason.text for reasons in verdicts for reason in reasons))
    return (
        f"0/{total} nodes are available: {why}. no new claims to deallocate, "
        f"preemption: {_preemption(pod, verdicts)}"
    )


def _preemption(pod: Pod, verdicts: list[Reasons]) -> str:
    if pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    words = {
        True: "Preemption is not helpful for scheduling",
        False: "No preemption victims found for incoming pod",
    }
    outcomes = Counter(words[any(item.helpless for item in reasons)] for reasons in verdicts)
    return f"0/{len(verdicts)} nodes are available: {_histogram(outcomes)}."


def _histogram(counts: Counter[str]) -> str:
    """`2 a, 3 b`, sorted as text, as the scheduler does."""
    return ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
