"""What one pod demands of its node, and the preferences that it gives up one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from dovetail.api.core import (
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from dovetail.model.requirement import Requirement, Requirements, meetable

# Demands on labels as they were written, several on one key not yet merged.
Demands = tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """A pod's demands at one level of relaxation. Preferred lists are heaviest first."""

    selector: Demands
    terms: tuple[Demands, ...] | None  # alternatives; None: no required affinity; (): none can hold
    preferred_node: tuple[Demands, ...] = ()
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti: tuple[PodAffinityTerm, ...] = ()
    preferred_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_anti: tuple[PodAffinityTerm, ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()
    preferred_spread: tuple[TopologySpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    soft_taints: bool = True  # True: PreferNoSchedule taints keep the pod away unless tolerated
    # Known once something asked.
    _needed: frozenset[str] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def hopeless(self) -> bool:
        """True iff no node at all meets the required affinity."""
        return self.terms == ()

    def required(self) -> tuple[Requirements, ...]:
        """The strict demands on labels: alternatives, of which one must hold."""
        if self.terms is None:
            return (Requirements.of(self.selector),)
        return tuple(Requirements.of((*self.selector, *term)) for term in self.terms)

    def wanted(self) -> Requirements:
        """The demands on labels at this level: the first alternative and the heaviest preference."""
        return Requirements.of(self._demands())

    def needed(self) -> frozenset[str]:
        """Labels that must be there: "not in" together with "exists" do not show in the set of values."""
        if self._needed is None:
            needed = frozenset([item.key for item in self._demands() if not item.allows_absence()])
            object.__setattr__(self, "_needed", needed)
            return needed
        return self._needed

    @property
    def contradictory(self) -> bool:
        """True iff no value of some label is left, although the label must be there."""
        needed = self.needed()
        return any(item.allows_absence() and len(item) == 0 and item.key in needed for item in self.wanted())

    def _demands(self) -> Demands:
        first = self.terms[0] if self.terms else ()
        preferred = self.preferred_node[0] if self.preferred_node else ()
        return (*self.selector, *first, *preferred)


def rules_of(pod: Pod, *, respect_preferences: bool) -> Rules:
    """A pod's rules before anything is given up."""
    spec = pod.spec
    affinity = spec.affinity
    node = affinity.node_affinity if affinity else None
    together = affinity.pod_affinity if affinity else None
    apart = affinity.pod_anti_affinity if affinity else None
    strict = [one for one in spec.topology_spread_constraints if one.when_unsatisfiable != "ScheduleAnyway"]
    anyway = [one for one in spec.topology_spread_constraints if one.when_unsatisfiable == "ScheduleAnyway"]
    terms = None
    if node and node.required is not None:
        every = node.required.node_selector_terms
        # Fields name a node that exists; no new node can be meant, and existing ones are rarely named so.
        terms = tuple(
            _read(term)
            for term in every
            if term.match_expressions and not term.match_fields and meetable(term)
        )
    rules = Rules(
        selector=tuple(Requirement.new(key, "In", (value,)) for key, value in spec.node_selector.items()),
        terms=terms,
        affinity=together.required if together else (),
        anti=apart.required if apart else (),
        spread=tuple(strict),
        tolerations=spec.tolerations,
        soft_taints=respect_preferences,
    )
    if not respect_preferences or not (node or together or apart or anyway):
        return rules
    preferred = sorted(node.preferred, key=lambda item: -item.weight) if node else []
    return replace(
        rules,
        preferred_node=tuple(_read(item.preference) for item in preferred),
        preferred_affinity=_heaviest_first(together),
        preferred_anti=_heaviest_first(apart),
        preferred_spread=tuple(anyway),
    )


def _heaviest_first(terms: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    ordered = sorted(terms.preferred, key=lambda item: -item.weight) if terms else []
    return tuple(item.pod_affinity_term for item in ordered)


def _read(term: NodeSelectorTerm) -> Demands:
    return tuple(Requirement.read(item) for item in term.match_expressions)


OTHER_TERM = "required node affinity term"  # an alternative is passed over: nothing that was promised is lost


# So many preferences about other pods, and so many spreads, are given up one at a time; with more, the rest
# goes in as many steps again, several at once: each step looks at all that are left.
_SINGLE = 64


def levels(rules: Rules, *, soft_taints_exist: bool) -> Iterator[tuple[Rules, tuple[str, ...]]]:
    """The rules as they are, then with the next thing given up each time, and the words for what this was.

    After the last, every alternative of the required affinity is tried once more without any preference:
    the documented order drops alternatives first, which may drop the only one that works. Each level takes
    constant time and memory but where preferences about other pods or spreads go: there, of n of them, it
    takes n, and there are no more than 128 such levels of each kind. Of alternatives and of
    preferred node affinity each level has the one that counts.
    """
    terms, preferred, spread = rules.terms or (), rules.preferred_node, rules.preferred_spread
    now = replace(rules, terms=terms[:1] if terms else rules.terms, preferred_node=preferred[:1])
    yield now, ()
    for term in terms[1:]:
        now = replace(now, terms=(term,))
        yield now, (OTHER_TERM,)
    near, apart = rules.preferred_affinity, rules.preferred_anti
    for start, end in _steps(len(near)):
        now = replace(now, preferred_affinity=near[end:])
        yield now, ("preferred pod affinity",) * (end - start)
    for start, end in _steps(len(apart)):
        now = replace(now, preferred_anti=apart[end:])
        yield now, ("preferred pod anti-affinity",) * (end - start)
    for index in range(len(preferred)):
        now = replace(now, preferred_node=preferred[index + 1 : index + 2])
        yield now, ("preferred node affinity",)
    # In this order they go: of those that are left the first, whose place the last then takes.
    turns = (*spread[:1], *spread[:0:-1])
    for start, end in _steps(len(spread)):
        kept = turns[end:]
        now = replace(now, preferred_spread=(*kept[:1], *kept[:0:-1]))
        yield now, tuple([f"topology spread on {item.topology_key}" for item in turns[start:end]])
    if rules.soft_taints and soft_taints_exist:
        now = replace(now, soft_taints=False)
        yield now, ("PreferNoSchedule taints",)
    for term in terms[:-1]:
        yield replace(now, terms=(term,)), ()


def _steps(count: int) -> Iterator[tuple[int, int]]:
    """How many of so many things are gone before and after each step."""
    rest = max(0, count - _SINGLE)
    ends = [*range(1, min(count, _SINGLE) + 1)]
    steps = range(1, _SINGLE + 1) if rest else ()
    ends += sorted({_SINGLE + rest * step // _SINGLE for step in steps} - {_SINGLE})
    yield from zip((0, *ends[:-1]), ends, strict=True) if ends else ()
