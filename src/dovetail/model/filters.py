"""The scheduler's own filters: may this pod run on this node, and if not, in the scheduler's words, why.

One function per filter, then `Placement`, which runs them in the scheduler's order, and the message that the
scheduler writes when none of the nodes will do. What they look at is in `model/cluster_view.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property, partial

from dovetail.api.core import PersistentVolume, Pod, Taint
from dovetail.model import labels
from dovetail.model.affinity import AffinityRule, NamespaceLabels
from dovetail.model.cluster_view import ClusterView, NodeView, PodFacts
from dovetail.model.ports import port_error
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from dovetail.model.selector import named_nodes, node_term, node_terms
from dovetail.model.spread import SpreadRule
from dovetail.model.taints import HARD_EFFECTS, NO_SCHEDULE, untolerated
from dovetail.model.volumes import ClaimUse, VolumeIndex, claim_uses, volume_limit_error


@dataclass(frozen=True, slots=True)
class Reason:
    """The scheduler's words. `helpless`: True iff evicting other pods from the node could not help; `by`: the
    filter, as the scheduler calls it.
    """

    text: str
    helpless: bool = True
    by: str = field(kw_only=True, compare=False)

    def __hash__(self) -> int:
        return hash(self.text)  # known of a text: nodes are counted by what they say


# The filters, as the scheduler calls them.
NODE_UNSCHEDULABLE, NODE_NAME = "NodeUnschedulable", "NodeName"
TAINT_TOLERATION, NODE_AFFINITY = "TaintToleration", "NodeAffinity"
NODE_PORTS, NODE_RESOURCES_FIT = "NodePorts", "NodeResourcesFit"
VOLUME_RESTRICTIONS = "VolumeRestrictions"
NODE_VOLUME_LIMITS, VOLUME_BINDING, VOLUME_ZONE = "NodeVolumeLimits", "VolumeBinding", "VolumeZone"
POD_TOPOLOGY_SPREAD, INTER_POD_AFFINITY = "PodTopologySpread", "InterPodAffinity"

# What every filter answers: nothing when the pod may run there.
Reasons = tuple[Reason, ...]

_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
_CORDONED = (Reason("node(s) were unschedulable", by=NODE_UNSCHEDULABLE),)


def unschedulable(facts: PodFacts, node: NodeView) -> Reasons:
    """A cordon holds unless the pod tolerates the taint that stands for it."""
    return _CORDONED if node.unschedulable and untolerated((_CORDON,), facts.pod.spec.tolerations) else ()


_OTHER_NAME = (Reason("node(s) didn't match the requested node name", by=NODE_NAME),)


def node_name(facts: PodFacts, node: NodeView) -> Reasons:
    """A pod that names a node runs there or nowhere."""
    return _OTHER_NAME if facts.pod.spec.node_name not in ("", node.name) else ()


_TAINTED = (Reason("node(s) had untolerated taint(s)", by=TAINT_TOLERATION),)


def taints(facts: PodFacts, node: NodeView) -> Reasons:
    """Every NoSchedule and NoExecute taint must be tolerated."""
    hard = [item for item in node.taints if item.effect in HARD_EFFECTS]
    return _TAINTED if hard and untolerated(hard, facts.pod.spec.tolerations) else ()


_NOT_MATCHED = (Reason("node(s) didn't match Pod's node affinity/selector", by=NODE_AFFINITY),)


# Of nodes that no alternative names where each of them names some: the scheduler looks at no others.
_NOT_NAMED = (Reason(f"node(s) didn't satisfy plugin(s) [{NODE_AFFINITY}]", by=NODE_AFFINITY),)
_CONFLICT = "pod affinity terms conflict"


def node_affinity(facts: PodFacts, node: NodeView) -> Reasons:
    """The selector and one of the affinity's terms must match the node's labels."""
    return () if facts.node_rule.matches(node.name, node.labels) else _NOT_MATCHED


_PORT_TAKEN = (
    Reason("node(s) didn't have free ports for the requested pod ports", helpless=False, by=NODE_PORTS),
)


def ports(facts: PodFacts, node: NodeView) -> Reasons:
    """No pod on the node may hold a port that this pod asks for."""
    if not facts.ports:
        return ()
    taken = (port for other in node.pods.values() for port in other.ports)
    return _PORT_TAKEN if port_error(facts.ports, taken) else ()


_BEFORE_EXTENDED = (CPU, MEMORY, EPHEMERAL_STORAGE)


def fit(facts: PodFacts, node: NodeView) -> Reasons:
    """One reason per resource that is short; where even an empty node would be, no eviction can help."""
    found: list[Reason] = []
    if len(node.pods) + 1 > node.allocatable.get(PODS, 0):
        found.append(Reason("Too many pods", helpless=False, by=NODE_RESOURCES_FIT))
    extended = (name for name in facts.requests if name not in (*_BEFORE_EXTENDED, PODS))
    for name in (*_BEFORE_EXTENDED, *sorted(extended)):
        wanted, whole = facts.requests.get(name, 0), node.allocatable.get(name, 0)
        if wanted > 0 and wanted > whole - node.used.get(name, 0):
            found.append(Reason(f"Insufficient {name}", helpless=wanted > whole, by=NODE_RESOURCES_FIT))
    return tuple(found)


_IN_USE = (
    Reason(
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
        "by another pod",
        helpless=False,
        by=VOLUME_RESTRICTIONS,
    ),
)
_TOO_MANY = (Reason("node(s) exceed max volume count", helpless=False, by=NODE_VOLUME_LIMITS),)
_ELSEWHERE = (Reason("node(s) didn't match PersistentVolume's node affinity", by=VOLUME_BINDING),)
_NONE_HERE = (Reason("node(s) didn't find available persistent volumes to bind", by=VOLUME_BINDING),)
_WRONG_ZONE = (Reason("node(s) had no available volume zone", by=VOLUME_ZONE),)
_EBS_ZONE = "topology.ebs.csi.aws.com/zone"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"  # of a class whose volumes are made by hand
_PLACES = (
    *(key for key, today in labels.ALIASES.items() if today in (labels.ZONE, labels.REGION)),
    *(labels.ZONE, labels.REGION),
)


def pod_reason(facts: PodFacts, index: VolumeIndex) -> str:
    """Why no node can be considered at all, whatever the nodes are; '' usually."""
    waiting = False
    for use in claim_uses(facts.pod, index) if facts.pod.spec.volumes else ():
        if use.claim is None:
            name = use.key.partition("/")[2]
            if use.ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return f'persistentvolumeclaim "{name}" not found'
        if use.claim.status.phase == "Lost":
            return (
                f'persistentvolumeclaim "{use.claim.metadata.name}" bound to non-existent persistentvolume '
                f'"{use.claim.spec.volume_name}"'
            )
        if use.claim.deleting:
            return f'persistentvolumeclaim "{use.claim.metadata.name}" is being deleted'
        mode = use.storage_class.volume_binding_mode if use.storage_class else "Immediate"
        waiting = waiting or (not use.complete and (use.bound or mode == "Immediate"))
    return "pod has unbound immediate PersistentVolumeClaims" if waiting else ""


def volume_limits(facts: PodFacts, node: NodeView, _index: VolumeIndex) -> Reasons:
    """Each CSI driver attaches only so many volumes; one that is there already costs nothing."""
    if not facts.attachments:
        return ()
    used: dict[str, frozenset[str]] = {}
    for other in node.pods.values():
        for driver, items in other.attachments.items():
            used[driver] = used.get(driver, frozenset()) | items
    return _TOO_MANY if volume_limit_error(facts.attachments, used, node.volume_limits) else ()


def volume_binding(facts: PodFacts, node: NodeView, index: VolumeIndex) -> Reasons:
    """Bound volumes must be reachable from the node, unbound ones must be allowed where it is."""
    if not facts.pod.spec.volumes:
        return ()
    there = _with_driver_labels(node.labels)
    uses = list(claim_uses(facts.pod, index))
    elsewhere = not all(_reaches(use, node.name, there) for use in uses)
    none_here = not all(_allowed(use, node.name, there, index) for use in uses)
    return (*(_ELSEWHERE if elsewhere else ()), *(_NONE_HERE if none_here else ()))


def volume_zone(facts: PodFacts, node: NodeView, index: VolumeIndex) -> Reasons:
    """Zone and region labels on a bound volume must be the node's."""
    if not facts.pod.spec.volumes:
        return ()
    for use in claim_uses(facts.pod, index):
        if use.volume is not None and not _same_zone(use.volume.metadata.labels, node.labels):
            return _WRONG_ZONE
    return ()


