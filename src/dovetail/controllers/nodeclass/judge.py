"""The conditions and the status of an EC2NodeClass whose selectors resolve to something. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from dovetail.api.codec import encode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, SelectorTerm
from dovetail.api.meta import condition
from dovetail.cloud.provider import NodeClassResolution, ResolvedReservation, Unready
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
    unready = {item.condition: item for item in _unready(node_class, resolution)}
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


def near_miss(terms: Iterable[SelectorTerm], existing: tuple[str, ...]) -> str:
    """ " (found key X)" for an existing tag key that looks like a selected one that does not exist, or ""."""
    wanted = sorted({key for term in terms for key in term.tags if key not in existing})
    for key in wanted:
        close = difflib.get_close_matches(key, existing, n=1, cutoff=0.8)
        if close:
            return f" (found key {close[0]!r}, but the selector asks for {key!r})"
    return ""


def _set(conditions: Conditions, item: Unready, stamp: Stamp) -> Conditions:
    return set_condition(
        conditions, item.condition, item.status, stamp, reason=item.reason, message=item.message
    )


def _unready(node_class: EC2NodeClass, resolution: NodeClassResolution) -> Iterator[Unready]:
    """Why conditions are not True; what the provider says itself comes last, and so wins."""
    spec = node_class.spec
    if not resolution.subnets:
        hint = near_miss(spec.subnet_selector_terms, resolution.subnet_tag_keys)
        message = f"SubnetSelector did not match any Subnets{hint}"
        yield Unready("SubnetsReady", "SubnetsNotFound", message)
    if not resolution.security_groups:
        hint = near_miss(spec.security_group_selector_terms, resolution.security_group_tag_keys)
        message = f"SecurityGroupSelector did not match any SecurityGroups{hint}"
        yield Unready("SecurityGroupsReady", "SecurityGroupsNotFound", message)
    if resolution.unsupported_alias:
        yield Unready("AMIsReady", "UnsupportedAlias", resolution.unsupported_alias)
    elif not resolution.images:
        hint = f" ({resolution.image_hint})" if resolution.image_hint else ""
        yield Unready("AMIsReady", "AMINotFound", f"AMISelector did not match any AMIs{hint}")
    yield from resolution.unready


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
