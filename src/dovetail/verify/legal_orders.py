"""Orders in which pods may take their places: each must be allowed where it goes at its own turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from dovetail.model.affinity import NamespaceLabels
from dovetail.model.cluster_view import ClusterView, NodeView, PodFacts
from dovetail.model.filters import (
    Domain,
    Neighbours,
    Reasons,
    SpreadCount,
    counts_in_spread,
    inter_pod,
    keys_beside,
    neighbours,
    spread,
    spread_counts,
)
from dovetail.model.labels import HOSTNAME
from dovetail.model.spread import SpreadRule


@dataclass(frozen=True, slots=True)
class Step:
    """One placement of the plan."""

    facts: PodFacts
    node: str
    kind: int  # equal for pods that every rule between pods judges alike

    @property
    def group(self) -> tuple[str, int]:
        """Equal for steps that every rule between pods judges alike."""
        return self.node, self.kind


class Kinds:
    """Numbers the kinds of pods that rules between pods tell apart."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[PodFacts, int]] = {}  # by the identity of facts, which are held

    def of(self, facts: PodFacts) -> int:
        """The kind of a pod."""
        known = self._known.get(id(facts))
        if known is None:
            labels, tolerations = tuple(sorted(facts.labels.items())), facts.pod.spec.tolerations
            alike = facts.namespace, labels, facts.spread, facts.affinity, facts.node_rule, tolerations
            known = self._known[id(facts)] = facts, self._numbers.setdefault(alike, len(self._numbers))
        return known[1]


Beside = tuple[set[str], set[str], set[str]]  # as `keys_beside` has it
Stuck = list[tuple[Step, str]]  # steps that found no turn, with what stops them
# A spread rule and one of its domains -> how much the pods that obey the rule there are to be spared.
Weights = dict[tuple[SpreadRule, str], int]
_HEAVIER = 4


def in_turns(view: ClusterView, order: Iterable[Step]) -> list[Step]:
    """The steps with those that obey spreads in turns: one of each domain, then a second of each."""
    turns: Counter[Hashable] = Counter()
    ranked: list[tuple[int, Step]] = []
    for step in order:
        rules, labels = step.facts.spread, view.nodes[step.node].labels
        domain = rules, tuple(labels.get(rule.key) for rule in rules if rule.key != HOSTNAME)
        turns[domain] += bool(rules)
        ranked.append((turns[domain], step))
    return [step for _, step in sorted(ranked, key=lambda pair: pair[0])]


@dataclass(frozen=True, slots=True)
class _Around:
    """What surrounds pods of one kind, kept up to date while others take their places."""

    facts: PodFacts  # of one of them
    spread: tuple[SpreadCount, ...]
    friends: set[Domain]
    foes: set[Domain]
    closed: set[Domain]
    alone: bool  # it would do as its own friend

    @staticmethod
    def of(facts: PodFacts, view: ClusterView) -> _Around:
        found = neighbours(facts, view)
        rules = facts.affinity.affinity
        alone = all(rule.matches(facts.namespace, facts.labels, view.namespaces) for rule in rules)
        counts = spread_counts(facts, view)
        return _Around(facts, counts, set(found.friends), set(found.foes), set(found.closed), alone)

    def refuses(self, node: NodeView) -> Reasons:
        """Why one more of them may not be on the node."""
        refused = spread(self.spread, node)
        if refused:
            return refused
        first = self.alone and not self.friends
        return inter_pod(self.facts, Neighbours(self.friends, self.foes, self.closed, first), node)

    def concerned(self, other: PodFacts, namespaces: NamespaceLabels) -> Beside | None:
        """The labels of domains that such a pod makes friends, foes or closed ones; None if it is of no
        concern, whatever its node.
        """
        rules = self.facts.affinity
        if not (self.spread or rules.affinity or rules.anti_affinity or other.affinity.anti_affinity):
            return None  # neither has a rule: most pairs of kinds
        keys = keys_beside(self.facts, other, namespaces)
        counted = any(item.rule.counts(other.namespace, other.labels) for item in self.spread)
        return keys if counted or any(keys) else None

    def joined(self, other: PodFacts, node: NodeView, keys: Beside) -> None:
        """Another pod is on the node from now on."""
        for item in self.spread:
            if counts_in_spread(item.rule, self.facts, node, other):
                domain = node.labels[item.rule.key]
                item.counts[domain] = item.counts.get(domain, 0) + 1
        for domains, made in zip((self.friends, self.foes, self.closed), keys, strict=True):
            domains.update((key, node.labels[key]) for key in made if key in node.labels)


