"""What a pod and its volumes demand of a node's labels: one alternative at a time."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.api.core import Pod
from dovetail.explain import words
from dovetail.explain.miss import Change
from dovetail.model.label_values import Requirement
from dovetail.model.pod_rules import rules_of
from dovetail.model.requirement import Requirements
from dovetail.model.volumes import VolumeIndex, volume_alternatives


@dataclass(frozen=True, slots=True)
class Wanted:
    """Demands that hold together."""

    labels: Requirements
    volumes: Requirements
    needed: frozenset[str]  # labels that must be there
    who: str = "the pod needs"

    def needs(self, item: Requirement) -> bool:
        """True iff the label must be there."""
        return item.key in self.needed or not item.allows_absence()

    def contradicts(self, item: Requirement) -> bool:
        """True iff the label must be there and may have no value at all."""
        return len(item) == 0 and item.key in self.needed


def alternatives(pod: Pod, volumes: VolumeIndex) -> tuple[Wanted, ...]:
    """Each term of the required affinity with each way to reach the volumes; none if no term can hold."""
    rules = rules_of(pod, respect_preferences=False)
    ways = volume_alternatives(pod, volumes) or (Requirements(),)
    found = []
    for term in ((),) if rules.terms is None else rules.terms:
        demands = (*rules.selector, *term)
        needed = frozenset(item.key for item in demands if not item.allows_absence())
        found += [Wanted(Requirements.of(demands), way, needed) for way in ways]
    return tuple(found)


def label_change(item: Requirement) -> Change:
    """No longer asking anything of that label."""
    avoids = not item.complement and not item.values
    order = f"allow a label {words.label(item.key)}" if avoids else f"do not ask for {words.demand(item)}"
    return Change("label", order, item.key)


def either(item: Requirement) -> Change:
    """For demands that exclude each other: none on that label."""
    return Change("label", f"drop what it asks of {words.label(item.key)}", item.key)
