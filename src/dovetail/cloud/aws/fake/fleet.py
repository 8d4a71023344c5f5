"""Launch templates and fleets in memory: which override gives the next instance, and what the others say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dovetail.base.clock import Clock
from dovetail.cloud.aws.api import FleetAnswer, FleetInstances, Instance, LaunchTemplate, Subnet
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.fake.account import Account, by_id, identifier
from dovetail.cloud.aws.fake.machines import Machines, instance_id
from dovetail.cloud.aws.fake.market import Market
from dovetail.cloud.aws.instance.fleet_errors import FleetError
from dovetail.cloud.aws.launchtemplate.template import Document
from dovetail.cloud.choice import Pool, by_price_and_depth
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

        EC2 publishes the aims of its spot strategies, not the rules. Capacity alone: the deepest.
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
        sold = {slot.pool for slot in self._left if market.sells(slot.pool)}
        order = by_price_and_depth({pool: market.depth(pool, now) for pool in sold})
        return lambda slot: (
            (0, *order(slot.pool, market.price(slot.pool, now))) if slot.pool in sold else (1, slot.pool)
        )

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


class Place(Protocol):
    """Where instances start."""

    account: Account
    market: Market
    machines: Machines

    def free_addresses(self, subnet: str) -> int:
        """Those that a subnet has left."""


class Launches:
    """`templates` by name, with their data."""

    def __init__(self, clock: Clock, seed: int, place: Place) -> None:
        self.templates: dict[str, tuple[LaunchTemplate, Document]] = {}
        self._clock = clock
        self._seed = seed
        self._place = place
        self._fleets: dict[str, tuple[str, FleetAnswer]] = {}  # by token: the request, its answer
        self._count = 0
        # Gets how many instances a fleet asks for; answers how many it does not get, None for no change.
        self.withheld: Callable[[int], int | None] = lambda _: None

    def add_template(self, request: Document) -> None:
        """Raises AwsError when the name is taken."""
        name = request["LaunchTemplateName"]
        if name in self.templates:
            code = "InvalidLaunchTemplateName.AlreadyExistsException"
            raise AwsError("CreateLaunchTemplate", code, "Launch template name already in use.")
        self._count += 1
        made = identifier("lt", self._place.account.region, name, str(self._count))
        tags = _tags(request, "launch-template")
        self.templates[name] = LaunchTemplate(made, name, tags), request["LaunchTemplateData"]

    def drop_template(self, name: str) -> None:
        """Raises AwsError when there is none."""
        if name not in self.templates:
            message = "The specified launch template does not exist."
            raise AwsError("DeleteLaunchTemplate", NO_TEMPLATE, message)
        del self.templates[name]

    def fleet(self, request: Document, token: str) -> FleetAnswer:
        """Start what there is capacity for; what was answered to a token before is answered again."""
        text = json.dumps(request, sort_keys=True)
        known = self._fleets.get(token) if token else None
        if known is None:
            self._count += 1
            entity = token or str(self._count)
            known = self._fleets[entity] = text, self._fulfil(request, target(request), entity)
        elif known[0] != text:
            message = "The request uses the same client token as a previous, but non-identical request."
            raise AwsError("CreateFleet", "IdempotentParameterMismatch", message)
        return known[1]

    def _fulfil(self, request: Document, wanted: Target, entity: str) -> FleetAnswer:
        place = self._place
        templates = {name: data for name, (_, data) in self.templates.items()}
        offered = slots(request, wanted.capacity_type, templates, by_id(place.account.subnets))
        work = Fulfilment(offered, wanted, place.market, self._free, self._clock.now())
        made: dict[int, tuple[Slot, list[str]]] = {}
        withheld = self.withheld(wanted.count)
        for number in range(wanted.count - (withheld or 0)):
            slot = work.next()
            if slot is None:
                break
            ids = made.setdefault(slot.number, (slot, []))[1]
            ids.append(self._start(slot, request, f"{entity}/{number}"))
        if withheld is not None:
            work.refuse()
        return FleetAnswer(
            identifier("fleet", place.account.region, entity),
            tuple(_given(slot, ids) for slot, ids in made.values()),
            tuple(_error(*item) for item in work.errors),
        )

    def _free(self, slot: Slot) -> tuple[int, int | None]:
        place = self._place
        known = (item for item in place.account.reservations if item.id == slot.reservation)
        left = next((place.machines.left(item) for item in known), 0) if slot.reservation else None
        return place.free_addresses(slot.subnet.id), left

    def _start(self, slot: Slot, request: Document, entity: str) -> str:
        cards = slot.data.get("NetworkInterfaces", ())
        placement = slot.data.get("Placement", {})
        instance = Instance(
            id=instance_id(self._seed, entity),
            state="pending",
            instance_type=slot.pool[1],
            zone=slot.pool[2],
            zone_id=slot.subnet.zone_id,
            launched=self._clock.now(),
            spot=slot.pool[0] == labels.SPOT,
            image=slot.image,
            subnet=slot.subnet.id,
            vpc=slot.subnet.vpc,
            security_groups=frozenset(group for card in cards for group in card.get("Groups", ())),
            reservation=slot.reservation,
            tenancy=placement.get("Tenancy", "default"),
            profile=slot.data.get("IamInstanceProfile", {}).get("Name", ""),
            placement_group=self._group(placement.get("GroupId", "")),
            partition=self._partition(placement),
            efa_interfaces=sum(card.get("InterfaceType", "").startswith("efa") for card in cards),
            tags={**_tags(request, "instance"), **self._marks(slot, entity)},
        )
        self._place.machines.start(instance, slot.pool, slot.addresses)
        return instance.id

    def _marks(self, slot: Slot, entity: str) -> dict[str, str]:
        """The tags that EC2 itself gives to instances of a fleet."""
        return {
            "aws:ec2:fleet-id": identifier("fleet", self._place.account.region, entity.rpartition("/")[0]),
            "aws:ec2launchtemplate:id": self.templates[slot.template][0].id,
            "aws:ec2launchtemplate:version": "1",
        }

    def _partition(self, placement: Document) -> int | None:
        """The one that is asked for, else that with the fewest instances; None where the group has none."""
        known = (one for one in self._place.account.placement_groups if one.id == placement.get("GroupId"))
        group = next(known, None)
        if group is None or not group.partitions:
            return None
        running = (one.instance for one in self._place.machines.running())
        there = [one.partition for one in running if one.placement_group == group.name]
        asked: int | None = placement.get("PartitionNumber")
        return asked or min(range(1, group.partitions + 1), key=there.count)

    def _group(self, identifier: str) -> str:
        """The name of the placement group with that id."""
        known = (item.name for item in self._place.account.placement_groups if item.id == identifier)
        return next(known, "")


def _given(slot: Slot, ids: list[str]) -> FleetInstances:
    capacity_type, name, zone = slot.pool
    spot = capacity_type == labels.SPOT
    return FleetInstances(tuple(ids), name, zone, spot, slot.subnet.id, slot.image)


def _error(slot: Slot, code: str, message: str) -> FleetError:
    capacity_type, name, zone = slot.pool
    return FleetError(code, message, capacity_type, name, zone, slot.subnet.id)


def _tags(request: Document, kind: str) -> dict[str, str]:
    return {
        tag["Key"]: tag["Value"]
        for item in request.get("TagSpecifications", ())
        if item["ResourceType"] == kind
        for tag in item["Tags"]
    }
