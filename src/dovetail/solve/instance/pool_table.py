"""One NodePool as arrays: a column per offering, requirements as masks over columns, what daemons take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, wraps
from typing import Any, TypeVar

import numpy as np

from dovetail.model import labels
from dovetail.model.arrays import ENDLESS, TABLE, Amounts, Axis, Floats, Mask, holding
from dovetail.model.daemons import Daemon
from dovetail.model.offering import InstanceType, Offering, affordable
from dovetail.model.ports import HostPort
from dovetail.model.problem import Pool
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.resources import LARGEST
from dovetail.solve.tolerances import SEVERAL

# What a node of ours will carry once it is up; demanded by some pods, never written on a claim.
STAMPED = (
    Requirement.new(labels.REGISTERED, "In", ("true",)),
    Requirement.new(labels.INITIALIZED, "In", ("true",)),
)


_NEXT_TO_NOTHING = 1e-300  # of a price that is multiplied with infinity
NODES = "nodes"  # of a NodePool's limits, the one on their number

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# The cheapest column per value of some labels and type: values that there are, the types and prices of these
# columns, where each value begins, and how many different values any column has.
_Priced = tuple[Amounts, Amounts, Floats, Amounts, int]


class _Sold:
    """What a pool of these requirements may buy of the types: the part of its table that questions share.

    Most questions are about the same types. The arrays cannot be written to.
    """

    def __init__(
        self,
        kinds: tuple[InstanceType, ...],
        base: Requirements,
        names: tuple[str, ...],
        left: Mapping[str, int],
    ) -> None:
        axis = Axis(names)
        self.given = kinds
        self.types = tuple(kind for kind in kinds if _lets_in(base, kind.requirements))
        self.capacity = _fixed([axis.vector(item.allocatable()) for item in self.types], np.int64)
        self.capacity = self.capacity.reshape(len(self.types), len(names))
        self.offerings: list[Offering] = []
        column_type: list[int] = []
        for number, item in enumerate(self.types):
            for offering in item.offerings:
                if offering.launchable and (not left or affordable(offering, left)):
                    self.offerings.append(offering)
                    column_type.append(number)
        self.column_type: Amounts = _fixed(column_type, np.int64)
        self.price: Amounts = _fixed([item.price for item in self.offerings], np.int64)
        self.reservation = _fixed([item.reservation_id for item in self.offerings], np.str_)
        self.capacity_types = sorted({item.capacity_type for item in self.offerings})
        codes = [self.capacity_types.index(item.capacity_type) for item in self.offerings]
        self.capacity_type: Amounts = _fixed(codes, np.int64)  # its number
        # Columns that are no reserved capacity, (C,).
        self.unreserved: Mask = _fixed([not item.reservation_id for item in self.offerings], np.bool_)
        self.draws = _drawn(self.offerings)
        # Offerings are few in kind: zones times capacity types, and reservations.
        numbers: dict[Requirements, int] = {}
        numbered = [numbers.setdefault(item.requirements, len(numbers)) for item in self.offerings]
        self.kind: Amounts = _fixed(numbered, np.int64)
        self.kinds = list(numbers)
        # What is asked of any other label is the same for all columns: pods may name thousands of those.
        sold = (*(kind.requirements for kind in self.types), *self.kinds)
        self.labelled = frozenset().union(*(item.by_key for item in sold))
        self.by_type: dict[Requirement, Mask] = {}  # which types meet it; at most TABLE cells
        self.known: dict[tuple[str, Hashable], Any] = {}  # see `_of_labels`; as many cells

    def meeting(self, item: Requirement) -> Mask:
        """Types that can meet a requirement on a label of theirs, shape (T,)."""
        known = self.by_type.get(item)
        if known is None:
            if len(self.by_type) * len(self.types) >= TABLE:
                self.by_type.clear()
            meets = [_meets(kind.requirements.by_key, item) for kind in self.types]
            known = self.by_type[item] = _fixed(meets, np.bool_)
        return known


def _fixed(values: Sequence[Any], kind: Any) -> Any:
    """An array that questions share."""
    found = np.array(values, dtype=kind)
    found.flags.writeable = False
    return found


def _drawn(offerings: Sequence[Offering]) -> dict[str, Amounts]:
    """By shared quota what a node of each column draws on it, (C,)."""
    found: dict[str, Amounts] = {}
    for column, offering in enumerate(offerings):
        for name, amount in offering.draws:
            if name not in found:
                found[name] = np.zeros(len(offerings), dtype=np.int64)
            found[name][column] = amount
    return found


# The last table of a pool's requirements, and of what quotas leave of it: types that were replaced are kept
# alive by it no longer. It has some 100 bytes a column, 0.5 MiB where a region's types are all let in.
_Key = tuple[Requirements, tuple[str, ...], bytes]  # the last one says which columns take too much
_LATEST: dict[_Key, _Sold] = {}


def _shared(kinds: tuple[InstanceType, ...], key: _Key, left: Mapping[str, int]) -> _Sold:
    """The table of these very types: to compare thousands of them would cost as much as the work."""
    found = _LATEST.pop(key, None)
    if found is None or found.given is not kinds:
        found = _Sold(kinds, key[0], key[1], left)
    _LATEST[key] = found
    if len(_LATEST) > SEVERAL:
        del _LATEST[next(iter(_LATEST))]
    return found


def _sold(kinds: tuple[InstanceType, ...], base: Requirements, axis: Axis, left: Mapping[str, int]) -> _Sold:
    found = _shared(kinds, (base, axis.names, b""), {})
    # What is left of quotas is another amount in every question, and mostly too little for the same columns.
    short = b"".join([(found.draws[one] > left[one]).tobytes() for one in sorted(found.draws.keys() & left)])
    return _shared(kinds, (base, axis.names, short), left) if any(short) else found


def bounded(amount: int) -> int:
    """The amount, or the largest one that is counted with."""
    return max(-ENDLESS, min(amount, ENDLESS))


def _of_labels(work: Callable[[PoolTable, K], V]) -> Callable[[PoolTable, K], V]:
    """Remember what follows from the labels and prices of what is sold: most questions are about the same.

    What would make that too large is remembered for the one question only.
    """
    name = work.__name__

    @wraps(work)
    def recall(table: PoolTable, asked: K) -> V:
        found: V | None = table.known.get((name, asked))
        if found is None:
            if len(table.known) == table.most_known:
                table.known = dict(table.known)
            found = table.known[name, asked] = work(table, asked)
        return found

    return recall


class PoolTable:
    """One pool's types and offerings. C columns, T types: those that the pool's requirements let in.

    `capacity` (T, R) is what pods may use, less daemons. `column_type` and `price` (C,)
    describe the available offerings, as do `reservation` (its id, or "") and `capacity_type` (its number
    in `capacity_types`); the price is a whole node's, `extra` of it for all but the instance. Offerings
    that draw more on the problem's shared quotas than is left of them are not available; `draws` says by
    quota what each column takes, (C,).
    """

    def __init__(
        self, pool: Pool, index: int, axis: Axis, extra: int, commons: Mapping[str, int] | None = None
    ) -> None:
        self.pool = pool
        self.index = index
        self.base = _stamped(pool.requirements)
        self._sold = sold = _sold(pool.instance_types, self.base, axis, commons or {})
        self.types = sold.types
        self.capacity: Amounts = sold.capacity
        self.offerings = sold.offerings
        self.column_type = sold.column_type
        self.instance_price = sold.price
        self.price: Amounts = sold.price + extra
        self._extra = extra
        self.reservation = sold.reservation
        self.capacity_types, self.capacity_type = sold.capacity_types, sold.capacity_type
        self.unreserved = sold.unreserved
        self.draws = sold.draws
        self._every_type: Mask = np.ones(len(self.types), dtype=np.bool_)
        self._same: dict[str, list[str]] = {}  # by value, the domains of labels that all columns have alike
        self._fits: dict[bytes, Mask] = {}
        self.most_known = TABLE // max(1, len(self.offerings))
        if len(sold.known) >= self.most_known:
            sold.known = {}
        self.known = sold.known
        self.own = self.mask(self.base)

    def reserve(self, taken: Amounts) -> None:
        """Take what daemons need, (T, R), out of the capacity; once, before it is asked what fits."""
        self.capacity = np.maximum(self.capacity - taken, -LARGEST)

    @cached_property
    def ends(self) -> tuple[Mapping[str, int], Amounts]:
        """What remains of the pool's limits before a plan, and what each type takes of it, (T, L)."""
        used, taken = self.pool.usage, {name for kind in self.types for name in kind.capacity}
        limits = self.pool.limits or {}
        rest = {name: bounded(limits[name] - used.get(name, 0)) for name in sorted(limits)}
        # What no type has any of is never used up; a limit that is exceeded refuses all types.
        rest = {name: left for name, left in rest.items() if name == NODES or name in taken or left < 0}
        takes = [[1 if name == NODES else kind.capacity.get(name, 0) for name in rest] for kind in self.types]
        return rest, np.array(takes, dtype=np.int64).reshape(len(self.types), len(rest))

    def sold_as(self, capacity_type: str) -> Mask:
        """The columns of that capacity type, (C,)."""
        return np.asarray(self.capacity_type == [*self.capacity_types, capacity_type].index(capacity_type))

    @cached_property
    def by_price(self) -> Amounts:
        """The columns, the cheapest first."""
        return np.argsort(self.price, kind="stable")

    @cached_property
    def within(self) -> Mask:
        """Columns of types that the limits allow before a plan, (C,)."""
        rest, takes = self.ends
        return np.asarray(np.all(takes <= list(rest.values()), axis=1)[self.column_type], dtype=np.bool_)

    @_of_labels
    def usable(self, wanted: Requirements) -> Mask:
        """Columns that meet the pool's requirements and these, shape (C,)."""
        return self.own & self.mask(self.base.add(*wanted))

    def fits(self, vector: Amounts, *, remembered: bool = True) -> Mask:
        """Types that hold such requests, shape (T,); what is not asked for always fits.

        `remembered` is False for requests that hardly come up again.
        """
        key = vector.tobytes()
        known = self._fits.get(key)
        if known is None:
            known = np.ones(len(self.types), dtype=np.bool_)
            for has, need in zip(self._by_resource, vector.tolist(), strict=True):
                if need:
                    known &= has >= need
            if remembered:
                self._fits[key] = known
        return known

    @cached_property
    def _by_resource(self) -> Amounts:
        """The capacity, (R, T)."""
        return np.ascontiguousarray(self.capacity.T)

    def foresee(self, vectors: Amounts) -> None:
        """Work out for all these requests (N, R) at once what fits."""
        found = holding(np.where(vectors == 0, -LARGEST - 1, vectors), self.capacity)
        self._fits.update(zip([vector.tobytes() for vector in vectors], found, strict=True))

    @_of_labels
    def combinations(self, keys: tuple[str, ...]) -> tuple[Amounts, list[tuple[str, ...]]]:
        """The different values of these labels together, and per column which of them it has, (C,)."""
        numbers: dict[tuple[str, ...], int] = {}
        columns = zip(*(self.domains(key) for key in keys), strict=True)
        codes = [numbers.setdefault(values, len(numbers)) for values in columns]
        return np.array(codes, dtype=np.int64), list(numbers)

    def least(self, wanted: Requirements, keys: tuple[str, ...], fits: Mask, share: Floats) -> Floats:
        """What that share of a type (T,) costs at least, per value of these labels together: of types that
        fit (T,), in columns that meet the demands; infinite where there is none.
        """
        codes, types, price, starts, different = self._cheapest((wanted, keys, self._extra))
        found = np.full(different, np.inf)
        if len(codes):
            found[codes] = np.minimum.reduceat(np.where(fits, share, np.inf)[types] * price, starts)
        return found

    @_of_labels
    def _cheapest(self, asked: tuple[Requirements, tuple[str, ...], int]) -> _Priced:
        wanted, keys, extra = asked
        codes, values = self.combinations(keys)
        some = np.flatnonzero(self.usable(wanted))
        order = some[np.lexsort((self.instance_price[some], self.column_type[some], codes[some]))]
        pair = codes[order] * len(self.types) + self.column_type[order]
        first = order[np.diff(pair, prepend=-1) > 0]
        there, starts = np.unique(codes[first], return_index=True)
        price = np.maximum(self.instance_price[first] + extra, _NEXT_TO_NOTHING)
        return there, self.column_type[first], price, starts, len(values)

    @_of_labels
    def mask(self, requirements: Requirements) -> Mask:
        """Columns that can meet all of them, shape (C,)."""
        found = np.ones(len(self.offerings), dtype=np.bool_)
        for item in requirements:
            if item.key in self._sold.labelled or item.key == labels.RESERVATION_ID:
                found &= self._columns(item)
        return found

    def type_mask(self, requirements: Requirements) -> Mask:
        """Types that can meet all of them, whatever they are offered in, shape (T,)."""
        result = np.ones(len(self.types), dtype=np.bool_)
        for item in requirements:
            result &= self._types_meeting(item)
        return result

    def offered(self, requirements: Requirements) -> Mask:
        """Types that are offered in a way that meets all of them, shape (T,)."""
        meets = np.array([requirements.overlaps(kind) for kind in self._sold.kinds], dtype=np.bool_)
        result = np.zeros(len(self.types), dtype=np.bool_)
        result[self.column_type[meets[self._sold.kind]]] = True
        return result

    @_of_labels
    def values(self, item: Requirement) -> Mask:
        """Which of V values that the requirement lets in each type has for its label, shape (T, V)."""
        found = [kind.requirements.by_key.get(item.key) for kind in self.types]
        sets = [each.values if each is not None and not each.complement else () for each in found]
        different = sorted({value for values in sets for value in values if item.has(value)})
        rows = [[value in values for value in different] for values in sets]
        return np.array(rows, dtype=np.bool_).reshape(len(sets), len(different))

    def domains(self, key: str) -> list[str]:
        """Per column the value of a label; '' where it is open or absent."""
        if key in self._sold.labelled:
            return self._domains(key)
        value = _only(self.base.by_key.get(key))
        return self._same.setdefault(value, [value] * len(self.offerings))

    @_of_labels
    def _domains(self, key: str) -> list[str]:
        base = self.base.by_key.get(key)
        of_type = [_only(kind.requirements.by_key.get(key, base)) for kind in self.types]
        of_kind = [_only(one.by_key[key]) if key in one.by_key else None for one in self._sold.kinds]
        columns = zip(self._sold.kind.tolist(), self.column_type.tolist(), strict=True)
        return [of_type[at] if (value := of_kind[kind]) is None else value for kind, at in columns]

    def told_apart(self, keys: Collection[str]) -> Amounts:
        """Numbers (C,), equal for columns that these labels do not tell apart. O(types and kinds)."""
        by_type = _numbered((kind.requirements for kind in self.types), keys)
        by_kind = _numbered(self._sold.kinds, keys)
        found: Amounts = by_type[self.column_type] * max(1, len(self._sold.kinds)) + by_kind[self._sold.kind]
        return found

    def _types_meeting(self, item: Requirement) -> Mask:
        return self._sold.meeting(item) if item.key in self._sold.labelled else self._every_type

    @_of_labels
    def _columns(self, item: Requirement) -> Mask:
        meets = np.array([_meets(kind.by_key, item) for kind in self._sold.kinds], dtype=np.bool_)
        found = self._types_meeting(item)[self.column_type] & meets[self._sold.kind]
        if item.key == labels.RESERVATION_ID and not item.allows_absence():
            # A label that only some offerings carry is absent from the others.
            types = np.array([item.key in kind.requirements.by_key for kind in self.types], dtype=np.bool_)
            kinds = np.array([item.key in kind.by_key for kind in self._sold.kinds], dtype=np.bool_)
            found &= types[self.column_type] | kinds[self._sold.kind]
        return found


