"""From what a class resolves to, to the types that are asked for it."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.cloud.aws.provider.draws import Addresses
from dovetail.cloud.aws.provider.market import Wanted, Zones
from dovetail.cloud.aws.reservations import Reservation
from dovetail.cloud.provider import NodeClassResolution


def wanted(
    node_class: EC2NodeClass,
    found: NodeClassResolution | None,
    zone_ids: Mapping[str, str],
    drawn: tuple[Addresses, ...] = (),
) -> Wanted:
    """What the class stands for; None where this process has not looked yet. `drawn`: of its subnets."""
    if found is None:
        return Wanted(node_class, _as_found_before(node_class))
    zones = tuple(sorted({(item.zone, item.zone_id) for item in found.subnets}))
    return Wanted(node_class, zones, _reserved(found, zone_ids), found.images, drawn)


def _as_found_before(node_class: EC2NodeClass) -> Zones:
    """The zones of the class's subnets as an earlier process found them."""
    return tuple(sorted({(item["zone"], item.get("zoneID", "")) for item in node_class.status.subnets}))


def _reserved(found: NodeClassResolution, zone_ids: Mapping[str, str]) -> tuple[Reservation, ...]:
    """What the class selected; a block that ends soon takes nobody in any more."""
    return tuple(
        Reservation(
            item.id,
            item.instance_type,
            item.zone,
            zone_ids.get(item.zone, ""),
            item.kind,
            item.left if item.state == "active" else 0,
            item.interruptible,
        )
        for item in found.reservations
    )
