"""Topology as the original counts it: one group per rule, with the number of its pods in each domain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dovetail.api.core import Pod, Taint, Toleration
from dovetail.model import labels
from dovetail.model.affinity import AffinityRule, affinity_rules, required_anti_affinity
from dovetail.model.problem import ExistingNode, Pool, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.selector import Selector
from dovetail.model.spread import SpreadRule
from dovetail.model.taints import untolerated
from dovetail.simulate.karpenter.pods import PodData

SPREAD, NEAR, APART = "spread", "near", "apart"
_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """Which nodes a spread counts: those that the pod's own demands allow."""

    alternatives: tuple[Requirements, ...] = ()  # of labels, one of which must hold; none: no demand
    tolerations: tuple[Toleration, ...] = ()
    honor_taints: bool = False

    @staticmethod
    def of(pod: Pod, rule: SpreadRule) -> NodeFilter:
        """The filter of a pod's constraint."""
        if not rule.honor_affinity:
            return NodeFilter((), pod.spec.tolerations, rule.honor_taints)
        base = [Requirement.new(key, "In", (value,)) for key, value in pod.spec.node_selector.items()]
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        if affinity is None or affinity.required is None:
            return NodeFilter((Requirements.of(base),), pod.spec.tolerations, rule.honor_taints)
        terms = [
            Requirements.of([*base, *(Requirement.read(item) for item in term.match_expressions)])
            for term in affinity.required.node_selector_terms
        ]
        return NodeFilter(tuple(terms), pod.spec.tolerations, rule.honor_taints)

    @property
    def identity(self) -> _Key:
        """What distinguishes filters: keys alone, not values, so that unlike pods can share one."""
        keys = tuple(tuple(sorted(item.by_key)) for item in self.alternatives)
        return keys, self.tolerations, self.honor_taints

    def matches(
        self, taints: Iterable[Taint], node: Requirements, well_known: frozenset[str] = frozenset()
    ) -> bool:
        """True iff pods on such a node count."""
        if self.alternatives and not any(node.suits(item, well_known) for item in self.alternatives):
            return False
        return not self.honor_taints or not untolerated(taints, self.tolerations)


@dataclass(slots=True)
class Group:
    """The pods that one rule selects, counted per domain. `owners` are the keys of pods with the rule."""

    kind: str
    key: str
    namespaces: frozenset[str]
    selector: Selector
    max_skew: int = 0
    min_domains: int = 1
    filter: NodeFilter = field(default_factory=NodeFilter)
    owners: set[str] = field(default_factory=set)
    domains: dict[str, int] = field(default_factory=dict)

    def selects(self, pod: Pod) -> bool:
        return pod.metadata.namespace in self.namespaces and self.selector.matches(pod.metadata.labels)

    def record(self, domains: Iterable[str]) -> None:
        """One more pod in each of these."""
        for domain in domains:
            self.domains[domain] = self.domains.get(domain, 0) + 1

    def register(self, domain: str) -> None:
        """A domain that may be used, without any pod yet."""
        self.domains.setdefault(domain, 0)

    def allowed(self, pod: Pod, of_pod: Requirement, of_node: Requirement) -> Requirement:
        """The domains that the pod may go to of those that the node can be in; none: "must be absent"."""
        if self.kind == SPREAD:
            return self._spread(pod, of_pod, of_node)
        if self.kind == APART:
            free = [name for name in self._both(of_node) if self.domains.get(name) == 0 and of_pod.has(name)]
            return _one_of(self.key, free)
        return self._near(pod, of_pod, of_node)

    def _both(self, of_node: Requirement) -> list[str]:
        """Domains that are known and that the node can be in, sorted."""
        if not of_node.complement:
            return sorted(name for name in of_node.values if name in self.domains)
        return sorted(name for name in self.domains if of_node.has(name))

    def _spread(self, pod: Pod, of_pod: Requirement, of_node: Requirement) -> Requirement:
        """The one domain with fewest pods among those that keep the skew."""
        least, own = self._least(of_pod), int(self.selects(pod))
        counts = [
            (count, name)
            for name in self._both(of_node)
            if (count := self.domains[name] + own) - least <= self.max_skew
        ]
        return _one_of(self.key, [min(counts)[1]] if counts else [])

    def _least(self, of_pod: Requirement) -> int:
        """Fewest pods in a domain that the pod may use; a new node is always a domain without any."""
        if self.key == labels.HOSTNAME:
            return 0
        counts = [count for name, count in self.domains.items() if of_pod.has(name)]
        return min(counts) if counts and len(counts) >= self.min_domains else 0

    def _near(self, pod: Pod, of_pod: Requirement, of_node: Requirement) -> Requirement:
        there = self._both(of_node)
        found = [name for name in there if self.domains[name] > 0 and of_pod.has(name)]
        if found:
            return _one_of(self.key, found)
        started = any(count > 0 and of_pod.has(name) for name, count in self.domains.items())
        if started or not self.selects(pod):
            return _one_of(self.key, [])
        # The first of its kind picks any domain; where the node's is still open, that may be two.
        possible = [name for name in sorted(self.domains) if of_pod.has(name)]
        here = [name for name in possible if of_node.has(name)]
        return _one_of(self.key, sorted({*here[:1], *possible[:1]}))


