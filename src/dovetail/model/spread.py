"""Topology spread constraints, resolved for one pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.api.core import Pod, Taint, Toleration, TopologySpreadConstraint
from dovetail.model.matching import untolerated
from dovetail.model.requirement import Requirements
from dovetail.model.selector import Expression, Selector


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """Pods that `selector` selects in `namespace` differ by at most `max_skew` between domains of `key`."""

    key: str
    namespace: str
    selector: Selector  # matchLabelKeys included
    max_skew: int
    hard: bool  # DoNotSchedule; else only preferred
    min_domains: int = 1
    honor_affinity: bool = True  # nodes that the pod's node affinity excludes do not count
    honor_taints: bool = False  # nodes with taints that the pod does not tolerate do not count
    selects_self: bool = True  # the pod is one of those it counts

    def counts(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """True iff a pod with these labels is counted."""
        return namespace == self.namespace and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """Which nodes a spread counts: by the owner's node affinity, and by its tolerations, each if honoured."""

    alternatives: tuple[Requirements, ...] = ()  # empty: every node
    tolerations: tuple[Toleration, ...] | None = None  # None: taints are ignored

    def labels(self) -> frozenset[str]:
        """The labels that decide."""
        return frozenset(key for item in self.alternatives for key in item.by_key)

    def accepts(self, labels: Requirements, taints: tuple[Taint, ...], well_known: frozenset[str]) -> bool:
        """True iff pods on such a node count."""
        if self.tolerations is not None and untolerated(taints, self.tolerations, soft=False):
            return False
        if not self.alternatives:
            return True
        return any(labels.suits(item, well_known) for item in self.alternatives)


EVERY_NODE = NodeFilter()


def spread_rules(pod: Pod) -> tuple[SpreadRule, ...]:
    """All constraints of a pod, in their order."""
    return tuple(_resolve(pod, item) for item in pod.spec.topology_spread_constraints)


def _resolve(pod: Pod, item: TopologySpreadConstraint) -> SpreadRule:
    labels = pod.metadata.labels
    own = [Expression(key, "In", (labels[key],)) for key in item.match_label_keys if key in labels]
    selector = Selector.read(item.label_selector).also(*own)
    return SpreadRule(
        key=item.topology_key,
        namespace=pod.metadata.namespace,
        selector=selector,
        max_skew=item.max_skew,
        hard=item.when_unsatisfiable == "DoNotSchedule",
        min_domains=item.min_domains or 1,
        honor_affinity=item.node_affinity_policy != "Ignore",
        honor_taints=item.node_taints_policy == "Honor",
        selects_self=selector.matches(labels),
    )
