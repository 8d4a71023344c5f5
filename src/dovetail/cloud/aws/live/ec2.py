"""EC2 over the network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dovetail.base.clock import SECOND
from dovetail.cloud.aws.amifamily.images import MOST_RESULTS, Filter, ImageQuery
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
from dovetail.cloud.aws.launchtemplate.template import Document
from dovetail.cloud.aws.live import read
from dovetail.cloud.aws.live.calls import Answer, Calls
from dovetail.cloud.catalog.described import record
from dovetail.cloud.catalog.store import TypeRecord

_ALLOWED = "DryRunOperation"
# Sizes of pages: as large as each call takes.
_PAGE, _TYPES_PAGE, _TEMPLATES_PAGE = 1000, 100, 200
_USABLE = (
    Filter("supported-virtualization-type", ("hvm",)),
    Filter("processor-info.supported-architecture", ("x86_64", "arm64")),
)
_LINUX = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]


class LiveEc2:
    """Implements `api.Ec2`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def describe_availability_zones(self) -> Sequence[Zone]:
        """See the port."""
        answer = await self._call("describe_availability_zones")
        return [read.zone(item) for item in answer["AvailabilityZones"]]

    async def describe_instance_types(self) -> Sequence[TypeRecord]:
        """See the port."""
        pages = self._pages("describe_instance_types", "InstanceTypes", _TYPES_PAGE, _USABLE)
        return [record(item) async for item in pages]

    async def describe_instance_type_offerings(self) -> Sequence[tuple[str, str]]:
        """See the port."""
        pages = self._pages(
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            _PAGE,
            LocationType="availability-zone",
        )
        return [(item["InstanceType"], item["Location"]) async for item in pages]

    async def describe_spot_price_history(self, since: int) -> Sequence[SpotPrice]:
        """See the port."""
        pages = self._pages(
            "describe_spot_price_history",
            "SpotPriceHistory",
            _PAGE,
            ProductDescriptions=_LINUX,
            StartTime=datetime.fromtimestamp(since // SECOND, UTC),
        )
        return read.spot_prices([item async for item in pages])

    async def describe_subnets(self, filters: Sequence[Filter]) -> Sequence[Subnet]:
        """See the port."""
        pages = self._pages("describe_subnets", "Subnets", _PAGE, filters)
        return [read.subnet(item) async for item in pages]

    async def describe_security_groups(self, filters: Sequence[Filter]) -> Sequence[SecurityGroup]:
        """See the port."""
        pages = self._pages("describe_security_groups", "SecurityGroups", _PAGE, filters)
        return [read.security_group(item) async for item in pages]

    async def describe_images(self, query: ImageQuery) -> Sequence[Image]:
        """See the port."""
        owners = {"Owners": list(query.owners)} if query.owners else {}
        pages = self._pages(
            "describe_images", "Images", MOST_RESULTS, query.filters, IncludeDeprecated=True, **owners
        )
        return [read.image(item) async for item in pages]

    async def describe_capacity_reservations(
        self, filters: Sequence[Filter]
    ) -> Sequence[CapacityReservation]:
        """See the port."""
        active = (*filters, Filter("state", ("active",)))
        pages = self._pages("describe_capacity_reservations", "CapacityReservations", _PAGE, active)
        return [read.capacity_reservation(item) async for item in pages]

    async def describe_placement_groups(self, filters: Sequence[Filter]) -> Sequence[PlacementGroup]:
        """See the port."""
        answer = await self._call("describe_placement_groups", Filters=_written(filters))
        return [read.placement_group(item) for item in answer["PlacementGroups"]]

    async def describe_launch_templates(self, filters: Sequence[Filter]) -> Sequence[LaunchTemplate]:
        """See the port."""
        pages = self._pages("describe_launch_templates", "LaunchTemplates", _TEMPLATES_PAGE, filters)
        return [read.launch_template(item) async for item in pages]

    async def create_launch_template(self, request: Document, *, dry_run: bool = False) -> None:
        """See the port."""
        await self._tried("create_launch_template", dry_run, request)

    async def delete_launch_template(self, name: str) -> None:
        """See the port."""
        await self._call("delete_launch_template", LaunchTemplateName=name)

    async def create_fleet(self, request: Document, *, token: str = "", dry_run: bool = False) -> FleetAnswer:
        """See the port."""
        whole = {**request, "ClientToken": token} if token else request
        return read.fleet(await self._tried("create_fleet", dry_run, whole))

    async def run_instances(self, request: Document) -> None:
        """See the port."""
        await self._tried("run_instances", True, request)

    async def describe_instances(
        self, filters: Sequence[Filter] = (), *, ids: Sequence[str] = ()
    ) -> Sequence[Instance]:
        """See the port."""
        # EC2 takes either ids or the size of a page.
        asked = {"InstanceIds": list(ids)} if ids else {}
        pages = self._pages("describe_instances", "Reservations", 0 if ids else _PAGE, filters, **asked)
        return [read.instance(item) async for reservation in pages for item in reservation["Instances"]]

    async def describe_instance_status(self) -> Sequence[StatusCheck]:
        """See the port."""
        pages = self._pages("describe_instance_status", "InstanceStatuses", _PAGE)
        return [check async for item in pages for check in read.status_checks(item)]

    async def terminate_instances(self, ids: Sequence[str]) -> None:
        """See the port."""
        await self._call("terminate_instances", InstanceIds=list(ids))

    async def reboot_instances(self, ids: Sequence[str]) -> None:
        """See the port."""
        await self._call("reboot_instances", InstanceIds=list(ids))

    async def create_tags(self, resources: Sequence[str], tags: Mapping[str, str]) -> None:
        """See the port."""
        written = [{"Key": key, "Value": value} for key, value in tags.items()]
        await self._call("create_tags", Resources=list(resources), Tags=written)

    async def _call(self, method: str, **parameters: Any) -> Answer:
        return await self._calls.call("ec2", method, **parameters)

    async def _tried(self, method: str, dry_run: bool, request: Document) -> Answer:
        """EC2 answers to a dry run with an error, whichever way it went."""
        if not dry_run:
            return await self._call(method, **request)
        try:
            await self._call(method, **{**request, "DryRun": True})
        except AwsError as error:
            if error.code != _ALLOWED:
                raise
        return {}

    def _pages(
        self, method: str, key: str, size: int, filters: Sequence[Filter] = (), **parameters: Any
    ) -> AsyncIterator[Any]:
        if filters:
            parameters["Filters"] = _written(filters)
        return self._calls.pages("ec2", method, key, size, **parameters)


def _written(filters: Sequence[Filter]) -> list[Document]:
    return [{"Name": item.name, "Values": list(item.values)} for item in filters]
