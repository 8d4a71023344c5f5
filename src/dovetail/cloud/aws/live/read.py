"""EC2's answers, read into the port's values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from dovetail.base.clock import SECOND
from dovetail.cloud.aws.api import (
    CapacityReservation,
    FleetAnswer,
    FleetInstances,
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
from dovetail.cloud.aws.instance.fleet_errors import FleetError
from dovetail.model import labels
from dovetail.units.money import parse_dollars

Answer = Mapping[str, Any]
_OVER = ("[Completed]", "[Canceled]")  # how the description of an event begins that happens no more


def tags(answer: Answer) -> dict[str, str]:
    """Those of a resource."""
    return {item["Key"]: item["Value"] for item in answer.get("Tags", ())}


def instant(moment: datetime | None) -> int:
    """Nanoseconds since the epoch; 0 for none."""
    return 0 if moment is None else round(moment.timestamp()) * SECOND


def zone(answer: Answer) -> Zone:
    return Zone(answer["ZoneName"], answer["ZoneId"], answer.get("ZoneType", "availability-zone"))


def subnet(answer: Answer) -> Subnet:
    return Subnet(
        id=answer["SubnetId"],
        vpc=answer["VpcId"],
        zone=answer["AvailabilityZone"],
        zone_id=answer.get("AvailabilityZoneId", ""),
        free_addresses=answer["AvailableIpAddressCount"],
        tags=tags(answer),
    )


def security_group(answer: Answer) -> SecurityGroup:
    return SecurityGroup(answer["GroupId"], answer["GroupName"], answer.get("VpcId", ""), tags(answer))


def image(answer: Answer) -> Image:
    volumes = {
        item["DeviceName"]: item["Ebs"]["VolumeSize"]
        for item in answer.get("BlockDeviceMappings", ())
        if item.get("Ebs", {}).get("VolumeSize")
    }
    return Image(
        id=answer["ImageId"],
        name=answer.get("Name", ""),
        arch=answer.get("Architecture", ""),
        created=answer.get("CreationDate", ""),
        owner=answer.get("OwnerId", ""),
        deprecated_from=answer.get("DeprecationTime", ""),
        volumes=volumes,
        tags=tags(answer),
    )


def instance(answer: Answer) -> Instance:
    placement = answer.get("Placement", {})
    interfaces = answer.get("NetworkInterfaces", ())
    return Instance(
        id=answer["InstanceId"],
        state=answer["State"]["Name"],
        instance_type=answer["InstanceType"],
        zone=placement.get("AvailabilityZone", ""),
        zone_id=placement.get("AvailabilityZoneId", ""),
        launched=instant(answer.get("LaunchTime")),
        spot=answer.get("InstanceLifecycle") == "spot",
        image=answer.get("ImageId", ""),
        subnet=answer.get("SubnetId", ""),
        vpc=answer.get("VpcId", ""),
        security_groups=frozenset(item["GroupId"] for item in answer.get("SecurityGroups", ())),
        reservation=answer.get("CapacityReservationId", ""),
        tenancy=placement.get("Tenancy", "default"),
        profile=answer.get("IamInstanceProfile", {}).get("Arn", ""),
        efa_interfaces=sum(item.get("InterfaceType", "").startswith("efa") for item in interfaces),
        placement_group=placement.get("GroupName", ""),
        partition=placement.get("PartitionNumber"),
        state_reason=answer.get("StateReason", {}).get("Code", ""),
        tags=tags(answer),
    )


def status_checks(answer: Answer) -> Iterator[StatusCheck]:
    """What is wrong with one instance."""
    identifier, zone = answer["InstanceId"], answer.get("AvailabilityZone", "")
    for category, key in (("instance_status", "InstanceStatus"), ("system_status", "SystemStatus")):
        for detail in answer.get(key, {}).get("Details", ()):
            if detail.get("Status") == "failed":
                yield StatusCheck(identifier, category, instant(detail.get("ImpairedSince")), zone)
    for event in answer.get("Events", ()):
        if not event.get("Description", "").startswith(_OVER):
            yield StatusCheck(identifier, "event_status", instant(event.get("NotBefore")), zone)


def launch_template(answer: Answer) -> LaunchTemplate:
    return LaunchTemplate(answer["LaunchTemplateId"], answer["LaunchTemplateName"], tags(answer))


def fleet(answer: Answer) -> FleetAnswer:
    return FleetAnswer(
        answer.get("FleetId", ""),
        tuple(_given(item) for item in answer.get("Instances", ())),
        tuple(_error(item) for item in answer.get("Errors", ())),
    )


def _given(answer: Answer) -> FleetInstances:
    override = answer.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    return FleetInstances(
        ids=tuple(answer["InstanceIds"]),
        instance_type=answer.get("InstanceType") or override.get("InstanceType", ""),
        zone=override.get("AvailabilityZone", ""),
        spot=answer.get("Lifecycle") == "spot",
        subnet=override.get("SubnetId", ""),
        image=override.get("ImageId", ""),
    )


def _error(answer: Answer) -> FleetError:
    override = answer.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    return FleetError(
        code=answer.get("ErrorCode", ""),
        message=answer.get("ErrorMessage", ""),
        capacity_type=labels.SPOT if answer.get("Lifecycle") == "spot" else labels.ON_DEMAND,
        instance_type=override.get("InstanceType", ""),
        zone=override.get("AvailabilityZone", ""),
        subnet=override.get("SubnetId", ""),
    )


def spot_prices(answers: Iterable[Answer]) -> tuple[SpotPrice, ...]:
    return tuple(
        SpotPrice(
            item["InstanceType"],
            item["AvailabilityZone"],
            parse_dollars(item["SpotPrice"]),
            instant(item.get("Timestamp")),
        )
        for item in answers
    )


def capacity_reservation(answer: Answer) -> CapacityReservation:
    return CapacityReservation(
        id=answer["CapacityReservationId"],
        instance_type=answer["InstanceType"],
        zone=answer["AvailabilityZone"],
        zone_id=answer.get("AvailabilityZoneId", ""),
        owner=answer.get("OwnerId", ""),
        kind=answer.get("ReservationType") or "default",
        state=answer["State"],
        total=answer.get("TotalInstanceCount", 0),
        left=answer.get("AvailableInstanceCount", 0),
        criteria=answer.get("InstanceMatchCriteria", ""),
        interruptible=answer.get("Interruptible", False),
        ends=instant(answer["EndDate"]) if answer.get("EndDate") else None,
        tags=tags(answer),
    )


def placement_group(answer: Answer) -> PlacementGroup:
    return PlacementGroup(
        id=answer["GroupId"],
        name=answer["GroupName"],
        strategy=answer.get("Strategy", ""),
        state=answer.get("State", ""),
        partitions=answer.get("PartitionCount"),
    )
