"""What a launch asks the cloud for: pure functions over values.

Filters narrow the instance types one after another; the 60 cheapest are kept, and one capacity type is chosen
for all of them. Of spot only what costs little more than the cheapest is named, unless all of that refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heapreplace

from dovetail.base.errors import CreateFailed, InsufficientCapacity
from dovetail.base.memo import by_weight
from dovetail.cloud.catalog.capacity import AMD_GPU, GAUDI, NEURON, NVIDIA_GPU
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering, Overhead, allocatable
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.resources import Resources, fits

# What runs dry on its own: capacity type, instance type, zone, or a reservation's id in the zone's place.
Pool = tuple[str, str, str]

MOST_TYPES = 60
_REMEMBERED = 4_096  # types, of all classes together
FEW_TYPES = 5  # below that a launch on demand that spot would do for is worth a word
_RESERVATION_TYPE = labels.AWS + "capacity-reservation-type"
_INTERRUPTIBLE = labels.AWS + "capacity-reservation-interruptible"
CAPACITY_BLOCK = "capacity-block"
_EXOTIC = (NVIDIA_GPU, AMD_GPU, GAUDI, NEURON)
_UNAVAILABLE = "all requested instance types were unavailable during launch"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One offering of a fleet request."""

    instance_type: InstanceType
    offering: Offering

    @property
    def pool(self) -> Pool:
        return self.offering.capacity_type, self.instance_type.name, self.offering.zone


@dataclass(frozen=True, slots=True)
class Offered:
    """A type with those of its offerings that are left, never none, and what the filters ask of them.

    Prices in nano-dollars per hour: of what there is none, on demand costs infinitely much and spot nothing.
    """

    kind: InstanceType
    offerings: tuple[Offering, ...]
    cheapest: int
    on_demand: float  # the cheapest
    spot: int  # the dearest
    reserved: bool
    exotic: bool  # bare metal, or with accelerators

    @staticmethod
    def of(kind: InstanceType, offerings: tuple[Offering, ...], *, exotic: bool | None = None) -> Offered:
        """`exotic` where it is known."""
        cheapest = on_demand = float("inf")
        spot, reserved = 0, False
        for one in offerings:  # in one go, as a plan of 8,000 pods makes 10,000 of these
            price, capacity_type = one.price, one.capacity_type
            if price < cheapest:
                cheapest = price
            if capacity_type == labels.SPOT:
                if price > spot:
                    spot = price
            elif capacity_type != labels.ON_DEMAND:
                reserved = True
            elif price < on_demand:
                on_demand = price
        if exotic is None:
            exotic = "metal" in kind.name or any(map(kind.capacity.get, _EXOTIC))
        return Offered(kind, offerings, int(cheapest), on_demand, spot, reserved, exotic)

    @property
    def type(self) -> InstanceType:
        """As a type that is offered in no other way."""
        return replace(self.kind, offerings=self.offerings)


@dataclass(frozen=True, slots=True)
class SpotRange:
    """Which spot offerings a launch names: those that cost at most `tolerance` percent more than the cheapest
    one, and in any case those up to the price at which there are so many types to choose from.

    A fleet weighs price and depth: of sixty types it takes a deep pool that may cost twice as much. Where
    there are no more types than that, all of their offerings are named.
    """

    types: int
    tolerance: int

    @staticmethod
    def of(types: int, tolerance: int) -> SpotRange | None:
        """None where all 60 types are wanted: then none is too dear, as with Karpenter."""
        return SpotRange(types, tolerance) if types < MOST_TYPES else None


@dataclass(frozen=True, slots=True)
class Request:
    """What a claim demands of the cloud."""

    requirements: Requirements
    requests: Resources

    def min_values(self) -> bool:
        """True iff the claim demands a variety of values."""
        return any(item.min_values is not None for item in self.requirements)


@dataclass(frozen=True, slots=True)
class Choice:
    """The types of a launch, cheapest first, with the offerings that are left, and the capacity type."""

    types: tuple[InstanceType, ...]
    capacity_type: str
    shortened: bool = False  # True iff spot was left out for its price, which is there if this refuses

    def candidates(self) -> tuple[Candidate, ...]:
        """The offerings of that capacity type."""
        return tuple(
            Candidate(item, offering)
            for item in self.types
            for offering in item.offerings
            if offering.capacity_type == self.capacity_type
        )


@dataclass(frozen=True, slots=True)
class Named:
    """What a choice is made of."""

    types: list[Offered]
    capacity_type: str
    shortened: bool


