"""What a launch asks the cloud for: pure functions over values.

Filters narrow the instance types one after another; the 60 cheapest are kept, and one capacity type is chosen
for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from dovetail.base.errors import CreateFailed, InsufficientCapacity
from dovetail.cloud.catalog.capacity import AMD_GPU, GAUDI, NEURON, NVIDIA_GPU
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirements
from dovetail.model.resources import Resources, fits

# What runs dry on its own: capacity type, instance type, zone.
Pool = tuple[str, str, str]

MOST_TYPES = 60
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

    def candidates(self) -> tuple[Candidate, ...]:
        """The offerings of that capacity type."""
        return tuple(
            Candidate(item, offering)
            for item in self.types
            for offering in item.offerings
            if offering.capacity_type == self.capacity_type
        )


def choose(types: Iterable[InstanceType], request: Request) -> Choice:
    """Raises InsufficientCapacity when no type is left, and CreateFailed when the 60 cheapest are not varied
    enough for the claim's minValues.
    """
    return chosen(_holding(offered(types, request.requirements), request), request)


def chosen(left: list[InstanceType], request: Request) -> Choice:
    """Of types that may be had for the request, with the offerings that may; raises what `choose` does."""
    left = _one_reservation_type(left)
    left = _one_capacity_block(left)
    left = _best_reservation_per_zone(left)
    if not request.min_values():
        left = _without_exotic(left)
        left = _without_dear_spot(left)
    if not left:
        raise InsufficientCapacity(_UNAVAILABLE)
    left = sorted(left, key=lambda item: (_cheapest(item.offerings), item.name))[:MOST_TYPES]
    _check_variety(left, request.requirements)
    return Choice(tuple(left), _capacity_type(left))


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


def offered(types: Iterable[InstanceType], wanted: Requirements) -> list[InstanceType]:
    """Types that meet the requirements, with the offerings that are available."""
    names = wanted.get(labels.INSTANCE_TYPE)
    verdicts: dict[Requirements, bool] = {}
    kept = []
    for item in types:
        if not names.has(item.name) or not wanted.overlaps(item.requirements):
            continue
        offerings = []
        for offering in item.offerings:
            terms = offering.requirements
            if terms not in verdicts:
                verdicts[terms] = wanted.overlaps(terms)
            if offering.available and verdicts[terms]:
                offerings.append(offering)
        if offerings:
            kept.append(replace(item, offerings=tuple(offerings)))
    return kept


def _holding(types: list[InstanceType], request: Request) -> list[InstanceType]:
    return [item for item in types if fits(request.requests, item.allocatable())]


def _one_reservation_type(types: list[InstanceType]) -> list[InstanceType]:
    """Where anything is reserved, offerings of one type of reservation: the one that has the cheapest."""
    cheapest = min(
        ((offering.price, reservation_kind(offering)) for _, offering in _reserved(types)), default=None
    )
    if cheapest is None:
        return types
    return _keeping(types, lambda offering: reservation_kind(offering) == cheapest[1])


def _one_capacity_block(types: list[InstanceType]) -> list[InstanceType]:
    """A capacity block is launched into alone: the cheapest."""
    blocks = [
        (offering.price, item.name, offering.zone, offering.reservation_id)
        for item, offering in _reserved(types)
        if reservation_kind(offering) == CAPACITY_BLOCK
    ]
    if not blocks:
        return types
    _, name, zone, identifier = min(blocks)
    chosen = [item for item in types if item.name == name]
    return _keeping(
        chosen,
        lambda offering: (offering.zone, offering.reservation_id) == (zone, identifier),
    )


def _best_reservation_per_zone(types: list[InstanceType]) -> list[InstanceType]:
    """Per type and zone the reservation with the most instances left; types without one are dropped."""
    best: dict[tuple[str, str], Offering] = {}
    for item, offering in _reserved(types):
        known = best.get((item.name, offering.zone))
        if known is None or offering.reservation_capacity > known.reservation_capacity:
            best[item.name, offering.zone] = offering
    if not best:
        return types
    return [
        replace(item, offerings=kept)
        for item in types
        if (kept := tuple(one for one in item.offerings if best.get((item.name, one.zone)) is one))
    ]


def _without_exotic(types: list[InstanceType]) -> list[InstanceType]:
    """No bare metal and no accelerators, unless there is nothing else."""
    usual = [
        item
        for item in types
        if "metal" not in item.name and not any(item.capacity.get(name) for name in _EXOTIC)
    ]
    return usual or types


def _without_dear_spot(types: list[InstanceType]) -> list[InstanceType]:
    """Where both are possible, no spot offering dearer than the cheapest on-demand one."""
    offered = [offering for item in types for offering in item.offerings]
    on_demand = [offering.price for offering in offered if offering.capacity_type == labels.ON_DEMAND]
    if not on_demand:
        return types
    ceiling = min(on_demand)
    return _keeping(
        types, lambda offering: offering.capacity_type != labels.SPOT or offering.price <= ceiling
    )


def _check_variety(types: list[InstanceType], requirements: Requirements) -> None:
    for wanted in requirements:
        if wanted.min_values is None:
            continue
        values = {
            value for item in types for value in item.requirements.get(wanted.key).intersection(wanted).values
        }
        if len(values) < wanted.min_values:
            raise CreateFailed(
                f"minValues of {wanted.key} is {wanted.min_values}, "
                f"but the {len(types)} cheapest instance types have {len(values)}",
                reason="InstanceTypeResolutionFailed",
            )


def _capacity_type(types: list[InstanceType]) -> str:
    """Reserved before spot before on-demand, whichever is left; a type list is never empty here."""
    found = {offering.capacity_type for item in types for offering in item.offerings}
    return next(kind for kind in (labels.RESERVED, labels.SPOT, labels.ON_DEMAND) if kind in found)


def _reserved(types: list[InstanceType]) -> Iterator[tuple[InstanceType, Offering]]:
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


def _keeping(types: list[InstanceType], wanted: Callable[[Offering], bool]) -> list[InstanceType]:
    return [
        item if len(kept) == len(item.offerings) else replace(item, offerings=kept)
        for item in types
        if (kept := tuple(offering for offering in item.offerings if wanted(offering)))
    ]


def _cheapest(offerings: Iterable[Offering]) -> int:
    return min(offering.price for offering in offerings)
