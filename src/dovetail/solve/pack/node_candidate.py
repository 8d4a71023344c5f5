"""A node to buy, checked against every rule that concerns the node as a whole.

That includes what its claim must not ask for, so that the cloud launches nothing there is not enough left
for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.model import labels
from dovetail.model.arrays import Amounts, Mask
from dovetail.model.plan import MOST_TYPES
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.assign.items import Item
from dovetail.solve.budget import CELLS
from dovetail.solve.instance.instance import Instance, pinned
from dovetail.solve.instance.limits import Limits
from dovetail.solve.instance.offerings import Ground, OfferingsTable
from dovetail.solve.instance.pool_table import PoolTable
from dovetail.solve.instance.topology import Pins
from dovetail.solve.pack.aggregation import Counts

# A column, a pattern, and where it is known what nodes for its items may be and what it requests.
Trial = tuple[int, Counts, tuple[Ground, Amounts] | None]
_NOT_RESERVED = Requirement.new(labels.CAPACITY_TYPE, "NotIn", (labels.RESERVED,))


@dataclass(frozen=True, slots=True)
class NodeCandidate:
    """A node of one pool that will take so many bundles of each item."""

    pool: int
    counts: Counts
    requirements: Requirements  # with the pool's, without instance types
    vector: Amounts  # requests of its pods
    types: tuple[int, ...]  # of the pool's table, cheapest first
    column: int  # of the pool's table: the cheapest offering
    price: int  # nano-dollars per hour
    reservation: str = ""
    relaxed: bool = False  # True iff minValues had to be lowered

    def alike(self, other: NodeCandidate) -> bool:
        """True if only the bundles differ; False may also stand for "not known at a glance"."""
        return self is other or (
            self.requirements is other.requirements
            and self.types is other.types
            and (self.column, self.reservation) == (other.column, other.reservation)
            and (self.vector is other.vector or bool(np.array_equal(self.vector, other.vector)))
        )


def counts_of(pattern: Amounts) -> Counts:
    """A pattern (I,) by its items."""
    items = np.flatnonzero(pattern)
    return tuple(zip(items.tolist(), pattern[items].tolist(), strict=True))


def patterns_of(counts: Sequence[Counts], items: int) -> Amounts:
    """A row per node, (N, I): how many bundles of each item it takes."""
    patterns = np.zeros((len(counts), items), dtype=np.int64)
    for row, pattern in enumerate(counts):
        for item, number in pattern:
            patterns[row, item] = number
    return patterns


def make_candidate(
    instance: Instance, columns: OfferingsTable, limits: Limits, items: list[Item], trial: Trial
) -> NodeCandidate | None:
    """The node that a trial stands for; None when some rule forbids it.

    The column says only which pool and which reservation: the node is the cheapest there that holds its pods.
    """
    column, counts, known = trial
    table = instance.tables[int(columns.pool[column])]
    reservation = columns.reservation[column] if columns.reserved[column] else ""
    if reservation and not limits.reservations[reservation]:
        return None
    ground, vector = known or (
        ground_of(instance, columns, items, column, counts),
        sum((items[index].vector * number for index, number in counts), np.zeros_like(items[0].vector)),
    )
    fits = table.fits(vector, remembered=False)
    limited, requirements = table.index in limits.remaining, ground.requirements
    if limited:
        fits = fits & limits.types(table.index)
    instance.work.spend(1 + len(fits) // CELLS)
    if limited or instance.commons.any:
        ordered = ground.columns[fits[table.column_type[ground.columns]]]
        if instance.commons.any:
            open_ = limits.drawable(table.index)[ordered]
            ordered, extra = within_reach(table, ordered, open_)
            requirements = requirements.add(*extra)
        if not len(ordered):
            return None
        ordered = _moderate(instance, limits, (table, ordered), requirements)
        kinds, cheapest = tuple(dict.fromkeys(table.column_type[ordered].tolist())), int(ordered[0])
        types = columns.types.setdefault((table.index, kinds[:MOST_TYPES]), kinds[:MOST_TYPES])
    else:
        held = fits[ground.types]
        if (mark := held.tobytes()) not in ground.sets:
            some = held.nonzero()[0][:MOST_TYPES]
            kinds = tuple(ground.types[some].tolist())
            cheapest = int(ground.first[some[0]]) if kinds else -1
            ground.sets[mark] = columns.types.setdefault((table.index, kinds), kinds), cheapest
        types, cheapest = ground.sets[mark]
        if not types:
            return None
    relaxed = ground.minimums and not _enough_values(table, types, requirements)
    if relaxed and instance.problem.options.strict_min_values:
        return None
    price = int(table.price[cheapest])
    return NodeCandidate(
        table.index, counts, requirements, vector, types, cheapest, price, reservation, relaxed
    )


def ground_of(
    instance: Instance, columns: OfferingsTable, items: list[Item], column: int, counts: Counts
) -> Ground:
    """What nodes of the column's pool, or of its reservation, may be for pods of these items."""
    table = instance.tables[int(columns.pool[column])]
    reservation = columns.reservation[column] if columns.reserved[column] else ""
    wanted = tuple(dict.fromkeys([(items[index].wanted, items[index].pins) for index, _ in counts]))
    key = (table.index, reservation, wanted)
    if key not in columns.grounds:
        columns.grounds[key] = _ground(columns, (table, column, reservation), wanted)
    return columns.grounds[key]


