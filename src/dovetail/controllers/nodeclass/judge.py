"""The conditions and the status of an EC2NodeClass whose selectors resolve to something. Pure."""

from __future__ import annotations

from typing import Any

from dovetail.api.codec import encode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.meta import condition
from dovetail.cloud.provider import NodeClassResolution, ResolvedReservation, Unready
from dovetail.cloud.unready import unready_of
from dovetail.controllers.conditions import Conditions, Stamp, set_condition, set_ready
from dovetail.units.timestamp import to_rfc3339

DEPENDENCIES = ("AMIsReady", "InstanceProfileReady", "SecurityGroupsReady", "SubnetsReady")
OTHERS = ("CapacityReservationsReady", "PlacementGroupReady")
DEPENDENTS = (*DEPENDENCIES, "ValidationSucceeded", *OTHERS)
AWAITING = "Awaiting AMI, Instance Profile, Security Group, and Subnet resolution"
_VALIDATED = "ValidationSucceeded"


def judge(node_class: EC2NodeClass, resolution: NodeClassResolution, stamp: Stamp) -> Conditions:
    """The conditions of the class."""
    conditions = node_class.status.conditions
    unready = {item.condition: item for item in unready_of(node_class, resolution)}
    for kind in (*DEPENDENCIES, *OTHERS):
        conditions = _set(conditions, unready.get(kind, Unready(kind, "", "", "True")), stamp)
    found = {kind: condition(conditions, kind) for kind in DEPENDENCIES}
    statuses = {item.status for item in found.values() if item is not None}
    validated = Unready(_VALIDATED, "", "", "True")
    if resolution.faults:
        # Known without anything that the selectors stand for, so it is said even while that is missing.
        message = "; ".join(text for _, text in resolution.faults)
        validated = Unready(_VALIDATED, resolution.faults[0][0], message)
    elif statuses != {"True"}:
        status = "False" if "False" in statuses else "Unknown"
        validated = Unready(_VALIDATED, "DependenciesNotReady", AWAITING, status)
    return set_ready(_set(conditions, validated, stamp), DEPENDENTS, stamp)


def status(node_class: EC2NodeClass, resolution: NodeClassResolution) -> dict[str, Any]:
    """The rest of the class's status; None takes a field away."""
    return {
        "subnets": [
            {"id": item.id, "zone": item.zone, "zoneID": item.zone_id} for item in resolution.subnets
        ],
        "securityGroups": [{"id": item.id, "name": item.name} for item in resolution.security_groups],
        "amis": [
            {
                "id": item.id,
                "name": item.name,
                "requirements": [encode(term) for term in item.requirements.selector_requirements()],
                **({"deprecated": True} if item.deprecated else {}),
            }
            for item in resolution.images
        ],
        "capacityReservations": [_reservation(item) for item in resolution.reservations] or None,
        "instanceProfile": resolution.instance_profile or node_class.spec.instance_profile or None,
    }


def _set(conditions: Conditions, item: Unready, stamp: Stamp) -> Conditions:
    return set_condition(
        conditions, item.condition, item.status, stamp, reason=item.reason, message=item.message
    )


def _reservation(item: ResolvedReservation) -> dict[str, Any]:
    return {
        "availabilityZone": item.zone,
        "id": item.id,
        "instanceMatchCriteria": item.criteria,
        "instanceType": item.instance_type,
        "interruptible": item.interruptible,
        "ownerID": item.owner,
        "reservationType": item.kind,
        "state": item.state,
        **({"endTime": to_rfc3339(item.ends)} if item.ends is not None else {}),
    }
