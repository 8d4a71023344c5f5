"""Commitments (savings plans, reserved instances) and licences: what is really paid for what ran.

A commitment is paid for every hour, used or not. Within each clock hour it pays for what runs on demand and
matches, at its own rates, until its amount is spent; what saves most comes first, reserved instances before
savings plans, as AWS has it. An instance that is covered costs what of the commitment it uses; what nothing
uses is a cost of its own. Every amount is whole nano-dollars: commitments and the rest sum to the bill.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dovetail.base.clock import HOUR
from dovetail.cost.api import Past
from dovetail.cost.facts import Facts, Instance, Rate, Unused

_UNCOVERED = ("spot", "reserved")  # kinds of capacity that have prices of their own
_PERCENT = 100 * 10_000  # a discount is whole hundredths of a hundredth of a percent


@dataclass(frozen=True, slots=True)
class Commitment:
    """`hourly` nano-dollars are paid every hour from `start` to `end` (ns; None: always).

    What it covers costs its rate by type, nano-dollars an hour, or the list price less `discount`
    (millionths). Empty lists of types, families and zones match all.
    """

    name: str
    hourly: int
    discount: int = 0
    rates: Mapping[str, int] = field(default_factory=dict)
    families: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    start: int | None = None
    end: int | None = None
    reserved: bool = False

    def covers(self, one: Instance) -> bool:
        """May it pay for such an instance?"""
        return (
            one.capacity_type not in _UNCOVERED
            and (not self.families or one.instance_type.partition(".")[0] in self.families)
            and (not self.types or one.instance_type in self.types)
            and (not self.zones or one.zone in self.zones)
            and (not self.rates or one.instance_type in self.rates)
        )

    def rate(self, one: Instance, listed: int) -> int:
        """What an hour of it costs where it is covered, nano-dollars."""
        known = self.rates.get(one.instance_type)
        return listed * (_PERCENT - self.discount) // _PERCENT if known is None else known

    def due(self, start: int, end: int) -> int:
        """What is paid for it between two instants of one hour."""
        begin = start if self.start is None else max(start, self.start)
        stop = end if self.end is None else min(end, self.end)
        return self.hourly * max(0, stop - begin) // HOUR


@dataclass(frozen=True, slots=True)
class Licence:
    """Paid besides the instance, nano-dollars an hour for each vCPU, on nodes of these pools or types."""

    name: str
    core_hour: int
    pools: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    def price(self, one: Instance) -> int:
        """Nano-dollars an hour for that instance."""
        if one.pool not in self.pools and one.instance_type not in self.types:
            return 0
        return self.core_hour * one.capacity.get("cpu", 0) // 1000


@dataclass(frozen=True, slots=True)
class Terms:
    """All that was agreed on with the provider."""

    commitments: tuple[Commitment, ...] = ()
    licences: tuple[Licence, ...] = ()


class UnderTerms:
    """A past in which what is paid follows the terms."""

    def __init__(self, past: Past, terms: Terms) -> None:
        self._past = past
        self._terms = terms

    @property
    def span(self) -> tuple[int, int]:
        """See Past."""
        return self._past.span

    def read(self, start: int, end: int) -> Facts:
        """See Past. Whole hours are read: what a commitment pays for depends on all that ran in the hour."""
        begin, stop = start - start % HOUR, -(-end // HOUR) * HOUR
        return applied(self._past.read(begin, stop), self._terms, begin, stop)


def applied(facts: Facts, terms: Terms, start: int, end: int) -> Facts:
    """Facts at what is really paid between two instants, at whole hours."""
    if terms.commitments:
        facts = _committed(facts, terms.commitments, start, end)
    licensed = {one.id: _licensed(one, terms.licences) for one in facts.instances.values()}
    return replace(facts, instances=licensed)


def _committed(facts: Facts, commitments: Sequence[Commitment], start: int, end: int) -> Facts:
    order = sorted(commitments, key=lambda one: (not one.reserved, not one.families, one.name))
    first = max(start, facts.start - facts.start % HOUR)
    rates: dict[str, list[Rate]] = {}  # those before the first hour stay
    for name, one in facts.instances.items():
        rates[name] = [rate for rate in one.rates if rate.at < max(first, one.start)]
    unused: list[Unused] = []
    alive = _Alive(facts.instances.values())
    for hour in range(first, min(end, facts.end), HOUR):
        begin, stop = max(hour, facts.start), min(hour + HOUR, facts.end)
        pieces = [piece for one in alive.between(hour, stop) for piece in _pieces(one, hour, stop)]
        for commitment in order:
            due = commitment.due(begin, stop)
            left = _spend(commitment, pieces, due) if due else 0
            if due:
                unused.append(Unused(commitment.name, begin, stop, left, due))
        for piece in pieces:
            piece.settle(rates[piece.one.id])
    return replace(
        facts,
        instances={n: replace(one, rates=rates[n] or one.rates) for n, one in facts.instances.items()},
        unused=unused,
    )


def _licensed(one: Instance, licences: Sequence[Licence]) -> Instance:
    extra = sum(licence.price(one) for licence in licences)
    if not extra:
        return one
    return replace(one, rates=[Rate(rate.at, rate.price + extra, rate.volumes) for rate in one.rates])


class _Alive:
    """Which instances ran in an hour; hours are asked for in their order."""

    def __init__(self, instances: Iterable[Instance]) -> None:
        self._coming = sorted(instances, key=lambda one: (-one.start, one.id))
        self._here: list[Instance] = []

    def between(self, start: int, end: int) -> list[Instance]:
        while self._coming and self._coming[-1].start < end:
            self._here.append(self._coming.pop())
        self._here = [one for one in self._here if one.end is None or one.end > start]
        return self._here


@dataclass(slots=True)
class _Piece:
    """An instance at one price within an hour. `open` is what of its list cost is not yet covered.

    Invariant: `paid` and `open` and what volumes cost are what the piece costs.
    """

    one: Instance
    start: int
    end: int
    listed: int  # nano-dollars an hour, volumes apart
    volumes: int
    open: int
    paid: int = 0

    def settle(self, rates: list[Rate]) -> None:
        """A price an hour that bills exactly what it costs: as few prices as say so."""
        price = self.listed + self.volumes
        if self.paid:
            cost = self.paid + self.open + self.volumes * (self.end - self.start) // HOUR
            price = -(-cost * HOUR // (self.end - self.start))
        partial = self.paid and self.end - self.start < HOUR  # joined to others it could be rounded otherwise
        if not rates or (rates[-1].price, rates[-1].volumes) != (price, self.volumes) or partial:
            rates.append(Rate(self.start, price, self.volumes))


def _pieces(one: Instance, start: int, end: int) -> Iterator[_Piece]:
    until = end if one.end is None else min(end, one.end)
    for index, rate in enumerate(one.rates):
        begin = max(start, rate.at)
        stop = min(until, one.rates[index + 1].at) if index + 1 < len(one.rates) else until
        if stop > begin:
            listed = rate.price - rate.volumes
            yield _Piece(one, begin, stop, listed, rate.volumes, listed * (stop - begin) // HOUR)


def _spend(commitment: Commitment, pieces: Sequence[_Piece], due: int) -> int:
    """Let it pay for what it saves most on; what is left of it."""
    wanted = []
    for piece in pieces:
        if piece.open <= 0 or not commitment.covers(piece.one):
            continue
        rate = commitment.rate(piece.one, piece.listed)
        if 0 < rate < piece.listed:
            wanted.append((rate / piece.listed, piece.one.id, piece.start, rate, piece))
    left = due
    for _, _, _, rate, piece in sorted(wanted, key=lambda item: item[:3]):
        if not left:
            break
        # All that is still open of it at the commitment's rate, or as much as is left of the amount.
        whole = piece.open * rate // piece.listed
        spent = min(left, whole)
        covered = piece.open if spent == whole else spent * piece.listed // rate
        piece.open -= covered
        piece.paid += spent
        left -= spent
    return left


@dataclass(frozen=True, slots=True)
class Used:
    """Of a commitment in a window, nano-dollars: what is due, and what of it nothing used.

    `next_hour` is what was left of it an hour, in the last hour that is known: so much more that it covers
    would cost nothing.
    """

    name: str
    due: int
    left: int
    next_hour: int


def uses(facts: Facts, start: int, end: int) -> tuple[Used, ...]:
    """Of every commitment that is due between two instants."""
    found: dict[str, Used] = {}
    for one in facts.unused:
        if one.end <= start or one.start >= end:
            continue
        known = found.get(one.name, Used(one.name, 0, 0, 0))
        share = max(0, min(end, one.end) - max(start, one.start))
        found[one.name] = Used(
            one.name,
            known.due + one.due * share // (one.end - one.start),
            known.left + one.cost(start, end),
            one.left * HOUR // (one.end - one.start),
        )
    return tuple(found.values())
