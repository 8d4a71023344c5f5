"""The default score plugins of kube-scheduler, each 0 to 100 per node, and their weights.

LeastAllocated 1       room left of CPU and memory after the pod, the mean of both
BalancedAllocation 1   how much the pod brings the shares of CPU and memory in use closer together
NodeAffinity 2         weights of the preferred node affinity terms that the node meets
TaintToleration 3      fewer PreferNoSchedule taints that the pod does not tolerate
PodTopologySpread 2    fewer matching pods in the node's domains (ScheduleAnyway constraints; a pod with a
                       controller and no constraint gets the defaults: hostname 3, zone 5)
InterPodAffinity 2     weights of preferred pod (anti-)affinity, of the pod and of pods that run already

In LeastAllocated a container that asks for nothing counts as 100 milli-CPU and 200 MiB. The defaults of
PodTopologySpread count pods with the very labels of the pod, which are those that its controller selects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dovetail.api.core import Pod
from dovetail.base.memo import MOST_PODS, by_identity
from dovetail.base.streams import stream
from dovetail.model import labels
from dovetail.model.affinity import AffinityRule, NamespaceLabels, affinity_rules
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.resources import CPU, MEMORY, Resources, pod_requests
from dovetail.model.selector import node_rule, node_term
from dovetail.model.spread import spread_rules
from dovetail.model.taints import PREFER_NO_SCHEDULE, tolerates

_TOP = 100
_DEFAULT_SPREAD = ((labels.HOSTNAME, 3), (labels.ZONE, 5))
_SIZES = 64  # of pods whose scores are known of a node
# What a container without a request counts as, in scores only.
_UNASKED = {CPU: 100, MEMORY: 200 * 1024 * 1024}


@by_identity(MOST_PODS)
def score_requests(pod: Pod) -> Resources:
    """CPU and memory of a pod as scores count them."""
    found = pod_requests(pod)
    return {
        name: found.get(name, 0)
        + amount * sum(name not in container.resources.requests for container in pod.spec.containers)
        for name, amount in _UNASKED.items()
    }


@by_identity(MOST_PODS)
def wishes(pod: Pod) -> tuple[tuple[AffinityRule, int], ...]:
    """What a running pod would have of pods to come, with weights; a required affinity counts 1."""
    rules = affinity_rules(pod)
    return (
        *((rule, 1) for rule in rules.affinity),
        *((rule, rule.weight) for rule in rules.preferred_affinity),
        *((rule, -rule.weight) for rule in rules.preferred_anti_affinity),
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """What scores of resources a node has for pods that ask for so much, while it has that room and use."""

    allocatable: Resources
    used: Resources
    scores: dict[tuple[int, ...], int]


class Occupancy:
    """A view, and what scores read of its pods beside it.

    Invariant: over the pods that were counted on a node, `requested[node]` is the sum of `score_requests`,
    and `wished[wish][node]` the count of `wishes`. `known[node]` holds for these pods.
    """

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self.requested: dict[str, dict[str, int]] = {}
        self.wished: dict[tuple[AffinityRule, int], dict[str, int]] = {}
        self.known: dict[str, _Known] = {}
        for name, node in view.nodes.items():
            for facts in node.pods.values():
                self.count(facts.pod, name, 1)

    def count(self, pod: Pod, node: str, sign: int) -> None:
        """The pod came to the node, or went: -1."""
        shift(self.requested.setdefault(node, {}), score_requests(pod), sign)
        self.known.pop(node, None)
        for wish in wishes(pod):
            nodes = self.wished.setdefault(wish, {})
            nodes[node] = nodes.get(node, 0) + sign
            if nodes[node] == 0:
                del nodes[node]
            if not nodes:
                del self.wished[wish]


def shift(total: dict[str, int], amounts: Resources, sign: int) -> None:
    """Add these amounts to the total, or take them away: -1."""
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount


def total_scores(pod: Pod, feasible: Sequence[NodeView], cluster: Occupancy) -> list[int]:
    """The weighted sum per feasible node, in their order."""
    totals = _resources(pod, feasible, cluster)
    parts = (
        (2, _scaled(_node_affinity(pod, feasible))),
        (3, _reversed(_intolerable(pod, feasible))),
        (2, _spread(pod, feasible, cluster.view)),
        (2, _stretched(_pod_affinity(pod, feasible, cluster))),
    )
    rest = sum(weight * part for weight, part in parts if isinstance(part, int))
    for weight, part in parts:
        if not isinstance(part, int):
            totals = [total + weight * score + rest for total, score in zip(totals, part, strict=True)]
            rest = 0
    return [total + rest for total in totals] if rest else totals


def best_node(pod: Pod, feasible: Sequence[NodeView], cluster: Occupancy, seed: int, draw: str) -> NodeView:
    """The one with the highest score; the stream `draw` of the seed and the pod chooses among equals."""
    if len(feasible) == 1:
        return feasible[0]
    scores = total_scores(pod, feasible, cluster)
    high = max(scores)
    if scores.count(high) == 1:
        return feasible[scores.index(high)]
    best = [node for node, score in zip(feasible, scores, strict=True) if score == high]
    return best[stream(seed, pod.key, draw).randrange(len(best))]


def _resources(pod: Pod, feasible: Sequence[NodeView], cluster: Occupancy) -> list[int]:
    """LeastAllocated and BalancedAllocation, which have the same weight, together.

    They are known of most nodes: pods come in few sizes, and a pod changes one node. (10,000 pods on 1,050
    nodes, an hour: 1.0 s of scores instead of 3.8.)
    """
    counted, wanted = score_requests(pod), pod_requests(pod)
    size = counted[CPU], counted[MEMORY], wanted.get(CPU, 0), wanted.get(MEMORY, 0)
    found, known_of = [], cluster.known
    for node in feasible:
        known, used = known_of.get(node.name), node.used
        if known is None or known.used is not used or known.allocatable is not node.allocatable:
            known = known_of[node.name] = _Known(node.allocatable, used, {})
        score = known.scores.get(size)
        if score is None:
            if len(known.scores) >= _SIZES:
                known.scores.clear()
            there = cluster.requested.get(node.name, {})
            taken = {name: there.get(name, 0) + amount for name, amount in counted.items()}
            balance = _balanced(used, wanted, node.allocatable)
            score = known.scores[size] = _least_allocated(taken, node.allocatable) + balance
        found.append(score)
    return found


def _least_allocated(used: Mapping[str, int], room: Mapping[str, int]) -> int:
    scores = [
        max(0, room[name] - amount) * _TOP // room[name]
        for name, amount in used.items()
        if room.get(name, 0) > 0
    ]
    return sum(scores) // len(scores) if scores else 0


def _balanced(used: Mapping[str, int], wanted: Mapping[str, int], room: Mapping[str, int]) -> int:
    """50 for a node that stays as balanced as it is, more for one that the pod makes more balanced."""
    if room.get(CPU, 0) <= 0 or room.get(MEMORY, 0) <= 0:
        return _TOP // 2
    before = _balance(used.get(CPU, 0), used.get(MEMORY, 0), room)
    cpu, memory = (used.get(name, 0) + wanted.get(name, 0) for name in (CPU, MEMORY))
    return (_TOP + _balance(cpu, memory, room) - before) // 2


def _balance(cpu: int, memory: int, room: Mapping[str, int]) -> int:
    """100 less the standard deviation of the two shares in percent, which is half of their difference."""
    most_cpu, most_memory = room[CPU], room[MEMORY]
    apart = abs(min(cpu, most_cpu) * most_memory - min(memory, most_memory) * most_cpu)
    return _TOP - -(-apart * _TOP // (2 * most_cpu * most_memory))


# What a part gives each feasible node, in their order; a number where it is the same for all of them.
_Scores = list[int] | int


def _node_affinity(pod: Pod, feasible: Sequence[NodeView]) -> _Scores:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    terms = [(item.weight, node_term(item.preference)) for item in (affinity.preferred if affinity else ())]
    if not terms:
        return 0
    return [
        sum(weight for weight, term in terms if term.matches(node.name, node.labels)) for node in feasible
    ]


def _intolerable(pod: Pod, feasible: Sequence[NodeView]) -> _Scores:
    if not any(node.taints for node in feasible):
        return 0
    tolerations = [item for item in pod.spec.tolerations if item.effect in ("", PREFER_NO_SCHEDULE)]
    return [
        sum(
            taint.effect == PREFER_NO_SCHEDULE and not any(tolerates(item, taint) for item in tolerations)
            for taint in node.taints
        )
        for node in feasible
    ]


@dataclass(frozen=True, slots=True)
class _Soft:
    """A ScheduleAnyway constraint and the pods that it counts, per domain."""

    key: str
    max_skew: int
    per_domain: Mapping[str, int]


def _soft_rules(pod: Pod, view: ClusterView) -> list[_Soft]:
    meta, allowed = pod.metadata, node_rule(pod)
    if pod.spec.topology_spread_constraints:
        soft = (rule for rule in spread_rules(pod) if not rule.hard)
        return [
            _Soft(rule.key, rule.max_skew, view.counted_in(rule, ((), rule.key, allowed))) for rule in soft
        ]
    if meta.controller() is None:
        return []
    return [
        _Soft(key, skew, view.alike_in(meta.namespace, meta.labels, ((), key, allowed)))
        for key, skew in _DEFAULT_SPREAD
    ]


def _affinity_counts(
    rule: AffinityRule, namespaces: NamespaceLabels, namespace: str, marks: Mapping[str, str], _: bool
) -> bool:
    return rule.matches(namespace, marks, namespaces)


def _spread(pod: Pod, feasible: Sequence[NodeView], view: ClusterView) -> _Scores:
    """The emptiest gets the most; nodes that lack a label of the constraints get nothing."""
    rules = _soft_rules(pod, view)
    if not rules:
        return 0
    try:
        return _spread_over(feasible, rules, len(feasible))
    except KeyError:
        labelled = [all(rule.key in node.labels for rule in rules) for node in feasible]
        placed = [node for node, fine in zip(feasible, labelled, strict=True) if fine]
        scores = iter(_spread_over(placed, rules, len(feasible)))
        return [next(scores) if fine else 0 for fine in labelled]


def _spread_over(feasible: Sequence[NodeView], rules: Sequence[_Soft], nodes: int) -> list[int]:
    """Worked out once for nodes in the same domains, or, where a domain is one node, with as many pods: there
    are a few such of thousands. Raises KeyError for a node that lacks a label.
    """
    columns: list[list[int] | list[str]] = []
    for rule in rules:
        key, count = rule.key, rule.per_domain.get
        if key == labels.HOSTNAME:
            columns.append([count(node.labels[key], 0) for node in feasible])
        else:
            columns.append([node.labels[key] for node in feasible])
    sorts: list[tuple[int | str, ...]] = list(zip(*columns, strict=True))
    distinct = set(sorts)
    weights = []
    for index, rule in enumerate(rules):
        here = nodes if rule.key == labels.HOSTNAME else len({sort[index] for sort in distinct})
        weights.append(math.log(here + 2))
    totals = {}
    for sort in distinct:
        total = 0.0
        for rule, own, weight in zip(rules, sort, weights, strict=True):
            pods = own if isinstance(own, int) else rule.per_domain.get(own, 0)
            total += pods * weight + (rule.max_skew - 1)
        totals[sort] = round(total)
    low, high = min(totals.values(), default=0), max(totals.values(), default=0)
    scores = {
        sort: _TOP if high == 0 else _TOP * (high + low - total) // high for sort, total in totals.items()
    }
    return [scores[sort] for sort in sorts]


def _pod_affinity(pod: Pod, feasible: Sequence[NodeView], cluster: Occupancy) -> _Scores:
    """Sums of weights per domain: the pod's own preferences, then those of running pods about it."""
    view, meta = cluster.view, pod.metadata
    own = affinity_rules(pod)
    sums: dict[tuple[str, str], int] = {}

    def count(rule: AffinityRule, weight: int, per_node: Mapping[str, int]) -> None:
        for name, number in per_node.items():
            node = view.nodes.get(name)
            domain = node.labels.get(rule.key) if node is not None else None
            if domain is not None:
                sums[rule.key, domain] = sums.get((rule.key, domain), 0) + weight * number

    for rules, sign in ((own.preferred_affinity, 1), (own.preferred_anti_affinity, -1)):
        for rule in rules:
            matching = view.counts(partial(_affinity_counts, rule, cluster.view.namespaces))
            count(rule, sign * rule.weight, matching)
    for (rule, weight), nodes in cluster.wished.items():
        if rule.matches(meta.namespace, meta.labels, cluster.view.namespaces):
            count(rule, weight, nodes)
    if not sums:
        return 0
    return [
        sum(total for (key, domain), total in sums.items() if node.labels.get(key) == domain)
        for node in feasible
    ]


def _scaled(values: _Scores) -> _Scores:
    """The highest becomes 100."""
    if isinstance(values, int):
        return _TOP if values else 0
    high = max(values, default=0)
    return [value * _TOP // high for value in values] if high else values


def _reversed(values: _Scores) -> _Scores:
    """The highest becomes 0, 0 becomes 100."""
    if isinstance(values, int):
        return 0 if values else _TOP
    high = max(values, default=0)
    return [_TOP - value * _TOP // high for value in values] if high else _TOP


def _stretched(values: _Scores) -> _Scores:
    """The lowest becomes 0, the highest 100."""
    if isinstance(values, int):
        return 0
    low, high = min(values, default=0), max(values, default=0)
    return [(value - low) * _TOP // (high - low) for value in values] if high > low else 0
