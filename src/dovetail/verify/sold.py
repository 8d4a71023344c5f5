"""What a pool's provider sells, in columns: what follows from it alone is worked out once, not per claim."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import product
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dovetail.base.memo import by_identity
from dovetail.model import labels
from dovetail.model.label_values import Requirement
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirements

T = TypeVar("T", bound=Hashable)
Rows = npt.NDArray[np.int64]  # positions of offerings, in the order of their types
Codes = npt.NDArray[np.int64]
Column = tuple[Codes, Sequence[tuple[str, ...]]]  # codes, and what each stands for
Labels = tuple[tuple[str, str], ...]
Said = tuple[Codes, Sequence[Requirement | None]]
_NO_VALUE: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class World:
    """One type in one offering, with the values that each label of the node may have."""

    instance_type: InstanceType
    offering: Offering
    possible: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Sort:
    """Types that say the same of a label, as their offerings do."""

    types: tuple[InstanceType, ...]
    mine: Requirement | None  # of the types
    theirs: tuple[Requirement | None, ...]  # of the offerings


class Sold:
    """The types and the offerings of a pool, the same for plan after plan."""

    def __init__(self, kinds: tuple[InstanceType, ...]) -> None:
        self.kinds = kinds
        self.by_name = {kind.name: kind for kind in kinds}
        self.position = {kind.name: index for index, kind in enumerate(kinds)}
        self.offerings = [offering for kind in kinds for offering in kind.offerings]
        self.type_of = np.repeat(np.arange(len(kinds)), [len(kind.offerings) for kind in kinds])
        self.prices = np.array([offering.price for offering in self.offerings], dtype=np.int64)
        self._launchable = np.array([offering.launchable for offering in self.offerings], dtype=np.bool_)
        self._terms, self._ways = _coded(offering.requirements for offering in self.offerings)
        self._draws, self._drawn = _coded(offering.draws for offering in self.offerings)
        self.rooms = [kind.allocatable() for kind in kinds]  # what each leaves to pods and daemons
        self._room: dict[str, npt.NDArray[np.int64]] = {}
        self._said: dict[str, tuple[Said, Said]] = {}
        self.worlds = lru_cache(maxsize=8)(partial(Worlds, self))

    def room(self, name: str) -> npt.NDArray[np.int64]:
        """What each type leaves to pods and daemons of a resource."""
        if name not in self._room:
            self._room[name] = np.array([room.get(name, 0) for room in self.rooms], dtype=np.int64)
        return self._room[name]

    def open(self, asked: Requirements, commons: Mapping[str, int]) -> Rows:
        """Offerings that are launchable and meet the requirements, with enough left of what they draw on."""
        suits = self._launchable & _verdicts(self._ways, asked.overlaps)[self._terms]
        if commons:
            suits &= self.affordable(commons)
        types = np.ones(len(self.kinds), dtype=np.bool_)
        for key, wanted in asked.by_key.items():
            mine, values = self.said(key)[0]
            types &= _verdicts(values, partial(_meet, wanted))[mine]
        return np.flatnonzero(suits & types[self.type_of])

    def affordable(self, left: Mapping[str, int]) -> npt.NDArray[np.bool_]:
        """Per offering: is there enough left of all that an instance draws on?"""
        return _verdicts(
            self._drawn, lambda draws: all(amount <= left.get(name, amount) for name, amount in draws)
        )[self._draws]

    def said(self, key: str) -> tuple[Said, Said]:
        """What is said of a label by each type, and by each offering."""
        if key not in self._said:
            codes, values = _coded(way.by_key.get(key) for way in self._ways)
            by_type = _coded(kind.requirements.by_key.get(key) for kind in self.kinds)
            self._said[key] = by_type, (codes[self._terms], values)
        return self._said[key]

    def sorts(self, key: str, rows: Rows) -> list[Sort]:
        """The types of these offerings, by what they and those of the offerings say of a label."""
        (mine, by_type), (theirs, by_way) = self.said(key)
        says = np.zeros((len(self.kinds), len(by_way)), dtype=np.bool_)
        says[self.type_of[rows], theirs[rows]] = True
        found: dict[tuple[int, bytes], list[int]] = {}
        for index in np.flatnonzero(says.any(axis=1)).tolist():
            found.setdefault((int(mine[index]), says[index].tobytes()), []).append(index)
        return [
            Sort(
                tuple(self.kinds[index] for index in some),
                by_type[code],
                tuple(by_way[way] for way in np.flatnonzero(says[some[0]]).tolist()),
            )
            for (code, _), some in found.items()
        ]


sold = by_identity(2)(Sold)


class Worlds:
    """Every node that the offerings of all types may become, for one set of labels and requirements.

    Labels are columns over `rows`, the offerings that meet the requirements, each made when it is asked for.
    """

    def __init__(
        self,
        goods: Sold,
        certain: tuple[tuple[str, str], ...],
        asked: Requirements,
        stamped: tuple[tuple[str, str], ...],
        commons: tuple[tuple[str, int], ...] = (),
    ) -> None:
        self.sold, self._asked = goods, asked
        self._certain = {**dict(certain), labels.REGISTERED: "true", labels.INITIALIZED: "true"}
        self._stamped = dict(stamped)
        self.rows = goods.open(asked, dict(commons))
        self.types, self.prices = goods.type_of[self.rows], goods.prices[self.rows]
        self._first = np.searchsorted(self.types, np.arange(len(goods.kinds) + 1))
        self._columns: dict[str, Column] = {}
        self._together: dict[tuple[str, ...], tuple[Codes, Sequence[Sequence[Labels]]]] = {}

    def of(self, name: str) -> Iterator[World]:
        """The offerings of one type, with the values that each label may have, but for the host name, not
        known yet.
        """
        kind = self.sold.by_name.get(name)
        return iter(()) if kind is None else (self._world(kind, offering) for offering in self.offered(name))

    def offered(self, name: str) -> list[Offering]:
        """The offerings of one type."""
        index = self.sold.position.get(name)
        if index is None:
            return []
        found = self.rows[self._first[index] : self._first[index + 1]]
        return [self.sold.offerings[row] for row in found.tolist()]

    @cached_property
    def cheapest(self) -> Mapping[str, int]:
        """Type -> its cheapest offering, in nano-dollars per hour, of types that can be had."""
        have = np.flatnonzero(self._first[:-1] < self._first[1:])
        if not have.size:
            return {}
        least = np.minimum.reduceat(self.prices, self._first[have])
        names = (self.sold.kinds[index].name for index in have.tolist())
        return dict(zip(names, least.tolist(), strict=True))

    def column(self, key: str) -> Column:
        """What each node may have of a label; the codes follow `rows`."""
        if key not in self._columns:
            current = labels.ALIASES.get(key)
            (mine, by_type), (theirs, by_way) = self.sold.said(current or key)
            if labels.INSTANCE_TYPE in (key, current):
                names = [(kind.name,) for kind in self.sold.kinds]
                self._columns[key] = self.types, names
            else:
                pairs = mine[self.types] * len(by_way) + theirs[self.rows]
                distinct, codes = np.unique(pairs, return_inverse=True)
                ways = [divmod(pair, len(by_way)) for pair in distinct.tolist()]
                found = [self._value(current or key, by_type[a], by_way[b]) for a, b in ways]
                if current is not None and None in found:
                    # Of the older name something may be said where nothing is of the current one.
                    codes, found = _coded([self._value_of(key, *one) for one in self._sold_as()])
                self._columns[key] = codes, [value or _NO_VALUE for value in found]
        return self._columns[key]

    def together(self, keys: tuple[str, ...]) -> tuple[Codes, Sequence[Sequence[Labels]]]:
        """What each node may have of several labels: codes that follow `rows`, and for each of them every
        label set, reduced to these keys.
        """
        if keys not in self._together:
            codes = np.zeros(len(self.rows), dtype=np.int64)
            choices: list[tuple[tuple[str, ...], ...]] = [()]
            for key in keys:
                more, values = self.column(key)
                distinct, codes = np.unique(codes * len(values) + more, return_inverse=True)
                ways = (divmod(code, len(values)) for code in distinct.tolist())
                choices = [(*choices[a], values[b]) for a, b in ways]
            self._together[keys] = codes, [list(_label_sets(keys, choice)) for choice in choices]
        return self._together[keys]

    def _sold_as(self) -> Iterator[tuple[InstanceType, Requirements]]:
        for index, row in zip(self.types.tolist(), self.rows.tolist(), strict=True):
            yield self.sold.kinds[index], self.sold.offerings[row].requirements

    def _world(self, kind: InstanceType, offering: Offering) -> World:
        terms = offering.requirements
        named = (self._certain, self._stamped, self._asked.by_key, kind.requirements.by_key, terms.by_key)
        keys = {labels.INSTANCE_TYPE}.union(*named)
        # Kubelets still set the older names of these labels beside the current ones.
        keys |= {old for old, key in labels.ALIASES.items() if key in keys}
        found = {key: self._value_of(key, kind, terms) for key in sorted(keys)}
        return World(kind, offering, {key: values for key, values in found.items() if values})

    def _value_of(self, key: str, kind: InstanceType, terms: Requirements) -> tuple[str, ...] | None:
        """What a node of the type in an offering of these terms may have of a label; None: not said."""
        current = labels.ALIASES.get(key)
        if labels.INSTANCE_TYPE in (key, current):
            return (kind.name,)
        found = None if current is None else self._value_of(current, kind, terms)
        if found is not None:
            return found
        return self._value(key, kind.requirements.by_key.get(key), terms.by_key.get(key))

    def _value(
        self, key: str, mine: Requirement | None, theirs: Requirement | None
    ) -> tuple[str, ...] | None:
        """The same of a label of which a type and an offering say this."""
        if key in self._certain:
            return (self._certain[key],)
        wanted = self._asked.by_key.get(key)
        for item in (theirs, mine):
            if item is not None:
                allowed = item if wanted is None else wanted.intersection(item)
                if not allowed.complement:
                    return tuple(sorted(allowed.values))
        if key in self._stamped:
            return (self._stamped[key],)
        if wanted is None:
            return None
        # A label that only the claim asks for is stamped with one value.
        value = wanted.any_value()
        return (value,) if value else ()


def _label_sets(keys: tuple[str, ...], choice: tuple[tuple[str, ...], ...]) -> Iterator[Labels]:
    """Those of a node that may have these values of each key, none where there are none."""
    known = [(key, values) for key, values in zip(keys, choice, strict=True) if values]
    names = [key for key, _ in known]
    return (tuple(zip(names, values, strict=True)) for values in product(*(values for _, values in known)))


def _coded(values: Iterable[T]) -> tuple[Codes, list[T]]:
    """Equal values by number, and what each number stands for."""
    known: dict[T, int] = {}
    codes = [known.setdefault(value, len(known)) for value in values]
    return np.array(codes, dtype=np.int64), list(known)


def _verdicts(values: Sequence[T], verdict: Callable[[T], bool]) -> npt.NDArray[np.bool_]:
    return np.array([verdict(value) for value in values], dtype=np.bool_)


def _meet(wanted: Requirement, said: Requirement | None) -> bool:
    """True iff some value is allowed by both, or the label may be absent for both."""
    if said is None or wanted.has_intersection(said):
        return True
    return wanted.allows_absence() and said.allows_absence()
