"""What the scheduler's filters look at: nodes, the pods bound to them with rules resolved, and their counts.

`ClusterView` is kept up to date by one owner and asked by many; `model/filters.py` has the filters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from dovetail.api.core import Node, Pod, Taint
from dovetail.base.memo import MOST_PODS, by_identity
from dovetail.model import labels
from dovetail.model.affinity import AffinityRule, AffinityRules, NamespaceLabels, affinity_rules
from dovetail.model.ports import HostPort, host_ports
from dovetail.model.problem import ExistingNode
from dovetail.model.resources import Resources, add, amounts, pod_requests, subtract
from dovetail.model.selector import NodeRule, node_rule
from dovetail.model.spread import SpreadRule, spread_rules
from dovetail.model.volumes import VolumeIndex, csi_volumes, exclusive_claims

_Rules = tuple[Resources, NodeRule, tuple[HostPort, ...], tuple[SpreadRule, ...], AffinityRules]


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod with its rules resolved."""

    pod: Pod
    requests: Resources
    node_rule: NodeRule
    ports: tuple[HostPort, ...]
    spread: tuple[SpreadRule, ...]  # hard ones only
    affinity: AffinityRules
    attachments: Mapping[str, frozenset[str]]  # CSI driver -> attachments needed
    exclusive: frozenset[str] = frozenset()  # claims that one pod at a time may use

    @staticmethod
    def of(pod: Pod, volumes: VolumeIndex) -> PodFacts:
        if not pod.spec.volumes:
            return PodFacts(pod, *_rules(pod), {})
        return PodFacts(pod, *_rules(pod), csi_volumes(pod, volumes), exclusive_claims(pod, volumes))

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        return self.pod.metadata.labels


@by_identity(MOST_PODS)
def _rules(pod: Pod) -> _Rules:
    """What follows from the pod alone, without the pod: what is remembered of it must not keep it alive."""
    return (
        pod_requests(pod),
        node_rule(pod),
        host_ports(pod),
        tuple(rule for rule in spread_rules(pod) if rule.hard),
        affinity_rules(pod),
    )


@dataclass(slots=True)
class NodeView:
    """A node and what runs on it. `pods` and `used` belong to the ClusterView that holds the node."""

    name: str
    labels: Mapping[str, str]
    allocatable: Resources
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    volume_limits: Mapping[str, int] = field(default_factory=dict)
    pods: dict[str, PodFacts] = field(default_factory=dict)  # by "namespace/name"
    used: Resources = field(default_factory=dict)  # Invariant: the sum of the pods' requests

    @staticmethod
    def of(node: Node, volume_limits: Mapping[str, int] | None = None) -> NodeView:
        """A node as the API server shows it."""
        return NodeView(
            name=node.metadata.name,
            labels=node.metadata.labels,
            allocatable=amounts(node.status.allocatable),
            taints=node.spec.taints,
            unschedulable=node.spec.unschedulable,
            volume_limits=volume_limits or {},
        )

    @staticmethod
    def planned(node: ExistingNode) -> NodeView:
        """A node of a problem as the scheduler sees it, without its pods."""
        return NodeView(
            name=node.name,
            labels={labels.HOSTNAME: node.name, **node.labels},
            allocatable=node.allocatable,
            taints=node.taints,
            volume_limits=node.volume_limits,
        )

    def with_more(self, pods: Iterable[PodFacts]) -> NodeView:
        """As it would be if these pods ran there as well."""
        there, used = dict(self.pods), self.used
        for one in pods:
            there[one.pod.key] = one
            used = add(used, one.requests)
        return replace(self, pods=there, used=used)

    def without(self, gone: Iterable[str]) -> NodeView:
        """As it would be if the pods of these keys did not run there."""
        pods, used = dict(self.pods), self.used
        for key in gone:
            used = subtract(used, pods.pop(key).requests)
        return replace(self, pods=pods, used=used)


@dataclass(slots=True)
class Topology:
    """The domain of each node that takes part, by the node's name, and every domain once."""

    domains: dict[str, str]
    distinct: tuple[str, ...]


