"""Requirements on labels: sets of values per key, possibly complements, with bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """The set of values that one label may have.

    True sets: `complement` False, `values` are what is allowed (empty: the label must be absent).
    Complements: `complement` True, `values` are what is forbidden, `gte`/`lte` bound integers (inclusive).
    """

    key: str
    values: frozenset[str] = frozenset()
    complement: bool = False
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None

    def has(self, value: str) -> bool:
        """True iff the label may have this value."""
        if self.complement == (value in self.values):
            return False
        if self.gte is None and self.lte is None:
            return True
        return _within(value, self.gte, self.lte)


def _within(value: str, gte: int | None, lte: int | None) -> bool:
    try:
        number = int(value)
    except ValueError:
        return False
    return (gte is None or number >= gte) and (lte is None or number <= lte)


@dataclass(frozen=True, slots=True)
class Requirements:
    """One requirement per key, all of which hold. Frozen: `add` answers a new value."""

    by_key: Mapping[str, Requirement]

    @staticmethod
    def of(requirements: Iterable[Requirement]) -> Requirements:
        """All of them; several on one key are intersected."""
        return Requirements({item.key: item for item in requirements})