def _with_driver_labels(node: Mapping[str, str]) -> Mapping[str, str]:
    """The EBS driver repeats the zone under a name of its own once it runs on the node."""
    if labels.ZONE in node and _EBS_ZONE not in node:
        return {**node, _EBS_ZONE: node[labels.ZONE]}
    return node


def _reaches(use: ClaimUse, name: str, node: Mapping[str, str]) -> bool:
    return use.volume is None or _reachable(use.volume, name, node)


def _reachable(volume: PersistentVolume, name: str, node: Mapping[str, str]) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return any(term.matches(name, node) for term in node_terms(affinity.required))


def _allowed(use: ClaimUse, name: str, node: Mapping[str, str], index: VolumeIndex) -> bool:
    if use.bound or use.storage_class is None:
        return True
    if use.storage_class.provisioner == _NO_PROVISIONER:
        free = (
            volume
            for volume in index.volumes.values()
            if volume.spec.storage_class_name == use.class_name and volume.spec.claim_ref is None
        )
        return any(_reachable(volume, name, node) for volume in free)
    if not use.storage_class.allowed_topologies:
        return True
    terms = (item.as_node_selector_term() for item in use.storage_class.allowed_topologies)
    return any(node_term(term).matches(name, node) for term in terms)


def _same_zone(volume: Mapping[str, str], node: Mapping[str, str]) -> bool:
    """Where the node lacks a label of before 1.17 that the volume has, the one of today counts."""
    if not any(key in node for key in _PLACES):
        return True
    return all(
        node.get(key, node.get(labels.ALIASES.get(key, key))) in volume[key].split("__")
        for key in _PLACES
        if key in volume
    )


