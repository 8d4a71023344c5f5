"""Required inter-pod affinity and anti-affinity, in both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dovetail.model.affinity import AffinityRule, NamespaceLabels
from dovetail.model.filters.reason import Reason, Reasons
from dovetail.model.filters.view import ClusterView, NodeView, PodFacts

_NO_FRIEND = (Reason("node(s) didn't match pod affinity rules"),)
_FOE = (Reason("node(s) didn't match pod anti-affinity rules", helpless=False),)
_UNWANTED = (Reason("node(s) didn't satisfy existing pods anti-affinity rules", helpless=False),)

Domain = tuple[str, str]  # a label and one of its values


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Domains by what the pods in them mean for one pod that is to be placed."""

    friends: frozenset[Domain]  # hold a pod that all of its affinity terms mean
    foes: frozenset[Domain]  # hold a pod that one of its anti-affinity terms means
    closed: frozenset[Domain]  # hold a pod whose anti-affinity means this pod
    first: bool  # nobody is there to be near, and the pod itself would do


def neighbours(facts: PodFacts, view: ClusterView) -> Neighbours:
    """Look at all bound pods once."""
    rules = facts.affinity
    friends: set[Domain] = set()
    if rules.affinity:
        near = view.counts(partial(_meant_by_all, rules.affinity, view.namespaces))
        for rule in rules.affinity:
            friends |= _domains(rule, near, view)
    foes: set[Domain] = set()
    for rule in rules.anti_affinity:
        far = view.counts(partial(_meant_by_all, (rule,), view.namespaces))
        foes |= _domains(rule, far, view)
    closed: set[Domain] = set()
    for rule, nodes in view.anti_affinity():
        if rule.matches(facts.namespace, facts.labels, view.namespaces):
            closed |= _domains(rule, dict.fromkeys(nodes, 1), view)
    first = not friends and all(
        rule.matches(facts.namespace, facts.labels, view.namespaces) for rule in rules.affinity
    )
    return Neighbours(frozenset(friends), frozenset(foes), frozenset(closed), first)


def neighbours_with(
    known: Neighbours, facts: PodFacts, node: NodeView, more: Sequence[PodFacts], namespaces: NamespaceLabels
) -> Neighbours:
    """The neighbours if these pods ran on the node as well.

    The scheduler leaves the filter out for a pod without rules that no running pod has a rule about: then
    not even the rules of those count.
    """
    friends, foes, closed = set[str](), set[str](), set[str]()  # keys of the domains that they make so
    rules = facts.affinity
    if not (rules.affinity or rules.anti_affinity or known.closed):
        return known
    for one in more:
        if rules.affinity and _meant_by_all(rules.affinity, namespaces, one.namespace, one.labels, False):
            friends |= {rule.key for rule in rules.affinity}
        foes |= {
            rule.key for rule in rules.anti_affinity if rule.matches(one.namespace, one.labels, namespaces)
        }
        closed |= {
            rule.key
            for rule in one.affinity.anti_affinity
            if rule.matches(facts.namespace, facts.labels, namespaces)
        }

    def here(keys: set[str]) -> frozenset[Domain]:
        return frozenset((key, node.labels[key]) for key in keys if key in node.labels)

    near = known.friends | here(friends)
    return Neighbours(near, known.foes | here(foes), known.closed | here(closed), known.first and not near)


def inter_pod(facts: PodFacts, known: Neighbours, node: NodeView) -> Reasons:
    """Affinity first, then the pod's own anti-affinity, then that of others."""
    domains = [(rule.key, node.labels.get(rule.key)) for rule in facts.affinity.affinity]
    if any(value is None for _, value in domains):
        return _NO_FRIEND
    if not known.first and any(domain not in known.friends for domain in domains):
        return _NO_FRIEND
    if any((rule.key, node.labels.get(rule.key)) in known.foes for rule in facts.affinity.anti_affinity):
        return _FOE
    if known.closed and any((key, value) in known.closed for key, value in node.labels.items()):
        return _UNWANTED
    return ()


def _meant_by_all(
    rules: tuple[AffinityRule, ...],
    namespaces: NamespaceLabels,
    namespace: str,
    labels: Mapping[str, str],
    _terminating: bool,
) -> bool:
    return all(rule.matches(namespace, labels, namespaces) for rule in rules)


def _domains(rule: AffinityRule, nodes: Mapping[str, int], view: ClusterView) -> set[Domain]:
    found = set()
    for name in nodes:
        value = view.nodes[name].labels.get(rule.key)
        if value is not None:
            found.add((rule.key, value))
    return found
