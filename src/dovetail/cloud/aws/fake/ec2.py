"""EC2 in memory. Filters are read as EC2 does: ANDed, their values ORed, * and ? stand for anything."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from dovetail.base.clock import Clock
from dovetail.cloud import catalog
from dovetail.cloud.aws.amifamily.images import Filter, ImageQuery
from dovetail.cloud.aws.api import (
    CapacityReservation,
    FleetAnswer,
    Image,
    Instance,
    LaunchTemplate,
    PlacementGroup,
    SecurityGroup,
    SpotPrice,
    StatusCheck,
    Subnet,
    Zone,
)
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.fake.account import AMAZON, Account
from dovetail.cloud.aws.fake.fleet import Launches
from dovetail.cloud.aws.fake.gate import Gate
from dovetail.cloud.aws.fake.machines import Machines
from dovetail.cloud.aws.fake.market import Market
from dovetail.cloud.aws.launchtemplate.template import Document
from dovetail.cloud.catalog.store import TypeRecord

_TAG = "tag:"


# The name of a filter, its plain values, and its patterns. One call asks for up to 200 instances by their
# ids, and each instance there is is held against them.
_Asked = tuple[str, frozenset[str], tuple[str, ...]]


def read(action: str, filters: Iterable[Filter], known: Sequence[str]) -> Sequence[_Asked]:
    """What filters ask for. Raises what EC2 says to one that it does not have."""
    for one in filters:
        if not (one.name in known or one.name == "tag-key" or one.name.startswith(_TAG)):
            raise AwsError(action, "InvalidParameterValue", f"The filter '{one.name}' is invalid")
    return [(one.name, *_kinds(one.values)) for one in filters]


def matches(filters: Iterable[_Asked], fields: Mapping[str, str], tags: Mapping[str, str]) -> bool:
    """True iff all filters hold for a resource with these fields, by the names of the filters."""
    for name, exact, patterns in filters:
        texts = _texts(name, fields, tags)
        if exact.isdisjoint(texts) and not any(
            fnmatchcase(text, pattern) for text in texts for pattern in patterns
        ):
            return False
    return True


def _texts(name: str, fields: Mapping[str, str], tags: Mapping[str, str]) -> Collection[str]:
    """What a filter of that name looks at; any of it may match."""
    if name == "tag-key":
        return tags.keys()
    if not name.startswith(_TAG):
        return (fields[name],)
    found = tags.get(name.removeprefix(_TAG))
    return () if found is None else (found,)


def _kinds(values: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Plain values, and patterns."""
    patterns = tuple(value for value in values if "*" in value or "?" in value)
    # fnmatch knows sets in brackets as well, EC2 does not.
    return frozenset(values).difference(patterns), tuple(one.replace("[", "[[]") for one in patterns)


def _named(filters: Iterable[_Asked], ids: Collection[str]) -> Collection[str] | None:
    """The ids of the only instances that may be meant; None where any may be."""
    for name, exact, patterns in filters:
        if name == "instance-id" and not patterns:
            return exact
    return ids or None


_OWNERS = {"amazon": AMAZON}