_SKEWED = (
    Reason("node(s) didn't match pod topology spread constraints", helpless=False, by=POD_TOPOLOGY_SPREAD),
)
_UNLABELLED = (
    Reason(
        "node(s) didn't match pod topology spread constraints (missing required label)",
        by=POD_TOPOLOGY_SPREAD,
    ),
)


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
    # A node takes part in any constraint only if it has the labels of all of them.
    keys = tuple(rule.key for rule in facts.spread)
    return tuple(SpreadCount(rule, _per_domain(rule, keys, facts, view)) for rule in facts.spread)


def _per_domain(
    rule: SpreadRule, keys: tuple[str, ...], facts: PodFacts, view: ClusterView
) -> dict[str, int]:
    """A look at the domains; at all nodes if taints matter."""
    where = keys, rule.key, facts.node_rule if rule.honor_affinity else None
    topology = view.topology(where)
    if not rule.honor_taints:
        return {**dict.fromkeys(topology.distinct, 0), **view.counted_in(rule, where)}
    domains = {
        name: domain for name, domain in topology.domains.items() if not taints(facts, view.nodes[name])
    }
    counts = dict.fromkeys(domains.values(), 0)
    for name, count in view.counted(rule).items():
        domain = domains.get(name)
        if domain is not None:
            counts[domain] += count
    return counts


def counts_in_spread(rule: SpreadRule, facts: PodFacts, node: NodeView, other: PodFacts) -> bool:
    """True iff `other`, on that node, is counted by the rule, which is one of those of `facts`."""
    return (
        all(item.key in node.labels for item in facts.spread)
        and rule.counts(other.namespace, other.labels)
        and _included(rule, facts, node)
    )


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


def _included(rule: SpreadRule, facts: PodFacts, node: NodeView) -> bool:
    if rule.honor_affinity and not facts.node_rule.matches(node.name, node.labels):
        return False
    return not (rule.honor_taints and taints(facts, node))


_NO_FRIEND = (Reason("node(s) didn't match pod affinity rules", by=INTER_POD_AFFINITY),)
_FOE = (Reason("node(s) didn't match pod anti-affinity rules", helpless=False, by=INTER_POD_AFFINITY),)
_UNWANTED = (
    Reason("node(s) didn't satisfy existing pods anti-affinity rules", helpless=False, by=INTER_POD_AFFINITY),
)

