"""The CreateFleet request of a launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dovetail.base.errors import CreateFailed
from dovetail.cloud.aws.launchtemplate.template import Document, Launch, Template, tagged
from dovetail.cloud.choice import CAPACITY_BLOCK, Choice, reservation_kind
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.units.money import NANO_DOLLARS

# A reserved instance is paid for already: its price only keeps the order of the types.
RESERVED_SHARE = 10_000_000


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
        # Prices that are not EC2's own: only priorities make a fleet follow them.
        **_target(choice, prioritized=labels.PRICE_OVERLAID in launch.claim.metadata.annotations),
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
    listed = list_prices[item.name] if offering.capacity_type == labels.RESERVED else 0
    if listed and offering.price == listed // RESERVED_SHARE:  # else a NodeOverlay's
        return listed / RESERVED_SHARE / NANO_DOLLARS
    return offering.price / NANO_DOLLARS
