"""Hard topology spread constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dovetail.model.filters.reason import Reason, Reasons
from dovetail.model.filters.taints import taints
from dovetail.model.filters.view import ClusterView, NodeView, PodFacts
from dovetail.model.spread import SpreadRule

_SKEWED = (Reason("node(s) didn't match pod topology spread constraints", helpless=False),)
_UNLABELLED = (Reason("node(s) didn't match pod topology spread constraints (missing required label)"),)


@dataclass(frozen=True, slots=True)
class SpreadCount:
    """One constraint with the pods that it counts, per domain that is open to the pod."""

    rule: SpreadRule
    counts: dict[str, int]

    def least(self) -> int:
        """Pods in the emptiest domain; 0 while there are fewer domains than the rule wants."""
        if len(self.counts) < self.rule.min_domains:
            return 0
        return min(self.counts.values(), default=0)

    def allows(self, domain: str) -> bool:
        """True iff one more pod in the domain keeps the skew."""
        here = self.counts.get(domain, 0) + self.rule.selects_self
        return here - self.least() <= self.rule.max_skew


def spread_counts(facts: PodFacts, view: ClusterView) -> tuple[SpreadCount, ...]:
    """The pod's constraints with their counts. Terminating pods are not counted."""
    keys = [rule.key for rule in facts.spread]
    found = []
    for rule in facts.spread:
        per_node = view.counts(partial(_counted, rule))
        counts: dict[str, int] = {}
        for node in view.nodes.values():
            # A node takes part in any constraint only if it has the labels of all of them.
            if all(key in node.labels for key in keys) and _included(rule, facts, node):
                domain = node.labels[rule.key]
                counts[domain] = counts.get(domain, 0) + per_node.get(node.name, 0)
        found.append(SpreadCount(rule, counts))
    return tuple(found)


def spread_counts_with(
    counts: tuple[SpreadCount, ...], facts: PodFacts, node: NodeView, more: Sequence[PodFacts]
) -> tuple[SpreadCount, ...]:
    """The counts if these pods ran on the node as well."""
    if not all(item.rule.key in node.labels for item in counts):
        return counts
    found = []
    for item in counts:
        rule, added = item.rule, sum(item.rule.counts(one.namespace, one.labels) for one in more)
        if added and _included(rule, facts, node):
            domain = node.labels[rule.key]
            item = SpreadCount(rule, {**item.counts, domain: item.counts.get(domain, 0) + added})
        found.append(item)
    return tuple(found)


def spread(counts: tuple[SpreadCount, ...], node: NodeView) -> Reasons:
    """The first constraint that the pod would break on this node."""
    for item in counts:
        domain = node.labels.get(item.rule.key)
        if domain is None:
            return _UNLABELLED
        if not item.allows(domain):
            return _SKEWED
    return ()


def _counted(rule: SpreadRule, namespace: str, labels: Mapping[str, str], terminating: bool) -> bool:
    return not terminating and rule.counts(namespace, labels)


def _included(rule: SpreadRule, facts: PodFacts, node: NodeView) -> bool:
    if rule.honor_affinity and not facts.node_rule.matches(node.name, node.labels):
        return False
    return not (rule.honor_taints and taints(facts, node))