class _Turns:
    """Whether a step may have its turn now."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._kinds: dict[int, _Around] = {}
        # Per kind: how many of the kinds above were asked whether it concerns them, and those that it does.
        self._concerned: dict[int, tuple[int, list[tuple[_Around, Beside]]]] = {}

    def refuses(self, step: Step) -> Reasons:
        """Why it may not."""
        around = self._kinds.get(step.kind)
        if around is None:
            around = self._kinds[step.kind] = _Around.of(step.facts, self._view)
        return around.refuses(self._view.nodes[step.node])

    def take(self, step: Step) -> None:
        """It has had its turn."""
        self._view.add_pod(step.facts.pod, step.node)
        node = self._view.nodes[step.node]
        asked, concerned = self._concerned.get(step.kind, (0, []))
        if asked < len(self._kinds):
            for around in islice(self._kinds.values(), asked, None):
                keys = around.concerned(step.facts, self._view.namespaces)
                if keys is not None:
                    concerned.append((around, keys))
            self._concerned[step.kind] = len(self._kinds), concerned
        for around, keys in concerned:
            around.joined(step.facts, node, keys)


def eager(view: ClusterView, order: Iterable[Step]) -> Stuck:
    """Place whatever may be placed, round after round."""
    return _rounds(view, list(order), lambda _: 0, lambda _: None)


def considerate(view: ClusterView, steps: Sequence[Step], weights: Weights) -> Stuck:
    """Place first what takes no other pod's turn; then, one at a time, what does least harm.

    A pod takes turns from those that obey a spread that counts it, if its domain is then as full as the skew
    allows. Where that leaves steps without a turn, `weights` are raised for them: try again with these.
    """
    queue = _Queue(view, steps, weights)
    stuck = _rounds(view, list(steps), queue.harm, queue.placed)
    for step, _ in stuck:
        for part in queue.parts(step):
            if part.obeys:
                key = queue.rules[part.rule], part.domain
                weights[key] = weights.get(key, 1) * _HEAVIER
    return stuck


def _rounds(
    view: ClusterView, left: list[Step], harm: Callable[[Step], int], placed: Callable[[Step], None]
) -> Stuck:
    """Rounds over the steps, those first that do no harm; what is left when a round places nothing."""
    allowed, turns = 0, _Turns(view)
    while left:
        refused: dict[Hashable, str] = {}
        later: list[Step] = []
        harms: list[int] = []  # of steps that were held back
        for step in left:
            later.append(step)
            if step.group in refused:
                continue
            cost = harm(step)
            if cost > allowed:
                harms.append(cost)
                continue
            reasons = turns.refuses(step)
            if reasons:
                refused[step.group] = reasons[0].text
                continue
            turns.take(step)
            placed(step)
            later.pop()
            allowed = 0
        if len(later) == len(left):
            if not harms:
                return [(step, refused[step.group]) for step in left]
            allowed = min(harms)
        left = later
    return []


@dataclass(frozen=True, slots=True)
class _Part:
    """What a step has to do with a spread rule."""

    rule: int
    domain: str
    obeys: bool
    counted: bool


class _Queue:
    """Per spread rule and domain: pods that are counted by now, and pods that obey it and still wait."""

    def __init__(self, view: ClusterView, steps: Sequence[Step], weights: Weights) -> None:
        self.rules = list(dict.fromkeys(rule for step in steps for rule in step.facts.spread))
        self._weights = weights
        self._index = {rule: index for index, rule in enumerate(self.rules)}
        self._view = view
        self._counting: dict[Hashable, frozenset[int]] = {}
        self._counted: list[Counter[str]] = [Counter() for _ in self.rules]
        self._waiting: list[Counter[str]] = [Counter() for _ in self.rules]
        for index, rule in enumerate(self.rules):
            for node in view.nodes.values():
                if rule.key in node.labels:
                    present = (rule.counts(item.namespace, item.labels) for item in node.pods.values())
                    self._counted[index][node.labels[rule.key]] += sum(present)
        for step in steps:
            for part in self.parts(step):
                self._waiting[part.rule][part.domain] += part.obeys

    def parts(self, step: Step) -> list[_Part]:
        """What the step has to do with each rule whose label its node has."""
        facts, labels = step.facts, self._view.nodes[step.node].labels
        own = {self._index[rule] for rule in facts.spread}
        counting = self._counted_by(facts)
        return [
            _Part(index, labels[self.rules[index].key], index in own, index in counting)
            for index in sorted(own | counting)
            if self.rules[index].key in labels
        ]

    def harm(self, step: Step) -> int:
        """How many waiting pods, weighted, the step would leave without a turn for now."""
        total = 0
        for part in self.parts(step):
            rule = self.rules[part.rule]
            waiting = self._waiting[part.rule][part.domain] - part.obeys
            if waiting and part.counted:
                after = self._counted[part.rule][part.domain] + 1 - self._least(part.rule)
                if after + rule.selects_self > rule.max_skew:
                    total += waiting * self._weights.get((rule, part.domain), 1)
        return total

    def placed(self, step: Step) -> None:
        """The step has had its turn."""
        for part in self.parts(step):
            self._counted[part.rule][part.domain] += part.counted
            self._waiting[part.rule][part.domain] -= part.obeys

    def _least(self, index: int) -> int:
        if self.rules[index].key == HOSTNAME:
            return 0
        return min(self._counted[index].values(), default=0)

    def _counted_by(self, facts: PodFacts) -> frozenset[int]:
        key = facts.namespace, tuple(sorted(facts.labels.items()))
        known = self._counting.get(key)
        if known is None:
            found = (
                index for index, rule in enumerate(self.rules) if rule.counts(facts.namespace, facts.labels)
            )
            known = self._counting[key] = frozenset(found)
        return known
