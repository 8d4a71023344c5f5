"""How the twin fulfils a fleet request: which override gives the next instance, and what the others say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dovetail.cloud.aws.launch import Document
from dovetail.cloud.aws.memory.market import Market
from dovetail.cloud.aws.shapes import Subnet
from dovetail.cloud.choice import Pool
from dovetail.model import labels

NO_CAPACITY = "InsufficientInstanceCapacity"
NO_ADDRESS = "InsufficientFreeAddressesInSubnet"
NO_VCPUS = "VcpuLimitExceeded"
NO_SPOT_VCPUS = "MaxSpotInstanceCountExceeded"
NOT_SOLD = "Unsupported"
NOT_RESERVED = "ReservationCapacityExceeded"
NO_TEMPLATE = "InvalidLaunchTemplateName.NotFoundException"
_MESSAGES = {
    NO_CAPACITY: "We currently do not have sufficient capacity in the Availability Zone you requested.",
    NO_ADDRESS: "The subnet does not have enough free addresses to satisfy the request.",
    NO_VCPUS: "You have requested more vCPU capacity than your current vCPU limit allows.",
    NO_SPOT_VCPUS: "Max spot instance count exceeded",
    NOT_SOLD: "Your requested instance type is not supported in your requested Availability Zone.",
    NOT_RESERVED: "The requested reservation does not have sufficient capacity.",
    NO_TEMPLATE: "The specified launch template does not exist.",
}
_PREFIX = 16  # addresses of a delegated prefix


@dataclass(frozen=True, slots=True)
class Slot:
    """One override of a request together with its launch template's data."""

    number: int  # in the request
    pool: Pool
    subnet: Subnet
    image: str
    priority: float
    data: Document
    template: str  # "" when there is none of that name

    @property
    def reservation(self) -> str:
        """The id of the one that it must start in; "" for none."""
        wanted = self.data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
        return str(wanted.get("CapacityReservationId", ""))

    @property
    def addresses(self) -> int:
        """That one instance takes of the subnet."""
        cards = self.data.get("NetworkInterfaces", ())
        return 1 + sum(_PREFIX * int(card.get("Ipv4PrefixCount", 0)) for card in cards)


@dataclass(frozen=True, slots=True)
class Target:
    """How many instances are wanted, of which kind, and by which strategy they are chosen."""

    count: int
    capacity_type: str
    strategy: str


def target(request: Document) -> Target:
    """Of a request of type instant."""
    wanted = request["TargetCapacitySpecification"]
    spot = wanted["DefaultTargetCapacityType"] == labels.SPOT
    options: Mapping[str, Any] = request.get("SpotOptions" if spot else "OnDemandOptions", {})
    usual = "lowest-price"
    strategy = options.get("AllocationStrategy", usual)
    kind = labels.SPOT if spot else labels.ON_DEMAND
    return Target(wanted["TotalTargetCapacity"], kind, strategy)


def slots(
    request: Document,
    capacity_type: str,
    templates: Mapping[str, Document],
    subnets: Mapping[str, Subnet],
) -> Iterator[Slot]:
    """The overrides in the order of the request; overrides without a known subnet are left out."""
    number = 0
    for config in request["LaunchTemplateConfigs"]:
        name = config["LaunchTemplateSpecification"]["LaunchTemplateName"]
        data = templates.get(name)
        for one in config["Overrides"]:
            number += 1
            subnet = subnets.get(one.get("SubnetId", ""))
            if subnet is None:
                continue
            yield Slot(
                number=number,
                pool=(capacity_type, one["InstanceType"], subnet.zone),
                subnet=subnet,
                image=one.get("ImageId") or (data or {}).get("ImageId", ""),
                priority=float(one.get("Priority", 0)),
                data=data or {},
                template=name if data is not None else "",
            )


class Fulfilment:
    """Instances one after another. `errors` has the code of every override that was tried in vain."""

    def __init__(
        self,
        found: Iterable[Slot],
        wanted: Target,
        market: Market,
        free: Callable[[Slot], tuple[int, int | None]],
        now: int,
    ) -> None:
        self._left = list(found)
        self._wanted = wanted
        self._market = market
        self._free = free  # addresses left in the subnet, instances left in the reservation
        self._now = now
        self.errors: list[tuple[Slot, str, str]] = []

    def next(self) -> Slot | None:
        """Where the next instance starts; overrides that refuse are not tried again."""
        while self._left:
            slot = min(self._left, key=self._rank())
            code = self._refusal(slot)
            if not code:
                return slot
            self._left.remove(slot)
            self.errors.append((slot, code, _MESSAGES[code]))
        return None

    def refuse(self) -> None:
        """No override has any more capacity."""
        self.errors += [(slot, NO_CAPACITY, _MESSAGES[NO_CAPACITY]) for slot in self._left]
        self._left.clear()

    def _rank(self) -> Callable[[Slot], tuple[Any, ...]]:
        """The least comes first.

        EC2 publishes the aims of its spot strategies, not the rules. Price and capacity: the cheapest of the
        pools that are at least half as deep as the deepest. Capacity alone: the deepest.
        """
        market, now, strategy = self._market, self._now, self._wanted.strategy
        if strategy in ("prioritized", "capacity-optimized-prioritized"):
            return lambda slot: (slot.priority, slot.pool)
        if strategy == "capacity-optimized":
            return lambda slot: (-market.depth(slot.pool, now), slot.pool)
        if strategy != "price-capacity-optimized":
            return lambda slot: (
                market.price(slot.pool, now) if slot.pool[1] in market.records else 0,
                slot.pool,
            )
        depths = {
            slot.pool: market.depth(slot.pool, now) if market.sells(slot.pool) else 0 for slot in self._left
        }
        deepest = max(depths.values(), default=0)

        def rank(slot: Slot) -> tuple[Any, ...]:
            sold = market.sells(slot.pool)
            price = market.price(slot.pool, now) if sold else 0
            return not sold, 2 * depths[slot.pool] < deepest, price, -depths[slot.pool], slot.pool

        return rank

    def _refusal(self, slot: Slot) -> str:
        """The code with which the override refuses one more instance; "" if it does not."""
        market = self._market
        if not slot.template:
            return NO_TEMPLATE
        if not market.sells(slot.pool):
            return NOT_SOLD
        addresses, reserved = self._free(slot)
        if addresses < slot.addresses:
            return NO_ADDRESS
        if reserved is not None:
            return NOT_RESERVED if reserved <= 0 else ""
        if market.over_quota(slot.pool):
            return NO_SPOT_VCPUS if slot.pool[0] == labels.SPOT else NO_VCPUS
        room = market.room(slot.pool, self._now)
        return NO_CAPACITY if room is not None and room <= 0 else ""