# Labels that a node has to have, the one whose values are the domains, and what else nodes have to be.
Where = tuple[tuple[str, ...], str, NodeRule | None]


# Namespace, sorted labels, is it terminating?
_Group = tuple[str, tuple[tuple[str, str], ...], bool]


def _nothing(_: str) -> None:
    pass


class ClusterView:
    """All nodes and the pods bound to them. One owner changes it; filters only read."""

    def __init__(
        self,
        nodes: Iterable[NodeView] = (),
        namespaces: NamespaceLabels | None = None,
        volumes: VolumeIndex | None = None,
        resolve: Callable[[Pod, VolumeIndex], PodFacts] = PodFacts.of,
    ) -> None:
        self.nodes: dict[str, NodeView] = {}
        self.namespaces: NamespaceLabels = namespaces or {}
        self.volumes = volumes or VolumeIndex()
        # Goes up with every change, so that what is derived knows when it is stale.
        self.version = 0
        # Called with the name of each node of which something changed: the node, or what runs there.
        self.on_change: Callable[[str], None] = _nothing
        # For several views of the same pods, one that remembers is passed.
        self._resolve = resolve
        self._node_of: dict[str, str] = {}  # pod -> node it is bound to, known or not
        self._strays: dict[str, dict[str, PodFacts]] = {}  # pods on nodes that are not known (yet)
        # Invariant: counts are positive, and cover exactly the pods of known nodes.
        self._groups: dict[_Group, dict[str, int]] = {}
        self._anti: dict[AffinityRule, dict[str, int]] = {}
        # What follows from the nodes' labels alone, and from which groups there are; forgotten with those.
        self._topologies: dict[Where, Topology] = {}
        self._counted: dict[SpreadRule, list[_Group]] = {}
        # Invariant: counts are positive, and each is of a known topology.
        self._sums: dict[_Group, dict[Where, dict[str, int]]] = {}
        for node in nodes:
            self.set_node(node)

    def set_node(self, node: NodeView) -> None:
        """Add a node, or replace what is known of one; its pods stay."""
        old = self.nodes.get(node.name)
        if old is None:
            self._join(node)
        elif old.labels != node.labels:
            self._forget_topologies()
        if old is not None:
            node.pods, node.used = old.pods, old.used
            self.nodes[node.name] = node
        else:
            self.nodes[node.name] = node
            for key, facts in self._strays.pop(node.name, {}).items():
                self._place(key, facts, node)
        self.version += 1
        self.on_change(node.name)

    def remove_node(self, name: str) -> None:
        """Forget a node; pods still bound to it are remembered in case it comes back."""
        node = self.nodes.get(name)
        if node is None:
            return
        for key, facts in list(node.pods.items()):
            self._unplace(key, facts, node)
            self._strays.setdefault(name, {})[key] = facts
        del self.nodes[name]
        self._forget_topologies()
        self.version += 1
        self.on_change(name)

    def add_pod(self, pod: Pod, node: str = "") -> None:
        """Bind a pod to a node (by default the one it names); replaces what was known of it."""
        self.remove_pod(pod.key)
        name = node or pod.spec.node_name
        facts = self.facts(pod)
        self._node_of[pod.key] = name
        if name in self.nodes:
            self._place(pod.key, facts, self.nodes[name])
        else:
            self._strays.setdefault(name, {})[pod.key] = facts
        self.version += 1
        self.on_change(name)

    def remove_pod(self, key: str) -> None:
        """Forget a pod; unknown ones are no error."""
        name = self._node_of.pop(key, None)
        if name is None:
            return
        if name in self.nodes:
            node = self.nodes[name]
            self._unplace(key, node.pods[key], node)
        else:
            self._strays[name].pop(key)
        self.version += 1
        self.on_change(name)

    def facts(self, pod: Pod) -> PodFacts:
        """Any pod with its rules resolved, as the volumes are now."""
        return self._resolve(pod, self.volumes)

    def counts(self, wanted: Callable[[str, Mapping[str, str], bool], bool]) -> dict[str, int]:
        """Pods per node among those that `wanted(namespace, labels, terminating)` accepts."""
        return _summed(
            nodes
            for (namespace, of_pod, terminating), nodes in self._groups.items()
            if wanted(namespace, dict(of_pod), terminating)
        )

    def counted(self, rule: SpreadRule) -> dict[str, int]:
        """Pods per node that the rule counts: terminating ones are not among them."""
        return _summed(self._groups[group] for group in self._groups_of(rule))

    def counted_in(self, rule: SpreadRule, where: Where) -> Mapping[str, int]:
        """Those per domain; a domain without any may be missing."""
        return _summed(self._summed_up(group, where) for group in self._groups_of(rule))

    def alike_in(self, namespace: str, marks: Mapping[str, str], where: Where) -> Mapping[str, int]:
        """Pods per domain of that namespace with these very labels, without terminating ones."""
        group = (namespace, tuple(sorted(marks.items())), False)
        return self._summed_up(group, where) if group in self._groups else {}

    def topology(self, where: Where) -> Topology:
        """The domains among nodes that have all of the labels, and that the rule allows."""
        known = self._topologies.get(where)
        if known is None:
            domains = {name: node.labels[where[1]] for name, node in self.nodes.items() if _in(where, node)}
            known = self._topologies[where] = Topology(domains, tuple(dict.fromkeys(domains.values())))
        return known

    def anti_affinity(self) -> Iterator[tuple[AffinityRule, Iterable[str]]]:
        """Required anti-affinity terms of bound pods, each with the nodes of the pods that carry it."""
        return ((rule, nodes.keys()) for rule, nodes in self._anti.items())

    def check(self) -> None:
        """Assert every invariant; for tests."""
        groups: dict[_Group, dict[str, int]] = {}
        anti: dict[AffinityRule, dict[str, int]] = {}
        for node in self.nodes.values():
            used: Resources = {}
            for key, facts in node.pods.items():
                assert self._node_of[key] == node.name
                used = add(used, facts.requests)
                _count(groups, _group(facts), node.name, 1)
                for rule in facts.affinity.anti_affinity:
                    _count(anti, rule, node.name, 1)
            assert {k: v for k, v in used.items() if v} == {k: v for k, v in node.used.items() if v}
        assert (groups, anti) == (self._groups, self._anti)
        fresh = ClusterView(self.nodes.values(), self.namespaces, self.volumes, self._resolve)
        assert self._topologies == {known: fresh.topology(known) for known in self._topologies}
        for spreading in self._counted:
            assert self.counted(spreading) == self.counts(partial(_counted, spreading))
        for group, sums in self._sums.items():
            assert sums == {where: self._sum(group, where) for where in sums}

    def _place(self, key: str, facts: PodFacts, node: NodeView) -> None:
        node.pods[key] = facts
        node.used = add(node.used, facts.requests)
        self._recount(facts, node.name, 1)

    def _unplace(self, key: str, facts: PodFacts, node: NodeView) -> None:
        del node.pods[key]
        node.used = subtract(node.used, facts.requests)
        self._recount(facts, node.name, -1)

    def _recount(self, facts: PodFacts, node: str, change: int) -> None:
        groups, group = len(self._groups), _group(facts)
        _count(self._groups, group, node, change)
        if len(self._groups) != groups:
            self._counted.clear()
            self._sums.pop(group, None)
        for where, sums in self._sums.get(group, {}).items():
            domain = self._topologies[where].domains.get(node)
            if domain is not None:
                sums[domain] = sums.get(domain, 0) + change
                if not sums[domain]:
                    del sums[domain]
        for rule in facts.affinity.anti_affinity:
            _count(self._anti, rule, node, change)

    def _join(self, node: NodeView) -> None:
        """A node comes, after all others: most that is known of topologies stays."""
        for where, known in self._topologies.items():
            if _in(where, node):
                domain = known.domains[node.name] = node.labels[where[1]]
                if domain not in known.distinct:
                    known.distinct = (*known.distinct, domain)

    def _forget_topologies(self) -> None:
        self._topologies.clear()
        self._sums.clear()

    def _groups_of(self, rule: SpreadRule) -> list[_Group]:
        groups = self._counted.get(rule)
        if groups is None:
            groups = self._counted[rule] = [
                group for group in self._groups if not group[2] and rule.counts(group[0], dict(group[1]))
            ]
        return groups

    def _summed_up(self, group: _Group, where: Where) -> Mapping[str, int]:
        """Pods of the group per domain. Kept by the change: each pod that waits or comes asks for it."""
        known = self._sums.setdefault(group, {})
        if where not in known:
            known[where] = self._sum(group, where)
        return known[where]

    def _sum(self, group: _Group, where: Where) -> dict[str, int]:
        domains, sums = self.topology(where).domains, dict[str, int]()
        for name, count in self._groups[group].items():
            domain = domains.get(name)
            if domain is not None:
                sums[domain] = sums.get(domain, 0) + count
        return sums


