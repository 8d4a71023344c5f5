"""Which types replacements may be launched as, so that they save enough whatever the cloud picks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.disrupt.consolidation.question import Candidate, Offer, Question
from dovetail.disrupt.minimum import kept
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.plan import PlannedClaim
from dovetail.model.problem import Pool
from dovetail.model.requirement import Requirement, Requirements

SPOT_DIVERSITY = 15  # cheaper types that a spot node alone must leave to its spot replacement
NO_CHEAPER = "Can't replace with a cheaper node"
SPOT_DISABLED = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
TOO_FEW_SPOT = (
    "SpotToSpotConsolidation requires 15 cheaper instance type options than the current candidate to "
    "consolidate, got {}"
)
UNSETTLED = "Pods of the node have room on nodes that are not quiet yet"
SCATTERED = "The scheduler would place pods of the node so that others find no room"
CROWDED = "Pods of nodes on their way out would lose their places"
FILTERED = "Filtering by price: minValues requirement is not met for label {}"


class Refused(Exception):
    """There is no replacement that may be launched; the message is the event's."""


class Same(Refused):
    """Nodes that go would be bought again just as they are, with the names of those that may as well stay."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        super().__init__(NO_CHEAPER)
        self.names = frozenset(candidate.name for candidate in candidates)


class AtMinimum(Refused):
    """A pool would keep too few nodes, with the names of those that may as well stay."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        super().__init__(kept(candidates[0].pool))
        self.names = frozenset(candidate.name for candidate in candidates)


@dataclass(frozen=True, slots=True)
class _Going:
    """What is known of the nodes that go. `below`: types of which only cheaper nodes may follow."""

    below: Mapping[str, int]  # type -> nano-dollars per hour
    offers: frozenset[Offer]


@dataclass(frozen=True, slots=True)
class _Sold:
    """A type that a claim lists, and what it costs at worst, all parts of a node included."""

    kind: InstanceType
    worst: int


def affordable(
    question: Question, candidates: Sequence[Candidate], claims: Sequence[PlannedClaim]
) -> tuple[PlannedClaim, ...]:
    """The claims, each listing only types that leave the saving as it must be, in the worst case together.

    Raises Refused; Same if some of the nodes would be bought again.
    """
    same = _bought_again(candidates, claims)
    if same:
        raise Same(same)
    ceiling = sum(candidate.price - candidate.needed for candidate in candidates)
    expected = sum(claim.price for claim in claims)
    if expected > ceiling:
        raise Refused(_too_dear(len(claims)))
    from_spot = all(candidate.spot for candidate in candidates)
    gone = frozenset(candidate.offer for candidate in candidates)
    markets = {pool.name: _Market(pool) for pool in question.problem.pools}
    going = _Going(_limits(candidates, claims), gone)
    found = []
    for claim in claims:
        pinned = _pinned(claim, from_spot=from_spot, gate=question.spot_to_spot)
        # What may be lost to a dearer type is shared by price.
        most = ceiling * claim.price // expected if expected else ceiling
        found.append(_narrowed(pinned, markets[claim.pool], most, going))
    return tuple(_diverse(candidates, found))


def _bought_again(candidates: Sequence[Candidate], claims: Sequence[PlannedClaim]) -> list[Candidate]:
    """Candidates of the very type, zone and capacity type of a claim, one for each such claim."""
    wanted = Counter((claim.instance_type, claim.zone, claim.capacity_type) for claim in claims)
    found = []
    for candidate in candidates:
        if wanted[candidate.offer] > 0:
            wanted[candidate.offer] -= 1
            found.append(candidate)
    return found


def _diverse(candidates: Sequence[Candidate], claims: Sequence[PlannedClaim]) -> Iterator[PlannedClaim]:
    """The claims, those of spot nodes that follow spot nodes with fifteen types, or Refused.

    Where the nodes become half as many or fewer it is not asked for: such a change does not go on for ever.
    Claims beyond those that can follow nodes on demand follow spot nodes.
    """
    before = sum(candidate.spot for candidate in candidates)
    after = sum(_allows(claim, labels.SPOT) for claim in claims) - (len(candidates) - before)
    strict = before > 0 and 2 * after > before
    for claim in claims:
        yield _fifteen(claim) if strict and _allows(claim, labels.SPOT) else claim


def _too_dear(claims: int) -> str:
    return NO_CHEAPER if claims == 1 else f"Can't remove without creating {claims} candidates"


def _allows(claim: PlannedClaim, capacity_type: str) -> bool:
    return capacity_type in claim.requirements.get(labels.CAPACITY_TYPE).values


def _pinned(claim: PlannedClaim, *, from_spot: bool, gate: bool) -> PlannedClaim:
    """Spot only, where spot is what makes it cheap: on demand it could cost as much as before."""
    if not _allows(claim, labels.SPOT):
        return claim
    if from_spot:
        if not gate:
            raise Refused(SPOT_DISABLED)
        return claim
    if not _allows(claim, labels.ON_DEMAND):
        return claim
    return _with(claim, labels.CAPACITY_TYPE, [labels.SPOT])