def _only(found: Requirement | None) -> str:
    return found.any_value() if found is not None and not found.complement and len(found) == 1 else ""


@lru_cache(maxsize=1024)
def _stamped(requirements: Requirements) -> Requirements:
    """One object for equal pools of many questions, so that what is remembered of it is found at once."""
    return requirements.add(*STAMPED)


@lru_cache(maxsize=16_384)  # 0.3 KiB each besides the requirements, which types and pools have anyway
def _lets_in(base: Requirements, kind: Requirements) -> bool:
    """True iff a pool of these requirements takes a type of those: asked for every type of every question."""
    return all(_meets(kind.by_key, item) for item in base)


def _meets(by_key: Mapping[str, Requirement], item: Requirement) -> bool:
    found = by_key.get(item.key)
    if found is None:
        return True
    return found.has_intersection(item) or (found.allows_absence() and item.allows_absence())


def _numbered(many: Iterable[Requirements], keys: Collection[str]) -> Amounts:
    """Equal numbers for those that ask the same of these labels."""
    numbers: dict[tuple[Requirement | None, ...], int] = {}
    asked = (tuple([each.by_key.get(key) for key in keys]) for each in many)
    return np.array([numbers.setdefault(each, len(numbers)) for each in asked], dtype=np.int64)


def reserve(
    table: PoolTable, daemons: Sequence[Daemon], well_known: frozenset[str]
) -> tuple[Amounts, tuple[HostPort, ...]]:
    """What daemons take per type, shape (T, R), and the ports that some of them take on the pool's nodes."""
    taken = np.zeros_like(table.capacity)
    ports: set[HostPort] = set()
    for daemon in daemons:
        if not daemon.tolerates(table.pool.taints):
            continue
        runs = np.zeros(len(table.types), dtype=np.bool_)
        for item in daemon.alternatives:
            if table.base.suits(item, well_known):
                runs |= table.type_mask(item)
        taken[runs] += daemon.vector
        if runs.any():
            ports.update(daemon.ports)
    return taken, tuple(sorted(ports))