def choose(types: Iterable[InstanceType], request: Request, spot: SpotRange | None = None) -> Choice:
    """Raises InsufficientCapacity when no type is left, and CreateFailed when the 60 cheapest are not varied
    enough for the claim's minValues.
    """
    named = narrowed(_holding(offered(types, request.requirements), request), request, spot)
    return Choice(tuple(item.type for item in named.types), named.capacity_type, named.shortened)


def narrowed(left: list[Offered], request: Request, spot: SpotRange | None) -> Named:
    """Of types that may be had for the request, with the offerings that may: those of the choice, cheapest
    first; raises what `choose` does.
    """
    if any(item.reserved for item in left):
        left = _one_reservation_type(left)
        left = _one_capacity_block(left)
        left = _best_reservation_per_zone(left)
    dearest_spot = float("inf")
    if not request.min_values():
        # No bare metal and no accelerators, unless there is nothing else.
        left = [item for item in left if not item.exotic] or left
        # Where both are possible, no spot offering dearer than the cheapest on-demand one.
        dearest_spot = min([item.on_demand for item in left], default=dearest_spot)
    named = _cheapest(left, dearest_spot)
    if not named:
        raise InsufficientCapacity(_UNAVAILABLE)
    for item, values in _unvaried(named, request.requirements):
        raise CreateFailed(
            f"minValues of {item.key} is {item.min_values}, "
            f"but the {len(named)} cheapest instance types have {values}",
            reason="InstanceTypeResolutionFailed",
        )
    capacity_type = _capacity_type(named)
    if spot is None or capacity_type != labels.SPOT:
        return Named(named, capacity_type, shortened=False)
    return _near(named, request.requirements, spot)


def by_price_and_depth(depths: Mapping[Pool, int]) -> Callable[[Pool, float], tuple[bool, float, int, Pool]]:
    """The least comes first: the cheapest of the spot pools that are at least half as deep as the deepest.

    A model of price-capacity-optimized: EC2 publishes the aim, not the rule. The answer takes a pool and its
    price.
    """
    deepest = max(depths.values(), default=0)
    return lambda pool, price: (2 * depths[pool] < deepest, price, -depths[pool], pool)


def too_few(choice: Choice, wanted: Requirements) -> bool:
    """True iff spot would do as well, none is to be had, and few types are left to choose from."""
    spot = wanted.get(labels.CAPACITY_TYPE).has(labels.SPOT)
    return spot and choice.capacity_type == labels.ON_DEMAND and len(choice.types) < FEW_TYPES


def offered(types: Iterable[InstanceType], wanted: Requirements) -> list[Offered]:
    """Types that meet the requirements, with the offerings that are available."""
    names = wanted.get(labels.INSTANCE_TYPE)
    verdicts: dict[int, bool] = {}  # by identity of what offerings have in common
    kept = []
    for item in types:
        if not names.has(item.name) or not wanted.overlaps(item.requirements):
            continue
        offerings = []
        for offering in item.offerings:
            terms = offering.requirements
            suits = verdicts.get(id(terms))
            if suits is None:
                suits = verdicts[id(terms)] = wanted.overlaps(terms)
            if suits and offering.launchable:
                offerings.append(offering)
        if offerings:
            kept.append(Offered.of(item, tuple(offerings)))
    return kept


def _holding(types: list[Offered], request: Request) -> list[Offered]:
    kinds = ((item, item.kind) for item in types)
    return [item for item, kind in kinds if fits(request.requests, _room(kind.capacity, kind.overhead))]


# A type's own is made anew for each launch, with the offerings that are left; what it holds is not.
@by_weight(_REMEMBERED, lambda *_: 1, same=True)
def _room(capacity: Resources, overhead: Overhead) -> Resources:
    return allocatable(capacity, overhead)


def _one_reservation_type(types: list[Offered]) -> list[Offered]:
    """Where anything is reserved, offerings of one type of reservation: the one that has the cheapest."""
    cheapest = min(
        ((offering.price, reservation_kind(offering)) for _, offering in _reserved(types)), default=None
    )
    if cheapest is None:
        return types
    return _keeping(types, lambda offering: reservation_kind(offering) == cheapest[1])


def _one_capacity_block(types: list[Offered]) -> list[Offered]:
    """A capacity block is launched into alone: the cheapest."""
    blocks = [
        (offering.price, item.kind.name, offering.zone, offering.reservation_id)
        for item, offering in _reserved(types)
        if reservation_kind(offering) == CAPACITY_BLOCK
    ]
    if not blocks:
        return types
    _, name, zone, identifier = min(blocks)
    chosen = [item for item in types if item.kind.name == name]
    return _keeping(
        chosen,
        lambda offering: (offering.zone, offering.reservation_id) == (zone, identifier),
    )


