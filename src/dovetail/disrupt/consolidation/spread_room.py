"""Pods spread over domains such as zones that find no room there: seen from counts and free capacity.

Where nothing is bought, a plan leaves such pods although other domains have room for them: a new node where
there are too few of them suits better than a place that gives up the spread. What is said here is proven,
whatever plan would be made: all other rules and pods only take room away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from dovetail.api.core import Pod
from dovetail.base.memo import by_identity
from dovetail.disrupt.consolidation.demand import Demand, demand
from dovetail.disrupt.consolidation.question import Alike, Candidate, Question
from dovetail.model.affinity import required_anti_affinity
from dovetail.model.labels import ALIASES, HOSTNAME
from dovetail.model.problem import Budget, ExistingNode, Problem
from dovetail.model.spread import SpreadRule
from dovetail.model.taints import HARD_EFFECTS, untolerated
from dovetail.solve.budget import SolveBudget
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.interning import Sort, sort_of


class Reach:
    """In which domains nodes may be bought for a pod, worked out once for questions about the same offers."""

    def __init__(self) -> None:
        self._offers: tuple[object, ...] = ()
        self._sold: Problem | None = None
        self._known: dict[tuple[Sort, str], frozenset[str]] = {}

    def read(self, problem: Problem) -> None:
        """The offers are those of this problem from now on."""
        # What a limit ends is not certain, nor what pods would rather stay away from.
        pools = (replace(pool, usage={}) for pool in problem.pools if pool.limits is None)
        certain = tuple(
            pool for pool in pools if all(taint.effect != "PreferNoSchedule" for taint in pool.taints)
        )
        offers = certain, problem.daemonsets, problem.commons, problem.options
        if offers != self._offers:
            self._offers, self._known = offers, {}
        self._sold = replace(problem, pods=(), nodes=(), pools=certain)

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


class SpreadRoom:
    """Looks for spread pods of nodes that find no room on others that are quiet, in one question.

    With further nodes gone there is none either: their pods that are alike are as many more to be spread.
    """

    def __init__(self, question: Question, reach: Reach) -> None:
        self._problem = problem = question.problem
        self._reach = reach
        shut = question.closed | question.restless
        self._open = [node for node in problem.nodes if node.initialized and node.name not in shut]
        # Pods that keep others out of whole domains: whether one may be bought there is not certain.
        guards = (guard.pod for node in problem.nodes for guard in node.occupancy.guarded)
        self._guarded = any(map(_guards_domain, (*problem.pods, *guards)))
        self._by_name = {node.name: node for node in problem.nodes}
        self._counts: dict[SpreadRule, Mapping[str, int]] = {}
        reach.read(problem)

    def lacks(self, candidate: Candidate) -> bool:
        """True iff pods of the node are left wherever the others go, if nothing is bought for them."""
        if self._guarded or any(map(_guards_domain, candidate.pods)):
            return False
        return any(self._left(candidate, alike) for alike in candidate.spread)

    def _left(self, candidate: Candidate, alike: Alike) -> bool:
        pod, rule = alike.sample, alike.rule
        if not (rule.hard or self._problem.options.respect_preferences):
            return False
        if any(rule.counts(one.metadata.namespace, one.metadata.labels) for one in self._problem.pods):
            return False
        key = ALIASES.get(rule.key, rule.key)
        own = self._by_name.get(candidate.name)
        domains = {node.labels.get(key, "") for node in self._problem.nodes if node is not own} - {""}
        reached = self._reach.of(pod, key)
        # A domain that no node can be bought in may make the plan give up the spread after all.
        if not reached or not domains <= reached or len(reached) < rule.min_domains:
            return False
        counts = self._counts.get(rule)
        if counts is None:
            counts = self._counts[rule] = _counted(self._problem.nodes, rule, key)
        here = _counted([own] if own is not None else [], rule, key)
        room: Counter[str] = Counter()
        asked = demand(pod)
        for node in self._open:
            if node is not own:
                room[node.labels.get(key, "")] += _slots(node, asked)
        return not shared_out(
            [(counts.get(name, 0) - here.get(name, 0), room[name]) for name in sorted(reached)],
            alike.number,
            rule.max_skew,
        )


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


def _slots(node: ExistingNode, asked: Demand) -> int:
    """How many such pods it has room for at most, whatever else comes there."""
    hard = (taint for taint in node.taints if taint.effect in HARD_EFFECTS)
    if untolerated(hard, asked.tolerations):
        return 0
    there, taken = node.allocatable, node.occupancy.requests
    each = ((there.get(name, 0) - taken.get(name, 0)) // most for name, most in asked.asked if most > 0)
    return max(0, min(each))


def _counted(nodes: Iterable[ExistingNode], rule: SpreadRule, key: str) -> Mapping[str, int]:
    """The pods that the rule counts, by domain."""
    found: Counter[str] = Counter()
    known: dict[int, bool] = {}  # by the identity of labels
    for node in nodes:
        for (namespace, labels, deleting), number in node.occupancy.alike:
            counts = known.get(id(labels))
            if counts is None:
                counts = known[id(labels)] = rule.counts(namespace, labels)
            if counts and not deleting:
                found[node.labels.get(key, "")] += number
    return found


@by_identity(32_768)
def _guards_domain(pod: Pod) -> bool:
    terms = required_anti_affinity(pod)
    return any(ALIASES.get(term.topology_key, term.topology_key) != HOSTNAME for term in terms)