class Without(ClusterView):
    """The view as it would be if some pods did not run on one node. Only read, and only while `base` stays.

    Costs one look at the nodes, and what is taken away.
    """

    def __init__(self, base: ClusterView, node: str, gone: Iterable[str]) -> None:
        super().__init__(namespaces=base.namespaces, volumes=base.volumes, resolve=base._resolve)
        there = base.nodes[node]
        self._base = base
        self._node = node
        self._gone = [there.pods[key] for key in gone]
        self.nodes = {**base.nodes, node: there.without(gone)}

    def counts(self, wanted: Callable[[str, Mapping[str, str], bool], bool]) -> dict[str, int]:
        """As of the base, without those that are gone."""
        total = self._base.counts(wanted)
        for one in self._gone:
            if wanted(one.namespace, one.labels, one.pod.deleting):
                total[self._node] -= 1
        return {name: count for name, count in total.items() if count}

    def counted(self, rule: SpreadRule) -> dict[str, int]:
        """As of the base, without those that are gone."""
        return self.counts(partial(_counted, rule))

    def counted_in(self, rule: SpreadRule, where: Where) -> Mapping[str, int]:
        """As of the base, without those that are gone."""
        gone = sum(_counted(rule, one.namespace, one.labels, one.pod.deleting) for one in self._gone)
        return self._less(self._base.counted_in(rule, where), gone, where)

    def alike_in(self, namespace: str, marks: Mapping[str, str], where: Where) -> Mapping[str, int]:
        """As of the base, without those that are gone."""
        group = (namespace, tuple(sorted(marks.items())), False)
        gone = sum(_group(one) == group for one in self._gone)
        return self._less(self._base.alike_in(namespace, marks, where), gone, where)

    def topology(self, where: Where) -> Topology:
        """As of the base: what runs on a node does not matter."""
        return self._base.topology(where)

    def _less(self, counts: Mapping[str, int], gone: int, where: Where) -> Mapping[str, int]:
        domain = self.topology(where).domains.get(self._node)
        return counts if domain is None else {**counts, domain: counts.get(domain, 0) - gone}

    def anti_affinity(self) -> Iterator[tuple[AffinityRule, Iterable[str]]]:
        """As of the base, without those that are gone."""
        gone = Counter(rule for one in self._gone for rule in one.affinity.anti_affinity)
        for rule, nodes in self._base._anti.items():
            left = [name for name, n in nodes.items() if n > (gone[rule] if name == self._node else 0)]
            if left:
                yield rule, left


def _in(where: Where, node: NodeView) -> bool:
    keys, key, allowed = where
    if key not in node.labels or any(one not in node.labels for one in keys):
        return False
    return allowed is None or allowed.matches(node.name, node.labels)


def _counted(rule: SpreadRule, namespace: str, labels: Mapping[str, str], terminating: bool) -> bool:
    return not terminating and rule.counts(namespace, labels)


def _summed(tables: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for nodes in tables:
        for name, count in nodes.items():
            total[name] = total.get(name, 0) + count
    return total


def _group(facts: PodFacts) -> _Group:
    return facts.namespace, tuple(sorted(facts.labels.items())), facts.pod.deleting


_K = TypeVar("_K")


def _count(table: dict[_K, dict[str, int]], key: _K, node: str, change: int) -> None:
    nodes = table.setdefault(key, {})
    nodes[node] = nodes.get(node, 0) + change
    if nodes[node] == 0:
        del nodes[node]
    if not nodes:
        del table[key]