def _best_reservation_per_zone(types: list[Offered]) -> list[Offered]:
    """Per type and zone the reservation with the most instances left; types without one are dropped."""
    best: dict[tuple[str, str], Offering] = {}
    for item, offering in _reserved(types):
        known = best.get((item.kind.name, offering.zone))
        if known is None or offering.reservation_capacity > known.reservation_capacity:
            best[item.kind.name, offering.zone] = offering
    if not best:
        return types
    return [
        Offered.of(item.kind, kept, exotic=item.exotic)
        for item in types
        if (kept := tuple(one for one in item.offerings if best.get((item.kind.name, one.zone)) is one))
    ]


def _cheapest(types: Iterable[Offered], dearest_spot: float) -> list[Offered]:
    """The 60 cheapest types, of which dearer spot offerings are left out.

    Without them a type is dearer, never cheaper: most are not looked at, since they are too dear with them.
    """
    queue = [(item.cheapest, item.kind.name, place, item) for place, item in enumerate(types)]
    heapify(queue)
    found: list[Offered] = []
    while queue and len(found) < MOST_TYPES:
        _, name, place, item = queue[0]
        if item.spot <= dearest_spot:
            found.append(heappop(queue)[-1])
            continue
        kept = tuple(
            one for one in item.offerings if one.capacity_type != labels.SPOT or one.price <= dearest_spot
        )
        if kept:
            item = Offered.of(item.kind, kept, exotic=item.exotic)
            heapreplace(queue, (item.cheapest, name, place, item))
        else:
            heappop(queue)
    return found


def _near(types: list[Offered], requirements: Requirements, spot: SpotRange) -> Named:
    """Without spot that costs too much more than the cheapest, but as varied as minValues ask for.

    What is sold on demand alone goes as well: the launch is for spot. Where there are no more types than are
    wanted, all of them is little enough.
    """
    cheapest = {
        item.kind.name: min(prices)
        for item in types
        if (prices := [one.price for one in item.offerings if one.capacity_type == labels.SPOT])
    }
    sold = [item for item in types if item.kind.name in cheapest]
    sold.sort(key=lambda item: cheapest[item.kind.name])
    count = spot.types
    while count < len(sold) and any(_unvaried(sold[:count], requirements)):
        count += 1
    if count >= len(sold):
        return Named(types, labels.SPOT, shortened=False)
    first, last = (cheapest[item.kind.name] for item in (sold[0], sold[count - 1]))
    dearest = max(first * (100 + spot.tolerance) // 100, last)
    near = [item for item in sold if cheapest[item.kind.name] <= dearest]
    kept = _keeping(near, lambda one: one.capacity_type != labels.SPOT or one.price <= dearest)
    return Named(kept, labels.SPOT, shortened=any(item.spot > dearest for item in sold))


def _unvaried(types: Sequence[Offered], requirements: Requirements) -> Iterator[tuple[Requirement, int]]:
    """Requirements whose minValues the types do not meet, and how many values they have."""
    for wanted in requirements:
        if wanted.min_values is not None:
            values = {
                value
                for item in types
                for value in item.kind.requirements.get(wanted.key).intersection(wanted).values
            }
            if len(values) < wanted.min_values:
                yield wanted, len(values)


def _capacity_type(types: list[Offered]) -> str:
    """Reserved before spot before on-demand, whichever is left; a type list is never empty here."""
    found = {offering.capacity_type for item in types for offering in item.offerings}
    return next(kind for kind in (labels.RESERVED, labels.SPOT, labels.ON_DEMAND) if kind in found)


def _reserved(types: list[Offered]) -> Iterator[tuple[Offered, Offering]]:
    for item in types:
        for offering in item.offerings:
            if offering.capacity_type == labels.RESERVED:
                yield item, offering


def reservation_kind(offering: Offering) -> str:
    """ "default", "capacity-block" or "interruptible"."""
    found = {item.key: item.any_value() for item in offering.requirements}
    if found.get(_INTERRUPTIBLE) == "true":
        return "interruptible"
    return found.get(_RESERVATION_TYPE) or "default"


def _keeping(types: list[Offered], wanted: Callable[[Offering], bool]) -> list[Offered]:
    return [
        item if len(kept) == len(item.offerings) else Offered.of(item.kind, kept, exotic=item.exotic)
        for item in types
        if (kept := tuple(offering for offering in item.offerings if wanted(offering)))
    ]
