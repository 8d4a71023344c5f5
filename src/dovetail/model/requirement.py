"""Requirements on labels: what must hold of each key, and whether a node's side can satisfy a pod's.

Texts are those that users of Karpenter know from events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from dovetail.api.core import NodeSelector, NodeSelectorTerm, Pod, SelectorRequirement
from dovetail.model.label_values import INFINITE, Requirement, SelectorLike
from dovetail.model.labels import ALIASES

# Characters of what is remembered at most, and so many entries. Measured with tracemalloc: a node's 20 labels
# and a pod's two take 11 KiB where both are new; the largest, 64 labels each, 61 KiB, and 31 KiB where
# the node was there before. To hold a label takes as much as some more characters.
SMALL_TOGETHER = 8_192
_REMEMBERED = 4_096
_PER_KEY = 96
_SHOWN_REASONS = 10  # of why labels do not suit
_SHOWN_KEYS = 100  # a NodePool has no more; a pod may
_OF_A_VALUE = frozenset({"In", "Gt", "Gte", "Lt", "Lte"})  # operators that the label must have a value for

__all__ = ["INFINITE", "Requirement", "Requirements", "SelectorLike", "meetable", "pod_requirements"]


@dataclass(frozen=True, slots=True)
class Requirements:
    """One requirement per key, all of which hold, in key order. Frozen: `add` answers a new value."""

    by_key: Mapping[str, Requirement] = field(default_factory=dict)
    _hash: int = field(default=0, init=False, repr=False, compare=False)
    # Characters of all keys and values, once the hash was asked for.
    _length: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_key", dict(sorted(self.by_key.items())))

    @staticmethod
    def of(requirements: Iterable[Requirement]) -> Requirements:
        """All of them; several on one key are intersected."""
        by_key: dict[str, Requirement] = {}
        several: dict[str, list[Requirement]] = {}
        for item in requirements:
            known = by_key.setdefault(item.key, item)
            if known is not item or item.key in several:
                several.setdefault(item.key, [known]).append(item)
        for key, items in several.items():
            by_key[key] = Requirement.all_of(items)
        return Requirements(by_key)

    @staticmethod
    def read(items: Iterable[SelectorLike]) -> Requirements:
        """All that a list of an API object spells out."""
        return Requirements.of(Requirement.read(item) for item in items)

    @staticmethod
    def from_labels(labels: Mapping[str, str]) -> Requirements:
        """Exactly these labels: one In per key."""
        return Requirements.of(Requirement.new(key, "In", (value,)) for key, value in labels.items())

    @staticmethod
    def from_node_selector_terms(terms: Iterable[NodeSelectorTerm]) -> tuple[Requirements, ...]:
        """One alternative per term, in order. A term without expressions matches no node and is left out."""
        return tuple(Requirements.read(term.match_expressions) for term in terms if term.match_expressions)

    def __reduce__(self) -> tuple[object, ...]:
        """Without the hash, which holds in this process alone."""
        return Requirements, (self.by_key,)

    def __hash__(self) -> int:
        if self._hash == 0:
            object.__setattr__(self, "_hash", hash(tuple(self.by_key.values())) or 1)
            lengths = [_PER_KEY + item.length for item in self.by_key.values()]
            object.__setattr__(self, "_length", sum(lengths))
        return self._hash

    @property
    def length(self) -> int:
        """Characters of all keys and values; to hold one takes as much as some more of them."""
        hash(self)
        return self._length

    def __iter__(self) -> Iterator[Requirement]:
        return iter(self.by_key.values())

    def __len__(self) -> int:
        return len(self.by_key)

    def __str__(self) -> str:
        shown = [str(item) for item in islice(self, _SHOWN_KEYS)]
        if len(self) > _SHOWN_KEYS:
            shown.append(f"and {len(self) - _SHOWN_KEYS} others")
        return ", ".join(shown)

    def has(self, key: str) -> bool:
        """True iff something is required of this key."""
        return ALIASES.get(key, key) in self.by_key

    def get(self, key: str) -> Requirement:
        """What is required of a key; Exists, which allows everything, when nothing is."""
        key = ALIASES.get(key, key)
        return self.by_key.get(key) or Requirement.new(key, "Exists")

    def add(self, *requirements: Requirement) -> Requirements:
        """These as well."""
        return Requirements.of((*self, *requirements)) if requirements else self

    def compatible(self, other: Requirements, well_known: frozenset[str] = frozenset()) -> str:
        """'' iff a node of this kind can satisfy `other`, else why not.

        The receiver is the node's side. A label that the node's side leaves open may be demanded only when it
        is well known: no node would have another. Where much does not suit, only the first is named.
        """
        if self.suits(other, well_known):
            return ""
        unknown = islice(self._unknown(other, well_known), _SHOWN_REASONS)
        texts = [
            f'label "{item.key}" does not have known values{_typo_hint(self, item.key, well_known)}'
            for item in unknown
        ]
        return "; ".join(filter(None, (*texts, self.intersects(other))))

    def suits(self, other: Requirements, well_known: frozenset[str] = frozenset()) -> bool:
        """True iff a node of this kind can satisfy `other`: `compatible` without the reason."""
        small = self.length <= SMALL_TOGETHER and other.length <= SMALL_TOGETHER
        return (_suits if small else _suits.__wrapped__)(self, other, well_known)

    def _unknown(self, other: Requirements, well_known: frozenset[str]) -> Iterator[Requirement]:
        """What is demanded of labels that no node would have."""
        return (
            item
            for item in other
            if item.key not in well_known and item.key not in self.by_key and not item.allows_absence()
        )

    def intersects(self, other: Requirements) -> str:
        """'' iff every shared key has a value that both allow, or may be absent for both; else why not.

        Where many have none, only the first are named.
        """
        return "; ".join(
            f"key {incoming.key}, {incoming} not in {existing}"
            for existing, incoming in islice(self._disjoint(other), _SHOWN_REASONS)
        )

    def overlaps(self, other: Requirements) -> bool:
        """True iff every shared key has a value that both allow, or may be absent for both."""
        mine, others = self.by_key, other.by_key
        for key in mine if len(mine) <= len(others) else others:
            existing, incoming = mine.get(key), others.get(key)
            if (
                existing is not None
                and incoming is not None
                and not existing.has_intersection(incoming)
                and not (existing.allows_absence() and incoming.allows_absence())
            ):
                return False
        return True

    def _disjoint(self, other: Requirements) -> Iterator[tuple[Requirement, Requirement]]:
        shorter = min(self.by_key, other.by_key, key=len)  # both are in key order
        for key in shorter:
            existing, incoming = self.by_key.get(key), other.by_key.get(key)
            if (
                existing is not None
                and incoming is not None
                and not existing.has_intersection(incoming)
                and not (existing.allows_absence() and incoming.allows_absence())
            ):
                yield existing, incoming

    def labels(self, exclude: Collection[str] = ()) -> dict[str, str]:
        """One allowed value per key, without the keys in `exclude` and those that must be absent."""
        chosen = {item.key: item.any_value() for item in self if item.key not in exclude}
        return {key: value for key, value in chosen.items() if value}

    def selector_requirements(self) -> tuple[SelectorRequirement, ...]:
        """As node selector expressions, by key."""
        return tuple(
            SelectorRequirement(key=item.key, operator=operator, values=values)
            for item in self
            for operator, values in item.selector_requirements()
        )


@lru_cache(maxsize=_REMEMBERED)
def _suits(node: Requirements, pod: Requirements, well_known: frozenset[str]) -> bool:
    return next(node._unknown(pod, well_known), None) is None and node.overlaps(pod)


@lru_cache(maxsize=4096)
def _typo_hint(node: Requirements, key: str, well_known: frozenset[str]) -> str:
    suffix = key.partition("/")[2] or key
    for known in (*sorted(well_known), *node.by_key):
        if key in known or known.endswith(suffix) or _distance(key, known) < len(known) // 5:
            return f' (typo of "{known}"?)'
    return ""


def _distance(a: str, b: str) -> int:
    """Edits that turn one text into the other; if their lengths differ much, at least that difference."""
    if abs(len(a) - len(b)) >= len(b) // 5:
        return abs(len(a) - len(b))
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (left != right))
    return row[-1]


def pod_requirements(pod: Pod) -> tuple[Requirements, ...]:
    """Alternatives for a node's labels, of which one must hold; none at all when no node can match."""
    spec = pod.spec
    base = Requirements.from_labels(spec.node_selector)
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required: NodeSelector | None = affinity.required if affinity else None
    if required is None:
        return (base,)
    terms = Requirements.from_node_selector_terms(filter(meetable, required.node_selector_terms))
    return tuple(base.add(*term) for term in terms)


def meetable(term: NodeSelectorTerm) -> bool:
    """False for a term that no node's labels meet, whether the label is there or not.

    More than the greatest integer, or one of no values, is as a set the same as "must be absent"; a node
    without the label does not meet it all the same.
    """
    return not any(
        item.operator in _OF_A_VALUE and Requirement.read(item).allows_absence()
        for item in term.match_expressions
    )
