"""What one label may be: a set of values, possibly a complement, with bounds.

The algebra is closed under intersection, and everything in it is frozen and hashable, so results are cached
by value. Use it through `model.requirement`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import nsmallest
from typing import Protocol

from dovetail.model.labels import ALIASES

# How many values a complement has: "all but these" counts down from here.
INFINITE = 2**63 - 1
_SMALLEST = -(2**63)
_SHOWN_VALUES = 5
_SHOWN_LENGTH = 253  # characters of a value: no label's is longer, but what is asked for may be
# What is remembered holds so many characters each at most, so that a number of entries is a number of bytes;
# what is larger is worked out anew. To hold a value takes as much as some more characters.
SMALL = 512
_PER_VALUE = 16
# Measured with tracemalloc: a new requirement takes 0.6 KiB with one value and 3.9 KiB with as many as are
# remembered; an intersection with both its sides 1.7 and 10.4 KiB; a whole number 0.2 and 0.7 KiB.
_REMEMBERED = 4_096
_LONGEST = 19  # digits of a whole number of 64 bits
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


class SelectorLike(Protocol):
    """What requirements look like in the API: on pods, pools and claims."""

    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def values(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Requirement:
    """The set of values that one label may have. Make it with `new`, which keeps it canonical.

    True sets: `complement` False, `values` are what is allowed (empty: the label must be absent), no bounds.
    Complements: `complement` True, `values` are what is forbidden, `gte`/`lte` bound integers (inclusive);
    with a bound, values that are no integers are outside.
    """

    key: str
    values: frozenset[str] = frozenset()
    complement: bool = False
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None
    _hash: int = field(default=0, init=False, repr=False, compare=False)
    # Characters of the key and the values, once the hash was asked for.
    _length: int = field(default=0, init=False, repr=False, compare=False)

    @staticmethod
    def new(
        key: str, operator: str, values: Iterable[str] = (), min_values: int | None = None
    ) -> Requirement:
        """Read one of the eight operators; alias keys become the current ones.

        A bound that is no integer admits no value at all, as in the scheduler. Raises ValueError for an
        operator that does not exist.
        """
        named, every = ALIASES.get(key, key), tuple(values)
        small = _size(named, every) <= SMALL
        return (_new if small else _new.__wrapped__)(named, operator, every, min_values)

    @staticmethod
    def read(item: SelectorLike) -> Requirement:
        """The requirement that an API object spells out."""
        return Requirement.new(item.key, item.operator, item.values, getattr(item, "min_values", None))

    def __reduce__(self) -> tuple[object, ...]:
        """Without the hash, which holds in this process alone."""
        parts = (self.key, self.values, self.complement, self.gte, self.lte, self.min_values)
        return Requirement, parts

    def __hash__(self) -> int:
        if self._hash == 0:
            parts = (self.key, self.values, self.complement, self.gte, self.lte, self.min_values)
            object.__setattr__(self, "_hash", hash(parts) or 1)
            object.__setattr__(self, "_length", _size(self.key, self.values))
        return self._hash

    @property
    def length(self) -> int:
        """Characters of the key and all values."""
        hash(self)
        return self._length

    def __len__(self) -> int:
        return self.size()

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        text = f"{self.key} {self.operator()}"
        if self.values:
            shown = [_shortened(value) for value in nsmallest(_SHOWN_VALUES, self.values)]
            if len(self.values) > _SHOWN_VALUES:
                shown.append(f"and {len(self.values) - _SHOWN_VALUES} others")
            text += f" [{' '.join(shown)}]"
        if self.gte is not None:
            text += f" >={self.gte}"
        if self.lte is not None:
            text += f" <={self.lte}"
        return text if self.min_values is None else f"{text} minValues {self.min_values}"

    def operator(self) -> str:
        """In, NotIn, Exists or DoesNotExist; bounds are distinguished by `gte` and `lte`."""
        if self.complement:
            return "NotIn" if self.values else "Exists"
        return "In" if self.values else "DoesNotExist"

    def size(self) -> int:
        """Number of allowed values; bounds are not counted, complements count down from INFINITE."""
        return INFINITE - len(self.values) if self.complement else len(self.values)

    def allows_absence(self) -> bool:
        """True iff the label may be missing."""
        return bool(self.values) if self.complement else not self.values

    def has(self, value: str) -> bool:
        """True iff the label may have this value."""
        if self.complement == (value in self.values):
            return False
        if self.gte is None and self.lte is None:
            return True
        return _within(value, self.gte, self.lte)

    def intersection(self, other: Requirement) -> Requirement:
        """What both allow. The key is this one's; the larger minValues wins."""
        if self is other:
            return self
        small = self.length <= SMALL and other.length <= SMALL
        return (_intersection if small else _intersection.__wrapped__)(self, other)

    @staticmethod
    def all_of(requirements: Sequence[Requirement]) -> Requirement:
        """What all of some on one key allow, as intersected one after the other; linear in their values."""
        if len(requirements) < 3:  # these are remembered
            first, *others = requirements
            return others[0].intersection(first) if others else first
        minimum = max((item.min_values for item in requirements if item.min_values is not None), default=None)
        gte, lte = _tightest(*requirements)
        key = requirements[-1].key
        if gte is not None and lte is not None and gte > lte:
            return Requirement(key, min_values=minimum)
        allowed = [item.values for item in requirements if not item.complement]
        forbidden: frozenset[str] = frozenset().union(
            *(item.values for item in requirements if item.complement)
        )
        values = frozenset.intersection(*allowed) - forbidden if allowed else forbidden
        if gte is not None or lte is not None:
            values = frozenset([value for value in values if _within(value, gte, lte)])
        if allowed:
            return Requirement(key, values, min_values=minimum)
        return Requirement(key, values, True, gte, lte, minimum)

    def has_intersection(self, other: Requirement) -> bool:
        """True iff some value is allowed by both."""
        if not self.complement and not other.complement:
            return not self.values.isdisjoint(other.values)
        if self.complement and other.complement:
            gte, lte = _tightest(self, other)
            return gte is None or lte is None or gte <= lte
        finite, rest = (other, self) if self.complement else (self, other)
        return any(rest.has(value) for value in finite.values)

    def any_value(self) -> str:
        """One allowed value, always the same: the first in order, or the least integer; '' if none."""
        if not self.complement:
            return min(self.values, default="")
        low = 0 if self.gte is None else self.gte
        high = INFINITE if self.lte is None else self.lte
        if self.gte is None and high < 0:
            low = high - len(self.values)
        return next(
            (
                str(number)
                for number in range(low, min(high, low + len(self.values)) + 1)
                if str(number) not in self.values
            ),
            "",
        )

    def selector_requirements(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """(operator, values) pairs as written on a NodeClaim.

        A complement with bounds is one entry per bound, and one for what it forbids within them.
        """
        pairs: list[tuple[str, tuple[str, ...]]] = []
        if self.gte is not None:
            pairs.append(("Gte", (str(self.gte),)))
        if self.lte is not None:
            pairs.append(("Lte", (str(self.lte),)))
        if self.values or not pairs:
            pairs.append((self.operator(), tuple(sorted(self.values))))
        return tuple(pairs)


@lru_cache(maxsize=_REMEMBERED)
def _new(key: str, operator: str, values: tuple[str, ...], min_values: int | None) -> Requirement:
    if operator in ("In", "NotIn"):
        return Requirement(key, frozenset(values), operator == "NotIn", min_values=min_values)
    if operator in ("Exists", "DoesNotExist"):
        return Requirement(key, frozenset(), operator == "Exists", min_values=min_values)
    if operator not in ("Gt", "Gte", "Lt", "Lte"):
        valid = "In, NotIn, Exists, DoesNotExist, Gt, Gte, Lt, Lte"
        raise ValueError(f"operator {operator!r} of requirement {key!r} is not one of {valid}")
    bound = integer(values[0]) if values else None
    if bound is None:
        return Requirement(key, frozenset(), True, INFINITE, _SMALLEST, min_values)
    if operator in ("Gt", "Gte"):
        gte, lte = bound + (operator == "Gt"), None
        empty = gte > INFINITE
    else:
        gte, lte = None, bound - (operator == "Lt")
        empty = lte < _SMALLEST
    if empty:
        return Requirement(key, min_values=min_values)
    return Requirement(key, frozenset(), True, gte, lte, min_values)


def _size(key: str, values: Collection[str]) -> int:
    """Characters of a key and of values; to hold a value takes as much as some more of them."""
    return len(key) + sum(map(len, values)) + _PER_VALUE * len(values)


def integer(text: str) -> int | None:
    """A whole number of 64 bits, as the API reads it; None for anything else."""
    return _integer(text) if len(text) <= SMALL else _integer.__wrapped__(text)


@lru_cache(maxsize=_REMEMBERED)
def _integer(text: str) -> int | None:
    digits = text.lstrip("+-").lstrip("0")
    if _INTEGER.fullmatch(text) is None or len(digits) > _LONGEST:
        return None
    number = int(digits or "0") * (-1 if text.startswith("-") else 1)
    return number if _SMALLEST <= number <= INFINITE else None


def _within(value: str, gte: int | None, lte: int | None) -> bool:
    number = integer(value)
    return number is not None and (gte is None or number >= gte) and (lte is None or number <= lte)


def _shortened(value: str) -> str:
    return value if len(value) <= _SHOWN_LENGTH else f"{value[:_SHOWN_LENGTH]}..."


def _tightest(*requirements: Requirement) -> tuple[int | None, int | None]:
    lows = [item.gte for item in requirements if item.gte is not None]
    highs = [item.lte for item in requirements if item.lte is not None]
    return max(lows, default=None), min(highs, default=None)


@lru_cache(maxsize=_REMEMBERED)
def _intersection(a: Requirement, b: Requirement) -> Requirement:
    minimum = max((item for item in (a.min_values, b.min_values) if item is not None), default=None)
    gte, lte = _tightest(a, b)
    if gte is not None and lte is not None and gte > lte:
        return Requirement(a.key, min_values=minimum)
    if a.complement and b.complement:
        values = a.values | b.values
    elif a.complement:
        values = b.values - a.values
    elif b.complement:
        values = a.values - b.values
    else:
        values = a.values & b.values
    if gte is not None or lte is not None:
        values = frozenset(value for value in values if _within(value, gte, lte))
    if a.complement and b.complement:
        return Requirement(a.key, values, True, gte, lte, minimum)
    return Requirement(a.key, values, min_values=minimum)
