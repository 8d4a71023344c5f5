"""What a class would launch otherwise now than it did. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.fingerprint import CLASS_HASH_VERSION, class_hash
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.cloud.provider import NodeClassResolution
from dovetail.model import labels

NODE_CLASS = "NodeClassDrift"
IMAGE = "AMIDrift"
SECURITY_GROUP = "SecurityGroupDrift"
SUBNET = "SubnetDrift"
RESERVATION = "CapacityReservationDrift"
PLACEMENT_GROUP = "PlacementGroupDrift"


@dataclass(frozen=True, slots=True)
class Made:
    """What an instance was made of, by id."""

    image: str
    subnet: str
    security_groups: frozenset[str]
    reservation: str = ""  # "" for an instance that no capacity is reserved for
    placement_group: str = ""  # its name


def class_stamp(node_class: EC2NodeClass) -> dict[str, str]:
    """Annotations by which a claim remembers the class that its instance was made from."""
    return {
        labels.NODECLASS_HASH: class_hash(node_class),
        labels.NODECLASS_HASH_VERSION: CLASS_HASH_VERSION,
    }


def drift(
    claim: NodeClaim, node_class: EC2NodeClass, made: Made, now: NodeClassResolution, image: str
) -> str:
    """The first difference, in the words of the Drifted condition; "" if there is none.

    `image` is what the class chooses for the instance's type now. Selectors that match nothing at the moment
    say nothing: their own conditions report that.
    """
    if _class_changed(claim, node_class):
        return NODE_CLASS
    if image and image != made.image:
        return IMAGE
    if now.security_groups and made.security_groups != {group.id for group in now.security_groups}:
        return SECURITY_GROUP
    if now.subnets and made.subnet not in {subnet.id for subnet in now.subnets}:
        return SUBNET
    if made.reservation and made.reservation not in {item.id for item in now.reservations}:
        return RESERVATION
    if _group_changed(node_class, made, now):
        return PLACEMENT_GROUP
    return ""


def _group_changed(node_class: EC2NodeClass, made: Made, now: NodeClassResolution) -> bool:
    """A group that is selected and not found says nothing, a selector that is gone does."""
    if node_class.spec.placement_group_selector is None:
        return bool(made.placement_group)
    return now.placement_group is not None and made.placement_group != now.placement_group.name


def _class_changed(claim: NodeClaim, node_class: EC2NodeClass) -> bool:
    """Hashes of different versions say nothing about each other."""
    stamped = claim.metadata.annotations
    return stamped.get(labels.NODECLASS_HASH_VERSION) == CLASS_HASH_VERSION and stamped.get(
        labels.NODECLASS_HASH
    ) != class_hash(node_class)
