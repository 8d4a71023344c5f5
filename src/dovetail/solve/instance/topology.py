"""Domain counters: topology spread, pod affinity and pod anti-affinity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from dovetail.api.core import Pod, PodAffinityTerm, Toleration, TopologySpreadConstraint
from dovetail.model.affinity import required_anti_affinity
from dovetail.model.labels import ALIASES, HOSTNAME
from dovetail.model.matching import Matcher
from dovetail.model.pod_rules import Rules
from dovetail.model.requirement import Requirements
from dovetail.model.selector import Expression, Selector
from dovetail.model.spread import EVERY_NODE, NodeFilter
from dovetail.solve.tolerances import FEW

# One node's pinned labels: (key, value) pairs by key; an empty value says that the node lacks the label.
Pins = tuple[tuple[str, str], ...]

SPREAD, AFFINITY, ANTI, APART = "spread", "affinity", "anti", "apart"


# A node's value of a label; '' where it has none.
DomainOf = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Identity of a group: two constraints share counters iff all of this is equal."""

    kind: str  # spread, affinity, anti (required, symmetric), apart (preferred anti-affinity, one-sided)
    key: str
    matchers: tuple[Matcher, ...]  # a counted pod matches all of them
    max_skew: int = 0
    min_domains: int = 0
    node_filter: NodeFilter = EVERY_NODE
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        if self._hash == 0:
            parts = (self.kind, self.key, self.matchers, self.max_skew, self.min_domains, self.node_filter)
            object.__setattr__(self, "_hash", hash(parts) or 1)
        return self._hash


@dataclass(slots=True)
class Group:
    """Counters of one group, by domain. Invariant: no count is negative."""

    id: GroupKey
    matched: dict[str, int] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    universe: dict[str, None] = field(default_factory=dict)  # domains that hold the least count down
    closed: bool = False  # True iff no new node may be bought for its owners, so that hosts are known as well
    # Where set: a domain takes `max_skew` pods more than these at most, whatever else the rule allows.
    running: Mapping[str, int] | None = None

    def least(self) -> int:
        """The count that skew is measured from."""
        if self.id.key == HOSTNAME and not self.closed:
            return 0  # of the next new node
        if len(self.universe) < max(1, self.id.min_domains):
            return 0
        return min(self.matched.get(domain, 0) for domain in self.universe)

    def allows_owner(self, domain: str, *, itself: bool) -> bool:
        """True iff a pod that owns the rule may go into the domain; `itself`: it is counted as well."""
        kind = self.id.kind
        if kind in (ANTI, APART):
            return not domain or not self.matched.get(domain)
        if not domain:
            return False
        if kind == SPREAD:
            count = self.matched.get(domain, 0) + itself
            crowded = self.running is not None and count - self.running.get(domain, 0) > self.id.max_skew
            return not crowded and count - self.least() <= self.id.max_skew
        return self.matched.get(domain, 0) > 0 or (itself and not any(self.matched.values()))

    def allows_matched(self, domain: str) -> bool:
        """True iff none there keeps away from the pods that this group is about."""
        return self.id.kind != ANTI or not domain or not self.owners.get(domain)

    def count(self, domain: str, step: int, *, matched: bool, owner: bool) -> None:
        """Register so many pods in a domain, or forget them (a step below 0)."""
        if not domain:
            return
        if matched:
            self.matched[domain] = self.matched.get(domain, 0) + step
            if step > 0 and self.id.kind == SPREAD:
                self.universe.setdefault(domain)
        if owner and self.id.kind == ANTI:
            self.owners[domain] = self.owners.get(domain, 0) + step


