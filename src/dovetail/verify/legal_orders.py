"""Orders in which pods may take their places: each must be allowed where it goes at its own turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from dovetail.model.filters import ClusterView, Placement, PodFacts
from dovetail.model.labels import HOSTNAME
from dovetail.model.spread import SpreadRule


@dataclass(frozen=True, slots=True)
class Step:
    """One placement of the plan."""

    facts: PodFacts
    node: str

    @property
    def group(self) -> Hashable:
        """Equal for steps that every rule between pods judges alike."""
        labels = tuple(sorted(self.facts.labels.items()))
        facts = self.facts
        tolerations = facts.pod.spec.tolerations
        return self.node, facts.namespace, labels, facts.spread, facts.affinity, facts.node_rule, tolerations


Stuck = list[tuple[Step, str]]  # steps that found no turn, with what stops them
# A spread rule and one of its domains -> how much the pods that obey the rule there are to be spared.
Weights = dict[tuple[SpreadRule, str], int]
_HEAVIER = 4


def eager(view: ClusterView, order: Iterable[Step]) -> Stuck:
    """Place whatever may be placed, round after round."""
    return _rounds(view, list(order), lambda _: 0, lambda _: None)


def considerate(view: ClusterView, steps: Sequence[Step], weights: Weights) -> Stuck:
    """Place first what takes no other pod's turn; then, one at a time, what does least harm.

    A pod takes turns from those who obey a spread that counts it, if its domain is then as full as the skew
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
    allowed = 0
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
            reasons = Placement(step.facts.pod, view).together(view.nodes[step.node])
            if reasons:
                refused[step.group] = reasons[0].text
                continue
            view.add_pod(step.facts.pod, step.node)
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