def _ground(
    columns: OfferingsTable, where: tuple[PoolTable, int, str], wanted: tuple[tuple[Requirements, Pins], ...]
) -> Ground:
    """What nodes of one pool, or of one reservation of it, may be for pods of such demands."""
    table, column, reservation = where
    demands = [item for each, pins in wanted for item in (*each, *pinned(pins))]
    requirements = table.pool.requirements.add(*demands)
    if reservation:
        requirements = requirements.add(*_reserved(table, columns, column))
    elif columns.reserved.any():
        requirements = requirements.add(_NOT_RESERVED)
    nothing = np.zeros(0, dtype=np.int64)
    minimums = bool(_minimums(requirements))
    nowhere = Ground(requirements, nothing, nothing, nothing, minimums)
    if any(not item.complement and not item.values and not _absent(table, item) for item in requirements):
        return nowhere
    mask = table.own & table.mask(table.base.add(*requirements))
    if not reservation:
        mask &= table.unreserved
    ordered = table.by_price[mask[table.by_price]]
    kind = table.column_type[ordered]
    place = np.full(len(table.types), len(kind))
    np.minimum.at(place, kind, np.arange(len(kind)))
    first = np.sort(place[place < len(kind)])
    return Ground(requirements, ordered, kind[first], ordered[first], minimums)


def narrowed(instance: Instance, made: NodeCandidate, extra: Requirement) -> NodeCandidate | None:
    """The node with one more demand on its labels; None when it cannot be met."""
    table = instance.tables[made.pool]
    requirements = made.requirements.add(extra)
    options = [
        column
        for column in np.flatnonzero(instance.columns(made.pool, requirements, made.vector)).tolist()
        if int(table.column_type[column]) in made.types
        and table.offerings[column].reservation_id == made.reservation
    ]
    if not options:
        return None
    options.sort(key=lambda column: (int(table.price[column]), column))
    types = tuple(dict.fromkeys(int(table.column_type[column]) for column in options))
    if not made.relaxed and not _enough_values(table, types, requirements):
        return None
    price = int(table.price[options[0]])
    return replace(made, requirements=requirements, types=types, column=options[0], price=price)


def _moderate(
    instance: Instance, limits: Limits, where: tuple[PoolTable, Amounts], requirements: Requirements
) -> Amounts:
    """Of a table's columns, the cheapest first, those that take no more of what is limited than the first."""
    table, ordered = where
    if _minimums(requirements):
        return ordered
    if table.index in limits.remaining:
        small = limits.no_larger(table.index, int(table.column_type[ordered[0]]))
        ordered = ordered[small[table.column_type[ordered]]]
    return limits.no_greedier(table.index, ordered) if instance.commons.any else ordered


def _absent(table: PoolTable, item: Requirement) -> bool:
    """True iff the label may be missing: a demand that it is must not be taken for an empty intersection."""
    found = table.pool.requirements.by_key.get(item.key)
    return found is None or found.allows_absence()


def _reserved(table: PoolTable, columns: OfferingsTable, column: int) -> list[Requirement]:
    offering = table.offerings[int(columns.column[column])]
    found = [Requirement.new(labels.CAPACITY_TYPE, "In", (labels.RESERVED,))]
    for item in offering.requirements:
        if offering.reservation_id and item.has(offering.reservation_id) and not item.complement:
            found.append(item)
    return found


def _minimums(requirements: Requirements) -> list[Requirement]:
    return [item for item in requirements if item.min_values]


def _enough_values(table: PoolTable, types: tuple[int, ...], requirements: Requirements) -> bool:
    """True iff the types have as many different values as minValues wants, per label."""
    some = list(types)
    return all(
        np.count_nonzero(table.values(item)[some].any(axis=0)) >= (item.min_values or 0)
        for item in _minimums(requirements)
    )


_KEYS = (labels.CAPACITY_TYPE, labels.ZONE)


def within_reach(table: PoolTable, columns: Amounts, allowed: Mask) -> tuple[Amounts, list[Requirement]]:
    """Of these columns, the cheapest first, those that a claim may still ask for, and what it must leave out.

    A claim asks for types, capacity types and zones that all go with each other: what has nothing allowed in
    it goes first, then what keeps the cheapest allowed one from being asked for, then other types.
    """
    if allowed.all() or not allowed.any():
        return columns[allowed], []
    known = {key: table.combinations((key,)) for key in _KEYS}  # numbers: texts take ten times as long
    values = {key: codes[columns] for key, (codes, _) in known.items()}
    first = int(np.argmax(allowed))
    kind = table.column_type[columns]
    kept: Mask = np.ones(len(columns), dtype=np.bool_)
    without = {key: set(each.tolist()) - set(each[allowed].tolist()) for key, each in values.items()}
    for key, lost in without.items():
        kept &= ~np.isin(values[key], sorted(lost))
    for key in _KEYS:
        if bool((kept & ~allowed & (kind == kind[first])).any()):
            lost = set(values[key][kept].tolist()) - {int(values[key][first])}
            without[key] |= lost
            kept &= values[key] == values[key][first]
    kept &= ~np.isin(kind, kind[kept & ~allowed])
    named = {key: {known[key][1][code][0] for code in lost} for key, lost in without.items()}
    return columns[kept], [
        Requirement.new(key, "NotIn", sorted(lost)) for key, lost in named.items() if lost - {""}
    ]