class Topology:
    """Every group that the pods of a problem give rise to."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self.groups: list[Group] = []
        self.wide = 0  # groups that any pod may belong to: their selectors ask for no label
        self._index: dict[GroupKey, int] = {}
        self._namespaces = namespaces
        # Pods are told apart by the labels that some group looks at, and by nothing else.
        self._looked_at: frozenset[str] = frozenset()
        self._matched: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[int, ...]] = {}
        self._indexed = 0  # groups whose selectors are indexed
        # By a label that their pods have; None stands for any value.
        self._likely: dict[tuple[str, str | None], list[int]] = {}
        self._unlikely: list[int] = []  # groups that any pod may belong to

    def owners(self, pod: Pod, required: tuple[Requirements, ...]) -> Owner:
        """What tells the groups of a pod; `required` are its strict demands."""
        return Owner(self, pod, required)

    def repelling(self, pod: Pod) -> tuple[int, ...]:
        """The groups that a pod which runs already keeps away from its domains."""
        terms = required_anti_affinity(pod)
        keys = [GroupKey(ANTI, _key(term.topology_key), (self.matcher(pod, term),)) for term in terms]
        return tuple(dict.fromkeys(self.intern(key) for key in keys))

    def may_count(self, tags: frozenset[tuple[str, str]]) -> bool:
        """False only if no group counts a pod all of whose labels are among these."""
        if self._indexed < len(self.groups):
            self._index_selectors()
        sought, keys = self._likely.keys(), ((key, None) for key, _ in tags)
        return bool(self._unlikely) or not (sought.isdisjoint(tags) and sought.isdisjoint(keys))

    def matching(self, namespace: str, labels: Mapping[str, str]) -> tuple[int, ...]:
        """The groups that count such a pod."""
        if self._indexed < len(self.groups):
            self._index_selectors()
        seen = tuple(sorted([pair for pair in labels.items() if pair[0] in self._looked_at]))
        found = self._matched.get((namespace, seen))
        if found is None:
            likely = [
                index
                for name, value in seen
                for has in ((name, value), (name, None))
                for index in self._likely.get(has, ())
            ]
            found = tuple(
                index
                for index in sorted({*likely, *self._unlikely})
                if all(item.matches(namespace, labels) for item in self.groups[index].id.matchers)
            )
            self._matched[namespace, seen] = found
        return found

    def _index_selectors(self) -> None:
        """Sort new groups by a label that their pods must have, so that most pods look at few."""
        for index in range(self._indexed, len(self.groups)):
            asked = _asked(self.groups[index].id)
            for has in asked:
                self._likely.setdefault(has, []).append(index)
            if not asked:
                self._unlikely.append(index)
        different = {id(group.id.matchers): group.id.matchers for group in self.groups}  # many share theirs
        every = (item.selector.keys for matchers in different.values() for item in matchers)
        self._looked_at = frozenset().union(*every)
        self._indexed = len(self.groups)
        self._matched.clear()

    def first_refusal(
        self, owned: tuple[int, ...], matching: tuple[int, ...], domain_of: DomainOf, *, skip_hosts: bool
    ) -> Group | None:
        """The first group that keeps a pod off a node; `skip_hosts` leaves out what a new node settles."""
        counted = frozenset(matching) if len(matching) > FEW and len(owned) > FEW else matching
        for index in owned:
            group = self.groups[index]
            if skip_hosts and group.id.key == HOSTNAME:
                continue
            if not group.allows_owner(domain_of(group.id.key), itself=index in counted):
                return group
        for index in matching:
            group = self.groups[index]
            if skip_hosts and group.id.key == HOSTNAME:
                continue
            if not group.allows_matched(domain_of(group.id.key)):
                return group
        return None

    def intern(self, key: GroupKey) -> int:
        index = self._index.setdefault(key, len(self.groups))
        if index == len(self.groups):
            self.groups.append(Group(key))
            self.wide += not _asked(key)
        return index

    def spread(
        self,
        pod: Pod,
        item: TopologySpreadConstraint,
        required: tuple[Requirements, ...],
        tolerations: tuple[Toleration, ...],
    ) -> GroupKey:
        """The group of a spread that the pod has."""
        namespace = pod.metadata.namespace or "default"
        same = _label_keys(pod, item.match_label_keys, "In")
        matcher = Matcher((namespace,), False, Selector.read(item.label_selector).also(*same))
        honoured = item.node_affinity_policy != "Ignore" and any(len(each) for each in required)
        return GroupKey(
            SPREAD,
            _key(item.topology_key),
            (matcher,),
            item.max_skew,
            item.min_domains or 0,
            NodeFilter(
                required if honoured else (), tolerations if item.node_taints_policy == "Honor" else None
            ),
        )

    def matcher(self, pod: Pod, term: PodAffinityTerm) -> Matcher:
        """Which pods a term of the pod is about."""
        names = set(term.namespaces)
        everywhere = False
        if term.namespace_selector is not None:
            chosen = Selector.read(term.namespace_selector)
            everywhere = not chosen.expressions
            names.update(name for name, labels in self._namespaces.items() if chosen.matches(labels))
        elif not names:
            names.add(pod.metadata.namespace or "default")
        same = _label_keys(pod, term.match_label_keys, "In")
        other = _label_keys(pod, term.mismatch_label_keys, "NotIn")
        return Matcher(
            () if everywhere else tuple(sorted(names)),
            everywhere,
            Selector.read(term.label_selector).also(*same, *other),
        )


class Owner:
    """One pod as the owner of rules. Each of its constraints and terms is read once, however many levels."""

    def __init__(self, topology: Topology, pod: Pod, required: tuple[Requirements, ...]) -> None:
        self._topology = topology
        self._pod = pod
        self._required = required
        self._known: dict[tuple[str, int], int] = {}  # by kind and identity of what the pod's spec says
        self._last: tuple[Rules, tuple[int, ...]] | None = None

    def owned(self, rules: Rules) -> tuple[int, ...]:
        """The groups whose rule the pod must obey under these rules."""
        if self._last is None or not _same_groups(self._last[0], rules):
            self._last = rules, tuple(dict.fromkeys(self._groups(rules)))
        return self._last[1]

    def _groups(self, rules: Rules) -> Iterator[int]:
        known, topology, pod = self._known, self._topology, self._pod
        for item in (*rules.spread, *rules.preferred_spread):
            if (SPREAD, id(item)) not in known:
                key = topology.spread(pod, item, self._required, rules.tolerations)
                known[SPREAD, id(item)] = topology.intern(key)
            yield known[SPREAD, id(item)]
        if rules.affinity and ("together", id(rules.affinity[0])) not in known:
            every = tuple([topology.matcher(pod, term) for term in rules.affinity])
            for term in rules.affinity:
                key = GroupKey(AFFINITY, _key(term.topology_key), every)
                known["together", id(term)] = topology.intern(key)
        for term in rules.affinity:
            yield known["together", id(term)]
        for kind, terms in (
            (AFFINITY, rules.preferred_affinity),
            (ANTI, rules.anti),
            (APART, rules.preferred_anti),
        ):
            for term in terms:
                if (kind, id(term)) not in known:
                    key = GroupKey(kind, _key(term.topology_key), (topology.matcher(pod, term),))
                    known[kind, id(term)] = topology.intern(key)
                yield known[kind, id(term)]


def _same_groups(one: Rules, other: Rules) -> bool:
    """True iff nothing that groups come from was given up between two levels of one pod."""
    return (
        one.preferred_spread is other.preferred_spread
        and one.preferred_affinity is other.preferred_affinity
        and one.preferred_anti is other.preferred_anti
    )


def _asked(key: GroupKey) -> tuple[tuple[str, str | None], ...]:
    """Labels of which each pod that the group counts has one; None stands for any value."""
    every = [item for matcher in key.matchers for item in matcher.selector.expressions or ()]
    exact = next((item for item in every if item.operator == "In"), None)
    if exact is not None:
        return tuple([(exact.key, value) for value in exact.values])
    return tuple([(item.key, None) for item in every if item.operator == "Exists"][:1])


def _key(key: str) -> str:
    return ALIASES.get(key, key)


def _label_keys(pod: Pod, keys: tuple[str, ...], operator: str) -> list[Expression]:
    found = pod.metadata.labels
    return [Expression(key, operator, (found[key],)) for key in keys if key in found]