def _one_of(key: str, values: Iterable[str]) -> Requirement:
    return Requirement.new(key, "In", tuple(values))


class Topology:
    """All groups of one problem, and where their pods are. Pods of the problem itself count once placed."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._well_known = problem.options.well_known
        self._universe: dict[str, dict[str, list[tuple[Taint, ...]]]] = {}  # by label
        self._groups: dict[_Key, Group] = {}
        self._inverse: dict[_Key, Group] = {}
        self._owned: dict[str, list[Group]] = {}  # by pod
        self._node_labels = {node.name: node.occupancy.labels for node in problem.nodes}
        self._hosts = [
            host for each in self._node_labels.values() if (host := _domain(each, labels.HOSTNAME))
        ]
        for node in problem.nodes:
            for pod in node.pods:
                if not pod.terminal and required_anti_affinity(pod):
                    self._repel(pod.key, affinity_rules(pod).anti_affinity, node)

    def update(self, data: PodData) -> None:
        """The pod has these rules now, and none that it had before."""
        for group in self._owned.get(data.key, ()):
            group.owners.discard(data.key)
        self._repel(data.key, data.repels)
        mine = [self._group(self._spread(data, rule)) for rule in data.spread]
        mine += [self._group(self._terms(NEAR, rule)) for rule in data.affinity]
        mine += [self._group(self._terms(APART, rule)) for rule in data.anti_affinity]
        for group in mine:
            group.owners.add(data.key)
        self._owned[data.key] = list({id(group): group for group in mine}.values())

    def register_host(self, name: str) -> None:
        """A node that is about to be bought."""
        self._hosts.append(name)
        for group in (*self._groups.values(), *self._inverse.values()):
            if group.key == labels.HOSTNAME:
                group.register(name)

    def forget_host(self, name: str) -> None:
        """It is not bought after all."""
        self._hosts.remove(name)
        for group in (*self._groups.values(), *self._inverse.values()):
            if group.key == labels.HOSTNAME:
                group.domains.pop(name, None)

    def narrowed(
        self, data: PodData, taints: tuple[Taint, ...], node: Requirements, *, open_labels: bool
    ) -> Requirements | None:
        """What topology leaves of the domains that the node can be in; None where it leaves none.

        `open_labels`: well-known labels of the node are still open, as a new node's are.
        """
        found: list[Requirement] = []
        well_known = self._well_known if open_labels else frozenset()
        for group in self._matching(data, taints, node, well_known):
            allowed = group.allowed(data.pod, data.strict.get(group.key), node.get(group.key))
            if not allowed.values:
                return None
            found.append(allowed)
        return Requirements.of(found)

    def record(
        self, data: PodData, taints: tuple[Taint, ...], node: Requirements, *, open_labels: bool
    ) -> None:
        """The pod is on the node: it counts in every group that selects it."""
        well_known = self._well_known if open_labels else frozenset()
        for group in self._groups.values():
            if not (group.selects(data.pod) and group.filter.matches(taints, node, well_known)):
                continue
            values = _values(node, group.key)
            if group.kind == APART or len(values) == 1:
                group.record(values)
        for group in self._inverse.values():
            if data.key in group.owners:
                group.record(_values(node, group.key))

    def _matching(
        self, data: PodData, taints: tuple[Taint, ...], node: Requirements, well_known: frozenset[str]
    ) -> Iterator[Group]:
        yield from self._owned.get(data.key, ())
        for group in self._inverse.values():
            if group.selects(data.pod) and group.filter.matches(taints, node, well_known):
                yield group

    def _group(self, made: tuple[_Key, Group]) -> Group:
        key, group = made
        known = self._groups.get(key)
        if known is None:
            self._count(group)
            known = self._groups[key] = group
        return known

    def _spread(self, data: PodData, rule: SpreadRule) -> tuple[_Key, Group]:
        kept = NodeFilter.of(data.pod, rule)
        key = (SPREAD, rule.key, rule.namespace, rule.selector, rule.max_skew, kept.identity)
        group = Group(
            SPREAD,
            rule.key,
            frozenset({rule.namespace}),
            rule.selector,
            rule.max_skew,
            rule.min_domains,
            kept,
        )
        group.domains = self._domains(rule.key, kept)
        return key, group

    def _terms(self, kind: str, rule: AffinityRule) -> tuple[_Key, Group]:
        namespaces = self._meant(rule)
        group = Group(kind, rule.key, namespaces, rule.selector)
        group.domains = self._domains(rule.key, group.filter)
        return (kind, rule.key, namespaces, rule.selector), group

    def _meant(self, rule: AffinityRule) -> frozenset[str]:
        known = self._problem.namespaces
        return rule.namespaces | {
            name for name, stamped in known.items() if rule.namespace_selector.matches(stamped)
        }

    def _domains(self, key: str, kept: NodeFilter) -> dict[str, int]:
        if key == labels.HOSTNAME:
            return dict.fromkeys(self._hosts, 0)
        if key not in self._universe:
            self._universe[key] = _universe(self._problem.pools, key)
        return {
            name: 0
            for name, taints in self._universe[key].items()
            if not kept.honor_taints or any(not untolerated(some, kept.tolerations) for some in taints)
        }

    def _count(self, group: Group) -> None:
        """Pods that run already, and the domains of the nodes that there are."""
        for node in self._problem.nodes:
            stamped = self._node_labels[node.name]
            domain = _domain(stamped, group.key)
            if domain is None or not group.filter.matches(node.taints, stamped):
                continue
            group.register(domain)
            for namespace, of_pod, deleting in node.occupancy.counted:
                if not deleting and namespace in group.namespaces and group.selector.matches(of_pod):
                    group.record((domain,))

    def _repel(self, key: str, rules: tuple[AffinityRule, ...], node: ExistingNode | None = None) -> None:
        """The pod keeps others away, from the node's domain where it is on one."""
        for rule in rules:
            identity, group = self._terms(APART, rule)
            known = self._inverse.get(identity)
            if known is None:
                for there in self._problem.nodes:
                    domain = _domain(self._node_labels[there.name], rule.key)
                    if domain is not None:
                        group.register(domain)
                known = self._inverse[identity] = group
            known.owners.add(key)
            if node is not None:
                domain = _domain(self._node_labels[node.name], rule.key)
                if domain is not None:
                    known.record((domain,))


def _values(node: Requirements, key: str) -> frozenset[str]:
    item = node.by_key.get(key)
    return item.values if item is not None and not item.complement else frozenset()


def _domain(stamped: Requirements, key: str) -> str | None:
    item = stamped.by_key.get(key)
    return min(item.values) if item is not None and item.values else None


def _universe(pools: Iterable[Pool], key: str) -> dict[str, list[tuple[Taint, ...]]]:
    """Value of the label -> the taints of pools that can make nodes with it."""
    found: dict[str, list[tuple[Taint, ...]]] = {}
    for pool in pools:
        own = pool.requirements.get(key)
        values: set[str] = set()
        for kind in {item.requirements.get(key) for item in pool.instance_types}:
            item = own.intersection(kind)
            if not item.complement:
                values |= item.values
        for value in values:
            found.setdefault(value, []).append(pool.taints)
    return found