def _limits(candidates: Sequence[Candidate], claims: Sequence[PlannedClaim]) -> dict[str, int]:
    """Type -> price of a node of it that goes. One for many of the same type could have stayed instead."""
    if len(candidates) == 1 or len(claims) != 1:
        return {}
    found: dict[str, int] = {}
    for candidate in candidates:
        kind = candidate.offer[0]
        found[kind] = min(candidate.price, found.get(kind, candidate.price))
    return found


class _Market:
    """The types of a pool with what they cost at worst: many claims of a plan ask for the same."""

    def __init__(self, pool: Pool) -> None:
        self.by_name = {kind.name: kind for kind in pool.instance_types}
        self._worst: dict[tuple[Requirement, Requirement], dict[str, int | None]] = {}

    def worst(self, wanted: Requirements) -> dict[str, int | None]:
        """Per type, see worst_price."""
        key = wanted.get(labels.ZONE), wanted.get(labels.CAPACITY_TYPE)
        known = self._worst.get(key)
        if known is None:
            known = {name: worst_price(kind, wanted) for name, kind in self.by_name.items()}
            self._worst[key] = known
        return known


def _narrowed(claim: PlannedClaim, market: _Market, most: int, going: _Going) -> PlannedClaim:
    """The claim with those types only that cost at most so much and buy no node again that goes.

    Raises Refused if too few are left.
    """
    extra = claim.volumes + claim.surcharge
    worst = market.worst(claim.requirements)
    sold = {name: each + extra for name in claim.instance_types if (each := worst[name]) is not None}
    below = [going.below[name] for name in sold if name in going.below]
    least = min(below, default=most + 1)
    kept = [
        _Sold(market.by_name[name], each)
        for name, each in sold.items()
        if each <= most
        and each < least
        and not _sells(market.by_name[name], claim.requirements, going.offers)
    ]
    if not kept:
        raise Refused(NO_CHEAPER)
    _check_min_values(claim.requirements, [item.kind for item in kept])
    return _listing(claim, kept)


def _listing(claim: PlannedClaim, kept: Sequence[_Sold]) -> PlannedClaim:
    names = [item.kind.name for item in kept]
    cheapest = min(kept, key=lambda item: (_least(item.kind, claim.requirements)[0], item.kind.name))
    least, offering = _least(cheapest.kind, claim.requirements)
    return replace(
        _with(claim, labels.INSTANCE_TYPE, names),
        instance_types=tuple(names),
        instance_type=cheapest.kind.name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        price=least + claim.volumes + claim.surcharge,
        worst=max(item.worst for item in kept),
        price_estimated=offering.estimated,
    )


def _fifteen(claim: PlannedClaim) -> PlannedClaim:
    """A spot node for a spot node: with few types to choose from, it would soon be interrupted."""
    if len(claim.instance_types) < SPOT_DIVERSITY:
        raise Refused(TOO_FEW_SPOT.format(len(claim.instance_types)))
    least = claim.requirements.get(labels.INSTANCE_TYPE).min_values or 0
    names = list(claim.instance_types[: max(SPOT_DIVERSITY, least)])
    return replace(_with(claim, labels.INSTANCE_TYPE, names), instance_types=tuple(names))


def worst_price(kind: InstanceType, wanted: Requirements) -> int | None:
    """What an instance costs at most: reserved if there is any, else spot, else on demand."""
    offered = _offered(kind, wanted)
    for capacity_type in (labels.RESERVED, labels.SPOT, labels.ON_DEMAND):
        prices = [item.price for item in offered if item.capacity_type == capacity_type]
        if prices:
            return max(prices)
    return None


def _sells(kind: InstanceType, wanted: Requirements, offers: frozenset[Offer]) -> bool:
    return any((kind.name, item.zone, item.capacity_type) in offers for item in _offered(kind, wanted))


def _least(kind: InstanceType, wanted: Requirements) -> tuple[int, Offering]:
    best = min(_offered(kind, wanted), key=lambda item: (item.price, item.zone, item.capacity_type))
    return best.price, best


def _offered(kind: InstanceType, wanted: Requirements) -> list[Offering]:
    zone, capacity_type = wanted.get(labels.ZONE), wanted.get(labels.CAPACITY_TYPE)
    return [
        item
        for item in kind.offerings
        if item.launchable and zone.has(item.zone) and capacity_type.has(item.capacity_type)
    ]


def _check_min_values(wanted: Requirements, kinds: Sequence[InstanceType]) -> None:
    for item in wanted:
        if item.min_values is None:
            continue
        values = {value for kind in kinds for value in kind.requirements.get(item.key).values}
        if len(values) < item.min_values:
            raise Refused(FILTERED.format(item.key))


def _with(claim: PlannedClaim, key: str, values: Sequence[str]) -> PlannedClaim:
    """The claim with one requirement narrowed down to these values."""
    named = Requirement.new(key, "In", sorted(values), claim.requirements.get(key).min_values)
    return replace(claim, requirements=Requirements({**claim.requirements.by_key, key: named}))