Domain = tuple[str, str]  # a label and one of its values


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Domains by what the pods in them mean for one pod that is to be placed."""

    friends: AbstractSet[Domain]  # hold a pod that all of its affinity terms mean
    foes: AbstractSet[Domain]  # hold a pod that one of its anti-affinity terms means
    closed: AbstractSet[Domain]  # hold a pod whose anti-affinity means this pod
    first: bool  # no pod is there to be near, and the pod itself would do


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
        near, far, shut = keys_beside(facts, one, namespaces)
        friends |= near
        foes |= far
        closed |= shut

    def here(keys: set[str]) -> frozenset[Domain]:
        return frozenset((key, node.labels[key]) for key in keys if key in node.labels)

    there = known.friends | here(friends)
    return Neighbours(there, known.foes | here(foes), known.closed | here(closed), known.first and not there)


def keys_beside(
    facts: PodFacts, other: PodFacts, namespaces: NamespaceLabels
) -> tuple[set[str], set[str], set[str]]:
    """Labels whose values another pod makes domains of friends, of foes, and closed ones (see Neighbours)."""
    rules = facts.affinity
    near: set[str] = set()
    if rules.affinity and _meant_by_all(rules.affinity, namespaces, other.namespace, other.labels, False):
        near = {rule.key for rule in rules.affinity}
    far = {
        rule.key for rule in rules.anti_affinity if rule.matches(other.namespace, other.labels, namespaces)
    }
    closed = {
        rule.key
        for rule in other.affinity.anti_affinity
        if rule.matches(facts.namespace, facts.labels, namespaces)
    }
    return near, far, closed


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


_OF_NODE = (unschedulable, node_name, taints, node_affinity, ports, fit)
_OF_VOLUMES = (volume_limits, volume_binding, volume_zone)
# By name of a node the nominated pods that a pod must leave room for: of its own priority or a higher one.
Nominated = Callable[[str], Sequence[PodFacts]]


def _no_nominations(_: str) -> Sequence[PodFacts]:
    return ()


class Placement:
    """One pod against one state of the cluster: what is the same for all nodes is worked out once."""

    def __init__(self, pod: Pod, view: ClusterView) -> None:
        self.facts = view.facts(pod)
        self.view = view
        self._spread_keys = tuple([rule.key for rule in self.facts.spread])
        self._spread_in: dict[tuple[str | None, ...], Reasons] = {}  # what `spread` says of nodes in domains

    @cached_property
    def nowhere(self) -> str:
        """Why no node can be considered at all; '' usually."""
        return _CONFLICT if self._conflict else pod_reason(self.facts, self.view.volumes)

    @cached_property
    def named(self) -> frozenset[str] | None:
        """See `named_nodes`."""
        return named_nodes(self.facts.node_rule)

    @property
    def _conflict(self) -> bool:
        return self.named is not None and not self.named

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
        if nominated and (found := self.beside(node, nominated)):
            return found
        return (() if nominated else self.alone(node)) or self.together(node, nominated)

    def beside(self, node: NodeView, nominated: Sequence[PodFacts]) -> Reasons:
        """The filters that look at this node only, if these pods ran there as well: none refuses a pod
        without them that passes then.
        """
        return self.alone(node.with_more(nominated))

    def alone(self, node: NodeView) -> Reasons:
        """The filters that look at this node only, and at what uses a claim that is for one pod at a time."""
        if self.nowhere:
            return (Reason(self.nowhere, by=NODE_AFFINITY if self._conflict else VOLUME_BINDING),)
        for of_node in _OF_NODE:
            if found := of_node(self.facts, node):
                return found
        # The node may have more pods than its view: those that are nominated there.
        if self.facts.exclusive and (self.held or self._shares(node.pods.values())):
            return _IN_USE
        for of_volumes in _OF_VOLUMES:
            if found := of_volumes(self.facts, node, self.view.volumes):
                return found
        return ()

    @cached_property
    def held(self) -> bool:
        """True iff another pod uses a claim of its that one pod at a time may use, on whatever node."""
        mine = self.facts.exclusive
        return bool(mine) and any(self._shares(node.pods.values()) for node in self.view.nodes.values())

    def _shares(self, others: Iterable[PodFacts]) -> bool:
        mine, own = self.facts.exclusive, self.facts.pod.key
        return any(other.exclusive & mine and other.pod.key != own for other in others)

    @cached_property
    def local(self) -> bool:
        """True iff it matters on no node which pods run on another, nor whose pods run on it."""
        return not (self.facts.spread or self.between or self.facts.exclusive)

    @cached_property
    def between(self) -> bool:
        """True iff rules of affinity matter, its own or those of pods that run."""
        rules = self.facts.affinity
        return bool(rules.affinity or rules.anti_affinity or self.neighbours.closed)

    def together(self, node: NodeView, nominated: Sequence[PodFacts] = ()) -> Reasons:
        """The filters that look at pods all over the cluster: spread, then affinity; see `examine`."""
        if nominated:
            counts = spread_counts_with(self.spread, self.facts, node, nominated)
            known = neighbours_with(self.neighbours, self.facts, node, nominated, self.view.namespaces)
            if found := spread(counts, node) or inter_pod(self.facts, known, node):
                return found
        if self.local:
            return ()
        domains = tuple(map(node.labels.get, self._spread_keys))
        skewed = self._spread_in.get(domains)
        if skewed is None:
            skewed = self._spread_in[domains] = spread(self.spread, node)
        return skewed or (inter_pod(self.facts, self.neighbours, node) if self.between else ())


def examine(pod: Pod, node: str, view: ClusterView) -> Reasons:
    """Why the pod may not run on the node now; nothing when it may."""
    return Placement(pod, view).examine(view.nodes[node])


def check(pod: Pod, node: str, view: ClusterView) -> tuple[str, ...]:
    """`examine`, in words alone."""
    return tuple(reason.text for reason in examine(pod, node, view))


@dataclass(frozen=True, slots=True)
class Examination:
    """What the filters say of one pod on each node, in order of name.

    `nowhere` says why no node can be considered at all, where that is so.
    """

    reasons: Mapping[str, Reasons]
    nowhere: str = ""

    @property
    def feasible(self) -> list[str]:
        """The nodes where every filter lets the pod pass."""
        return [name for name, found in self.reasons.items() if not found]

    def message(self, preemption: str) -> str:
        """What the scheduler writes into the PodScheduled condition of a pod that fits nowhere.

        `preemption` says why evicting others does not help, as `no_preemption` does; "" where it does.
        """
        return refusal(Counter(self.reasons.values()), preemption, self.nowhere)


def refusal(counts: Mapping[Reasons, int], preemption: str, nowhere: str = "") -> str:
    """See `Examination.message`; `counts` says of how many nodes the filters say what."""
    if not counts:
        return "no nodes available to schedule pods"
    texts: Counter[str] = Counter()
    for reasons, nodes in counts.items():
        for one in reasons:
            texts[one.text] += nodes
    message = f"0/{sum(counts.values())} nodes are available: {nowhere or _histogram(texts)}."
    if nowhere:  # what comes after looks for a state that the filters did not come to write
        return f"{message} not found"
    return f"{message} no new claims to deallocate, preemption: {preemption}" if preemption else message


def examine_all(pod: Pod, view: ClusterView, nominated: Nominated = _no_nominations) -> Examination:
    """Ask the filters about every node."""
    placement = Placement(pod, view)
    named = view.nodes.keys() if placement.nowhere or placement.named is None else placement.named
    found = {
        name: placement.examine(node, nominated(name)) if name in named else _NOT_NAMED
        for name, node in sorted(view.nodes.items())
    }
    return Examination(found, placement.nowhere if found else "")


def feasible_nodes(pod: Pod, view: ClusterView, nominated: Nominated = _no_nominations) -> list[str]:
    """The nodes where every filter lets the pod pass, in order of name."""
    return examine_all(pod, view, nominated).feasible


def unschedulable_message(pod: Pod, view: ClusterView, nominated: Nominated = _no_nominations) -> str:
    """What the scheduler writes of a pod that fits nowhere, where no pod has a lower priority."""
    found = examine_all(pod, view, nominated)
    return found.message(no_preemption(pod, found))


NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."


def no_preemption(pod: Pod, found: Examination, tried: Mapping[str, Sequence[str]] = {}) -> str:
    """Why no pods are evicted for this one. `tried` names, per node on which pods of a lower priority are,
    what refuses the pod even without them.
    """
    if pod.spec.preemption_policy == "Never":
        return NEVER_PREEMPTS
    outcomes: Counter[str] = Counter()
    for name, reasons in found.reasons.items():
        outcomes.update(tried[name] if name in tried and not _helpless(reasons) else (_no_victim(reasons),))
    return f"0/{len(found.reasons)} nodes are available: {_histogram(outcomes)}."


def no_victims(pod: Pod, counts: Mapping[Reasons, int]) -> str:
    """See `no_preemption`, where no pod has a lower priority; `counts` as in `refusal`."""
    if pod.spec.preemption_policy == "Never":
        return NEVER_PREEMPTS
    outcomes: Counter[str] = Counter()
    for reasons, nodes in counts.items():
        outcomes[_no_victim(reasons)] += nodes
    return f"0/{sum(counts.values())} nodes are available: {_histogram(outcomes)}."


def _helpless(reasons: Reasons) -> bool:
    return any(one.helpless for one in reasons)


def _no_victim(reasons: Reasons) -> str:
    if _helpless(reasons):
        return "Preemption is not helpful for scheduling"
    return "No preemption victims found for incoming pod"


def _histogram(counts: Counter[str]) -> str:
    """`2 a, 3 b`, sorted as text, as the scheduler does."""
    return ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