class MemoryEc2:
    """Implements `api.Ec2`. `account` may be replaced from outside; the rest may be looked at."""

    def __init__(
        self, gate: Gate, clock: Clock, seed: int, account: Account, market: Market, machines: Machines
    ) -> None:
        self._gate = gate
        self._clock = clock
        self._seed = seed
        self.account = account
        self.market = market
        self.machines = machines
        self.launches = Launches(clock, seed, self)

    async def describe_availability_zones(self) -> Sequence[Zone]:
        """See the port."""
        await self._enter("DescribeAvailabilityZones")
        return [Zone(name, identifier) for name, identifier in catalog.zones(self.account.region).items()]

    async def describe_instance_types(self) -> Sequence[TypeRecord]:
        """See the port."""
        await self._enter("DescribeInstanceTypes")
        return tuple(self.market.records.values())

    async def describe_instance_type_offerings(self) -> Sequence[tuple[str, str]]:
        """See the port."""
        await self._enter("DescribeInstanceTypeOfferings")
        return [(name, zone) for name, zones in self.market.zones.items() for zone in zones]

    async def describe_spot_price_history(self, since: int) -> Sequence[SpotPrice]:
        """See the port: of a moving price only the present one."""
        await self._enter("DescribeSpotPriceHistory")
        now = max(since, self._clock.now())
        offers = self.market.spot_offers()
        return [SpotPrice(pool[1], pool[2], self.market.price(pool, now), now) for pool in offers]

    async def describe_subnets(self, filters: Sequence[Filter]) -> Sequence[Subnet]:
        """See the port."""
        await self._enter("DescribeSubnets")
        asked = read("DescribeSubnets", filters, ("subnet-id", "vpc-id", "availability-zone"))
        return [
            replace(item, free_addresses=self.free_addresses(item.id))
            for item in self.account.subnets
            if matches(
                asked,
                {"subnet-id": item.id, "vpc-id": item.vpc, "availability-zone": item.zone},
                item.tags,
            )
        ]

    async def describe_security_groups(self, filters: Sequence[Filter]) -> Sequence[SecurityGroup]:
        """See the port."""
        await self._enter("DescribeSecurityGroups")
        asked = read("DescribeSecurityGroups", filters, ("group-id", "group-name", "vpc-id"))
        return [
            item
            for item in self.account.security_groups
            if matches(asked, {"group-id": item.id, "group-name": item.name, "vpc-id": item.vpc}, item.tags)
        ]

    async def describe_images(self, query: ImageQuery) -> Sequence[Image]:
        """See the port."""
        await self._enter("DescribeImages")
        asked = read("DescribeImages", query.filters, ("image-id", "name", "state"))
        owners = {_OWNERS.get(owner, owner) for owner in query.owners}
        owners |= {self.account.number} if "self" in owners else set()
        return [
            item
            for item in self.account.images
            if (not owners or item.owner in owners)
            and matches(asked, {"image-id": item.id, "name": item.name, "state": "available"}, item.tags)
        ]

    async def describe_capacity_reservations(
        self, filters: Sequence[Filter]
    ) -> Sequence[CapacityReservation]:
        """See the port."""
        await self._enter("DescribeCapacityReservations")
        known = ("owner-id", "state", "instance-match-criteria")
        asked = read("DescribeCapacityReservations", filters, known)
        return [
            replace(item, left=self.machines.left(item))
            for item in self.account.reservations
            if item.state == "active"
            and matches(
                asked,
                {
                    "owner-id": item.owner,
                    "state": item.state,
                    "instance-match-criteria": item.criteria,
                },
                item.tags,
            )
        ]

    async def describe_placement_groups(self, filters: Sequence[Filter]) -> Sequence[PlacementGroup]:
        """See the port."""
        await self._enter("DescribePlacementGroups")
        asked = read("DescribePlacementGroups", filters, ("group-id", "group-name"))
        return [
            item
            for item in self.account.placement_groups
            if matches(asked, {"group-id": item.id, "group-name": item.name}, {})
        ]

    async def describe_launch_templates(self, filters: Sequence[Filter]) -> Sequence[LaunchTemplate]:
        """See the port."""
        await self._enter("DescribeLaunchTemplates")
        asked = read("DescribeLaunchTemplates", filters, ("launch-template-name",))
        return [
            item
            for item, _ in self.launches.templates.values()
            if matches(asked, {"launch-template-name": item.name}, item.tags)
        ]

    async def create_launch_template(self, request: Document, *, dry_run: bool = False) -> None:
        """See the port."""
        await self._enter("CreateLaunchTemplate")
        if not dry_run:
            self.launches.add_template(request)

    async def delete_launch_template(self, name: str) -> None:
        """See the port."""
        await self._enter("DeleteLaunchTemplate")
        self.launches.drop_template(name)

    async def create_fleet(self, request: Document, *, token: str = "", dry_run: bool = False) -> FleetAnswer:
        """See the port."""
        await self._enter("CreateFleet")
        if dry_run:
            return FleetAnswer("")
        entity = token or str(self._gate.calls["ec2:CreateFleet"])
        delay = self.machines.options.answer.draw(self._seed, entity, "launch delay")
        await self._clock.sleep(delay)
        return self.launches.fleet(request, token)

    async def run_instances(self, request: Document) -> None:
        """See the port."""
        await self._enter("RunInstances")
        image = request.get("ImageId", "")
        if image and not any(item.id == image for item in self.account.images):
            raise AwsError(
                "RunInstances", "InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist"
            )

    async def describe_instances(
        self, filters: Sequence[Filter] = (), *, ids: Sequence[str] = ()
    ) -> Sequence[Instance]:
        """See the port."""
        await self._enter("DescribeInstances")
        asked = read("DescribeInstances", filters, ("instance-id", "instance-state-name"))
        machines = self.machines
        for one in ids:
            if machines.find(one) is None:
                raise _no_instance("DescribeInstances", one)
        found = [machines.described(machine) for machine in machines.visible(_named(asked, ids))]
        return [
            item
            for item in found
            if (not ids or item.id in ids)
            and matches(
                asked,
                {"instance-id": item.id, "instance-state-name": item.state},
                item.tags,
            )
        ]

    async def describe_instance_status(self) -> Sequence[StatusCheck]:
        """See the port."""
        await self._enter("DescribeInstanceStatus")
        return [machine.check for machine in self.machines.visible() if machine.check is not None]

    async def terminate_instances(self, ids: Sequence[str]) -> None:
        """See the port."""
        await self._enter("TerminateInstances")
        found = [(one, self.machines.find(one) or self.machines.there(one)) for one in ids]
        for one, machine in found:
            if machine is None:
                raise _no_instance("TerminateInstances", one)
        for _, machine in found:
            if machine is not None and machine.gone is None:
                self.machines.terminate(machine)

    async def reboot_instances(self, ids: Sequence[str]) -> None:
        """See the port."""
        await self._enter("RebootInstances")
        found = [(one, self.machines.find(one)) for one in ids]
        for one, machine in found:
            if machine is None or machine.gone is not None:
                raise _no_instance("RebootInstances", one)
        for _, machine in found:
            if machine is not None:
                self.machines.reboot(machine)

    async def create_tags(self, resources: Sequence[str], tags: Mapping[str, str]) -> None:
        """See the port; the fake knows tags of instances only."""
        await self._enter("CreateTags")
        found = [(one, self.machines.find(one)) for one in resources]
        for one, machine in found:
            if machine is None:
                raise _no_instance("CreateTags", one)
        for _, machine in found:
            if machine is not None:
                self.machines.tag(machine, tags)

    async def _enter(self, action: str) -> None:
        await self._gate.enter("ec2", action)

    def free_addresses(self, subnet: str) -> int:
        """Those that a subnet has left."""
        known = next((item.free_addresses for item in self.account.subnets if item.id == subnet), 0)
        return max(0, known - self.machines.addresses[subnet])


def _no_instance(action: str, identifier: str) -> AwsError:
    return AwsError(action, "InvalidInstanceID.NotFound", f"The instance ID '{identifier}' does not exist")
