"""Pods spread over domains such as zones that find no room there: seen from counts and free capacity.

Where nothing is bought, a plan leaves such pods although other domains have room for them: a new node where
there are too few of them suits better than a place that gives up the spread. What is said here is proven,
whatever plan would be made: all other rules and pods only take room away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dovetail.api.core import Pod, Taint, Toleration
from dovetail.base.memo import MOST_PODS, by_identity
from dovetail.disrupt.consolidation.demand import Asked, Demand, demand
from dovetail.disrupt.consolidation.question import NODES, Alike, Candidate, Question
from dovetail.model.affinity import required_anti_affinity
from dovetail.model.labels import ALIASES, HOSTNAME
from dovetail.model.occupancy import Counted
from dovetail.model.offering import InstanceType
from dovetail.model.pod_sorts import Sort, sort_of
from dovetail.model.problem import Budget, ExistingNode, Pool, Problem
from dovetail.model.requirement import Requirements
from dovetail.model.resources import LARGEST, Resources
from dovetail.model.spread import SpreadRule
from dovetail.model.taints import HARD_EFFECTS, untolerated
from dovetail.solve.budget import SolveBudget
from dovetail.solve.instance.instance import Instance

_PLENTY = 1 << 31  # pods on one node: more than there are


class Reach:
    """In which domains nodes may be bought for a pod, worked out once for questions about the same offers."""

    def __init__(self) -> None:
        self._offers: tuple[object, ...] = ()
        self._sold: Problem | None = None
        self._known: dict[tuple[Sort, str], frozenset[str]] = {}
        self._largest: dict[str, _Largest] = {}  # by pool

    def read(self, problem: Problem) -> None:
        """The offers are those of this problem from now on."""
        self._largest = {pool.name: self._of(pool) for pool in problem.pools if pool.limits is not None}
        # What a limit refuses is not certain, nor what pods would rather stay away from.
        certain = tuple(
            replace(pool, usage={}, limits=None)
            for pool in problem.pools
            if all(taint.effect != "PreferNoSchedule" for taint in pool.taints) and self._allowed(pool)
        )
        offers = certain, problem.daemonsets, problem.commons, problem.options
        if offers != self._offers:
            self._offers, self._known = offers, {}
        self._sold = replace(problem, pods=(), nodes=(), pools=certain)

    def _allowed(self, pool: Pool) -> bool:
        """True iff the limits of the pool allow one more node of any of its types."""
        if pool.limits is None:
            return True
        largest = self._largest[pool.name].capacity
        return all(
            pool.usage.get(name, 0) + largest.get(name, 0) <= most for name, most in pool.limits.items()
        )

    def _of(self, pool: Pool) -> _Largest:
        known = self._largest.get(pool.name)
        if known is not None and known.kinds is pool.instance_types and known.wanted == pool.requirements:
            return known
        return _Largest(pool.instance_types, pool.requirements)

    def of(self, pod: Pod, key: str) -> frozenset[str]:
        """Values of the label that new nodes for the pod may have for certain."""
        asked = sort_of(pod), key
        known = self._known.get(asked)
        if known is None:
            assert self._sold is not None
            instance = Instance(replace(self._sold, pods=(pod,)), SolveBudget(Budget()))
            reached = (instance.reachable(one, key) for one in instance.pod_classes)
            known = self._known[asked] = frozenset[str]().union(*reached)
        return known


class _Largest:
    """The most of each resource, and of nodes, that one node of the types takes which a pool may buy."""

    def __init__(self, kinds: tuple[InstanceType, ...], wanted: Requirements) -> None:
        self.kinds = kinds
        self.wanted = wanted
        most: dict[str, int] = {NODES: 1}
        for kind in kinds:
            if wanted.overlaps(kind.requirements):
                for name, amount in kind.capacity.items():
                    most[name] = max(amount, most.get(name, 0))
        self.capacity: Resources = most


@dataclass(frozen=True, slots=True)
class _Spread:
    """Pods of a sort and the domains of their spread: for each candidate its own node is left out."""

    key: str  # of the domains' label
    rule: SpreadRule
    slots: npt.NDArray[np.int64]  # of each node that takes pods: how many such pods it has room for
    domains: tuple[tuple[str, int, int], ...]  # that are reached: pods that the rule counts, room for more
    unreached: Mapping[str, int]  # domains -> nodes
    _known: dict[int, bool] = field(default_factory=dict)  # by the identity of what nodes hold

    def counts(self, one: Counted) -> bool:
        """True iff the rule counts such pods; nearly always the same object is meant by equal ones."""
        known = self._known.get(id(one))
        if known is None:
            known = self._known[id(one)] = _counts(self.rule, one)
        return known


class SpreadRoom:
    """Looks for spread pods of nodes that find no room on others that are quiet, in one question.

    With further nodes gone there is none either: their pods that are alike are as many more to be spread.
    """

    def __init__(self, question: Question, reach: Reach) -> None:
        self._problem = problem = question.problem
        self._reach = reach
        shut = question.closed | question.restless
        self._open = {node.name: node for node in problem.nodes if node.initialized and node.name not in shut}
        # Pods that keep others out of whole domains: whether one may be bought there is not certain.
        guards = (guard.pod for node in problem.nodes for guard in node.occupancy.guarded)
        self._guarded = any(map(_guards_domain, (*problem.pods, *guards)))
        self._by_name = {node.name: node for node in problem.nodes}
        self._counts: dict[SpreadRule, Counter[str]] = {}
        self._alike: dict[str, list[tuple[Counted, Counter[str]]]] = {}  # by key of a label
        self._nodes: dict[str, Counter[str]] = {}  # by key of a label, how many nodes each domain has
        # By that and what a pod asks for, how many such pods each domain has room for.
        self._room: dict[tuple[str, Asked, tuple[Toleration, ...]], Counter[str]] = {}
        self._sorts: dict[Sort, _Spread | None] = {}
        # Of nodes that take pods: their rows, how many of some pods each has room for, their domains by key
        # of a label, what is free by resource, hard taints.
        self._row = {name: row for row, name in enumerate(self._open)}
        self._slots: dict[tuple[Asked, tuple[Toleration, ...]], npt.NDArray[np.int64]] = {}
        self._tags: dict[str, tuple[tuple[str, ...], npt.NDArray[np.intp]]] = {}
        self._free: dict[str, npt.NDArray[np.int64]] = {}
        self._tainted: dict[tuple[Taint, ...], list[int]] = {}
        for row, node in enumerate(self._open.values()):
            if hard := _hard(node):
                self._tainted.setdefault(hard, []).append(row)
        reach.read(problem)

    def lacks(self, candidate: Candidate) -> bool:
        """True iff pods of the node are left wherever the others go, if nothing is bought for them."""
        if self._guarded or any(map(_guards_domain, candidate.pods)):
            return False
        return any(self._left(candidate, alike) for alike in candidate.spread)

    def _left(self, candidate: Candidate, alike: Alike) -> bool:
        sort = sort_of(alike.sample)
        if sort not in self._sorts:
            self._sorts[sort] = self._spread(alike.sample, alike.rule)
        spread = self._sorts[sort]
        if spread is None:
            return False
        own = self._by_name.get(candidate.name)
        at = own.labels.get(spread.key, "") if own is not None else ""
        # A domain that no node can be bought in may make the plan give up the spread after all.
        if any(name != at or own is None or number > 1 for name, number in spread.unreached.items()):
            return False
        here = (
            sum(number for one, number in own.occupancy.alike if spread.counts(one)) if own is not None else 0
        )
        row = self._row.get(candidate.name)
        less = int(spread.slots[row]) if row is not None else 0
        domains = [
            (there - here, room - less) if name == at else (there, room)
            for name, there, room in spread.domains
        ]
        return not shared_out(domains, alike.number, spread.rule.max_skew)

    def _spread(self, pod: Pod, rule: SpreadRule) -> _Spread | None:
        """None where nothing is certain of such pods."""
        if not (rule.hard or self._problem.options.respect_preferences):
            return None
        if any(rule.counts(one.metadata.namespace, one.metadata.labels) for one in self._problem.pods):
            return None
        key, asked = ALIASES.get(rule.key, rule.key), demand(pod)
        reached = self._reach.of(pod, key)
        if not reached or len(reached) < rule.min_domains:
            return None
        unreached = {name: number for name, number in self._in_domains(key).items() if name not in reached}
        counts, room = self._counted(rule, key), self._room_for(key, asked)
        domains = tuple((name, counts[name], room[name]) for name in sorted(reached))
        return _Spread(key, rule, self._slots_for(asked), domains, unreached)

    # Worked out for all nodes once: each of thousands of candidates has pods of several kinds to spread.

    def _in_domains(self, key: str) -> Counter[str]:
        found = self._nodes.get(key)
        if found is None:
            tags = (node.labels.get(key, "") for node in self._problem.nodes)
            found = self._nodes[key] = Counter(name for name in tags if name)
        return found

    def _counted(self, rule: SpreadRule, key: str) -> Counter[str]:
        """The pods that the rule counts, by domain."""
        counts = self._counts.get(rule)
        if counts is None:
            counts = self._counts[rule] = Counter()
            for one, there in self._present(key):
                if _counts(rule, one):
                    counts.update(there)
        return counts

    def _present(self, key: str) -> list[tuple[Counted, Counter[str]]]:
        """The pods that there are, those that are alike together, by domain."""
        found = self._alike.get(key)
        if found is None:
            groups: dict[int, tuple[Counted, Counter[str]]] = {}
            for node in self._problem.nodes:
                domain = node.labels.get(key, "")
                for one, number in node.occupancy.alike:
                    group = groups.get(id(one))  # nearly always the same object for equal ones
                    if group is None:
                        group = groups[id(one)] = one, Counter()
                    group[1][domain] += number
            found = self._alike[key] = [*groups.values()]
        return found

    def _room_for(self, key: str, asked: Demand) -> Counter[str]:
        known = self._room.get((key, asked.asked, asked.tolerations))
        if known is None:
            names, places = self._domains(key)
            sums = np.zeros(len(names), dtype=np.int64)
            np.add.at(sums, places, self._slots_for(asked))
            known = self._room[key, asked.asked, asked.tolerations] = Counter(
                dict(zip(names, sums.tolist(), strict=True))
            )
        return known

    def _domains(self, key: str) -> tuple[tuple[str, ...], npt.NDArray[np.intp]]:
        """The domains of nodes that take pods, and the place of each node's among them."""
        found = self._tags.get(key)
        if found is None:
            place: dict[str, int] = {}
            tags = [place.setdefault(node.labels.get(key, ""), len(place)) for node in self._open.values()]
            found = self._tags[key] = tuple(place), np.array(tags, dtype=np.intp)
        return found

    def _slots_for(self, asked: Demand) -> npt.NDArray[np.int64]:
        """How many such pods each node that takes pods has room for at most, whatever else comes there."""
        key = asked.asked, asked.tolerations
        slots = self._slots.get(key)
        if slots is None:
            slots = np.full(len(self._open), _PLENTY, dtype=np.int64)
            for name, most in asked.asked:
                if most > 0:
                    np.minimum(slots, self._free_of(name) // most, out=slots)
            for hard, rows in self._tainted.items():
                if untolerated(hard, asked.tolerations):
                    slots[rows] = 0
            slots = self._slots[key] = np.maximum(slots, 0)
        return slots

    def _free_of(self, name: str) -> npt.NDArray[np.int64]:
        found = self._free.get(name)
        if found is None:
            rest = (
                node.allocatable.get(name, 0) - node.occupancy.requests.get(name, 0)
                for node in self._open.values()
            )
            amounts = [max(-LARGEST, min(amount, LARGEST)) for amount in rest]
            found = self._free[name] = np.array(amounts, dtype=np.int64)
        return found


def shared_out(domains: list[tuple[int, int]], pods: int, skew: int) -> bool:
    """Whether so many pods may go to domains with these (pods that are there, room), none of which then has
    more than `skew` above the least one.
    """
    least = min(there for there, _ in domains)
    for level in range(least, least + pods + 1):
        must = [max(0, level - there) for there, _ in domains]
        if any(number > room for number, (_, room) in zip(must, domains, strict=True)):
            return False
        most = [max(0, min(level + skew - there, room)) for there, room in domains]
        if sum(must) <= pods <= sum(most):
            return True
    return False


def _hard(node: ExistingNode) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.taints if taint.effect in HARD_EFFECTS)


def _counts(rule: SpreadRule, one: Counted) -> bool:
    namespace, labels, deleting = one
    return not deleting and rule.counts(namespace, labels)


@by_identity(MOST_PODS)
def _guards_domain(pod: Pod) -> bool:
    terms = required_anti_affinity(pod)
    return any(ALIASES.get(term.topology_key, term.topology_key) != HOSTNAME for term in terms)
