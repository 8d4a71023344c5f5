"""The CreateFleet request of a launch, and what the errors of its answer mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from dovetail.base.errors import CloudError, CreateFailed, InsufficientCapacity
from dovetail.cloud.aws.launchtemplate.template import Document, Launch, Template, tagged
from dovetail.cloud.choice import CAPACITY_BLOCK, Choice, Pool, reservation_kind
from dovetail.model import labels
from dovetail.model.offering import NANO_DOLLARS, InstanceType, Offering

# A reserved instance is paid for already: its price only keeps the order of the types.
RESERVED_SHARE = 10_000_000
# On a claim whose prices are not EC2's own: only priorities make a fleet follow them.
PRICE_OVERLAY = "karpenter.sh/price-overlay-applied"


def fleet_request(
    launch: Launch,
    choice: Choice,
    made: Iterable[Template],
    subnets: Mapping[str, str],
    list_prices: Mapping[str, int],
) -> Document:
    """One instance from any of the templates.

    `subnets` has the subnet to use per zone; offerings in other zones are left out. `list_prices` are those
    on demand, in nano-dollars per hour by type: shares of them, finer than that, rank reserved types.
    Raises CreateFailed when no offering is left.
    """
    configs = []
    for template in made:
        overrides = _overrides(choice.capacity_type, template, subnets, list_prices)
        if overrides:
            reference = {"LaunchTemplateName": template.name, "Version": "$Latest"}
            configs.append({"LaunchTemplateSpecification": reference, "Overrides": overrides})
    if not configs:
        zones = ", ".join(sorted({one.offering.zone for one in choice.candidates()}))
        raise CreateFailed(f"the node class has no subnet in {zones}", reason="SubnetResolutionFailed")
    request: Document = {
        "Type": "instant",
        "LaunchTemplateConfigs": configs,
        **_target(choice, prioritized=PRICE_OVERLAY in launch.claim.metadata.annotations),
        "TagSpecifications": tagged(("instance", "volume", "fleet"), launch.tags),
    }
    context = launch.node_class.spec.context
    return {**request, "Context": context} if context else request


def _target(choice: Choice, *, prioritized: bool) -> Document:
    """What is counted, and how offerings are chosen from: by EC2's prices, or by the priorities here."""
    target = labels.ON_DEMAND
    strategy = "prioritized" if prioritized else "lowest-price"
    options: Document = {"OnDemandOptions": {"AllocationStrategy": strategy}}
    if choice.capacity_type == labels.SPOT:
        target = labels.SPOT
        strategy = "capacity-optimized-prioritized" if prioritized else "price-capacity-optimized"
        options = {"SpotOptions": {"AllocationStrategy": strategy}}
    elif choice.capacity_type == labels.RESERVED:
        kind = reservation_kind(choice.candidates()[0].offering)
        if kind == CAPACITY_BLOCK:
            target, options = CAPACITY_BLOCK, {}
        elif kind == "interruptible":
            target = "reserved-capacity"
            kinds = ["interruptible-capacity-reservation"]
            options = {"ReservedCapacityOptions": {"ReservationTypes": kinds}}
    counted = {"DefaultTargetCapacityType": target, "TotalTargetCapacity": 1}
    return {"TargetCapacitySpecification": counted, **options}


def _overrides(
    capacity_type: str, template: Template, subnets: Mapping[str, str], list_prices: Mapping[str, int]
) -> list[Document]:
    """By zone, then by type, so that equal launches are equal requests."""
    found = [
        {
            "InstanceType": item.name,
            "SubnetId": subnets[offering.zone],
            "ImageId": template.data["ImageId"],
            "AvailabilityZone": offering.zone,
            "Priority": _priority(item, offering, list_prices),
        }
        for item in template.types
        for offering in item.offerings
        if offering.capacity_type == capacity_type
        and offering.reservation_id == template.reservation
        and offering.zone in subnets
    ]
    return sorted(found, key=lambda one: (one["AvailabilityZone"], one["InstanceType"]))


def _priority(item: InstanceType, offering: Offering, list_prices: Mapping[str, int]) -> float:
    """Dollars per hour; the least is the most wanted."""
    if offering.capacity_type == labels.RESERVED:
        return list_prices[item.name] / RESERVED_SHARE / NANO_DOLLARS
    return offering.price / NANO_DOLLARS


# Codes that say that one offering has no capacity; it is avoided for a while.
NO_CAPACITY = frozenset(
    {
        "InsufficientFreeAddressesInSubnet",
        "InsufficientInstanceCapacity",
        "MaxFleetCountExceeded",
        "MaxSpotInstanceCountExceeded",
        "ReservationCapacityExceeded",
        "UnfulfillableCapacity",
        "Unsupported",
        "VcpuLimitExceeded",
    }
)
NO_ADDRESSES = "InsufficientFreeAddressesInSubnet"
NO_SPOT_ROLE = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
_SHOWN = 5
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class FleetError:
    """One error of an answer, about one override of the request."""

    code: str
    message: str
    capacity_type: str
    instance_type: str
    zone: str
    subnet: str = ""

    @property
    def pool(self) -> Pool:
        return self.capacity_type, self.instance_type, self.zone


@dataclass(frozen=True, slots=True)
class Refusals:
    """What to avoid for a while, each in the order of the errors."""

    pools: tuple[Pool, ...] = ()
    subnets: tuple[str, ...] = ()
    spot_types: tuple[str, ...] = ()  # in every zone: the account may start no spot instance at all


def refusals(errors: Iterable[FleetError]) -> Refusals:
    """What the errors say about capacity."""
    errors = tuple(errors)
    return Refusals(
        pools=_unique(error.pool for error in errors if error.code in NO_CAPACITY),
        subnets=_unique(error.subnet for error in errors if error.code == NO_ADDRESSES and error.subnet),
        spot_types=_unique(
            error.instance_type
            for error in errors
            if error.code == NO_SPOT_ROLE and error.capacity_type == labels.SPOT
        ),
    )


def failure(errors: Iterable[FleetError]) -> CloudError:
    """The error of a launch that got no instance.

    InsufficientCapacity where every override was out of capacity: others may have some. CreateFailed for
    anything else, with the first other code as the reason: trying again is all that can be done.
    """
    errors = tuple(errors)
    others = [error for error in errors if error.code not in (*NO_CAPACITY, NO_SPOT_ROLE)]
    if errors and not others:
        return InsufficientCapacity(_summary(errors))
    return CreateFailed(_summary(errors), others[0].code if others else "LaunchFailed")


def _summary(errors: tuple[FleetError, ...]) -> str:
    """Each different error once, the first few in words."""
    texts = _unique(f"{error.code}: {error.message}" for error in errors)
    more = len(texts) - _SHOWN
    rest = f"; and {more} more" if more > 0 else ""
    return f"with fleet error(s), {'; '.join(texts[:_SHOWN])}{rest}" if texts else "no instance was launched"


def _unique(items: Iterable[_Item]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys(items))
