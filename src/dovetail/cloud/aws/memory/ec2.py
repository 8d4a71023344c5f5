"""The twin of EC2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dovetail.base.clock import Clock
from dovetail.cloud import catalog
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.images import Filter, ImageQuery
from dovetail.cloud.aws.launch import Document
from dovetail.cloud.aws.memory.account import AMAZON, Account
from dovetail.cloud.aws.memory.filters import check, matches
from dovetail.cloud.aws.memory.gate import Gate
from dovetail.cloud.aws.memory.launches import Launches
from dovetail.cloud.aws.memory.machines import Machines
from dovetail.cloud.aws.memory.market import Market
from dovetail.cloud.aws.shapes import (
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
from dovetail.cloud.catalog.store import TypeRecord

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
        check("DescribeSubnets", filters, ("subnet-id", "vpc-id", "availability-zone"))
        return [
            replace(item, free_addresses=self.free_addresses(item.id))
            for item in self.account.subnets
            if matches(
                filters,
                {"subnet-id": item.id, "vpc-id": item.vpc, "availability-zone": item.zone},
                item.tags,
            )
        ]

    async def describe_security_groups(self, filters: Sequence[Filter]) -> Sequence[SecurityGroup]:
        """See the port."""
        await self._enter("DescribeSecurityGroups")
        check("DescribeSecurityGroups", filters, ("group-id", "group-name", "vpc-id"))
        return [
            item
            for item in self.account.security_groups
            if matches(filters, {"group-id": item.id, "group-name": item.name, "vpc-id": item.vpc}, item.tags)
        ]

    async def describe_images(self, query: ImageQuery) -> Sequence[Image]:
        """See the port."""
        await self._enter("DescribeImages")
        check("DescribeImages", query.filters, ("image-id", "name", "state"))
        owners = {_OWNERS.get(owner, owner) for owner in query.owners}
        owners |= {self.account.number} if "self" in owners else set()
        return [
            item
            for item in self.account.images
            if (not owners or item.owner in owners)
            and matches(
                query.filters, {"image-id": item.id, "name": item.name, "state": "available"}, item.tags
            )
        ]

    async def describe_capacity_reservations(
        self, filters: Sequence[Filter]
    ) -> Sequence[CapacityReservation]:
        """See the port."""
        await self._enter("DescribeCapacityReservations")
        check("DescribeCapacityReservations", filters, ("owner-id", "state", "instance-match-criteria"))
        return [
            replace(item, left=self.machines.left(item))
            for item in self.account.reservations
            if item.state == "active"
            and matches(
                filters,
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
        check("DescribePlacementGroups", filters, ("group-id", "group-name"))
        return [
            item
            for item in self.account.placement_groups
            if matches(filters, {"group-id": item.id, "group-name": item.name}, {})
        ]

    async def describe_launch_templates(self, filters: Sequence[Filter]) -> Sequence[LaunchTemplate]:
        """See the port."""
        await self._enter("DescribeLaunchTemplates")
        check("DescribeLaunchTemplates", filters, ("launch-template-name",))
        return [
            item
            for item, _ in self.launches.templates.values()
            if matches(filters, {"launch-template-name": item.name}, item.tags)
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
        check("DescribeInstances", filters, ("instance-id", "instance-state-name"))
        machines = self.machines
        for one in ids:
            if machines.find(one) is None:
                raise _no_instance("DescribeInstances", one)
        found = [machines.described(machine) for machine in machines.visible()]
        return [
            item
            for item in found
            if (not ids or item.id in ids)
            and matches(
                filters,
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

    async def create_tags(self, resources: Sequence[str], tags: Mapping[str, str]) -> None:
        """See the port; the twin knows tags of instances only."""
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
