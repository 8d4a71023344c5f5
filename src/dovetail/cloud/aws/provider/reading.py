"""Instances of EC2 as the provider's port has them."""

from __future__ import annotations

from dataclasses import replace

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.cloud.aws import shapes
from dovetail.cloud.aws.drift import class_stamp
from dovetail.cloud.aws.provider.instances import CLAIM, ENDING, provider_id
from dovetail.cloud.aws.provider.launcher import Launched, bought_labels
from dovetail.cloud.provider import Instance
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering


def made(
    launched: Launched, claim: NodeClaim, node_class: EC2NodeClass, region: str, volumes: int
) -> Instance:
    """What a launch for the claim came to; `volumes` is their price. It lacks the time of its start."""
    kind, offering = launched.kind, launched.offering
    base = Instance(
        provider_id=provider_id(offering.zone, launched.id),
        instance_type=kind.name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        price=0,
        image_id=launched.image,
        created=0,
        claim=claim.metadata.name,
        reservation_id=offering.reservation_id,
        annotations=_remembered(node_class, launched.profile),
    )
    return _as_sold(base, kind, offering, region, volumes)


def adopted(
    found: shapes.Instance,
    kind: InstanceType | None,
    node_class: EC2NodeClass | None,
    region: str,
    volumes: int,
) -> Instance:
    """One that an earlier process launched; what is not sold any more has no price and no capacity."""
    how = labels.SPOT if found.spot else labels.RESERVED if found.reservation else labels.ON_DEMAND
    base = Instance(
        provider_id=provider_id(found.zone, found.id),
        instance_type=found.instance_type,
        zone=found.zone,
        capacity_type=how,
        price=0,
        image_id=found.image,
        created=found.launched,
        claim=found.tags.get(CLAIM, ""),
        reservation_id=found.reservation,
        terminating=found.state in ENDING,
        labels={labels.REGION: region, labels.INSTANCE_TYPE: found.instance_type, labels.ZONE: found.zone},
        annotations=_remembered(node_class, found.profile.rpartition("/")[2]),
    )
    for offering in kind.offerings if kind is not None else ():
        place = offering.zone, offering.capacity_type, offering.reservation_id
        if kind is not None and place == (found.zone, how, found.reservation):
            return _as_sold(base, kind, offering, region, volumes)
    return base


def _remembered(node_class: EC2NodeClass | None, profile: str) -> dict[str, str]:
    """What the claim keeps in mind: the class as it was, and the profile that has to stay while it runs."""
    stamp = class_stamp(node_class) if node_class is not None else {}
    return {**stamp, labels.INSTANCE_PROFILE: profile} if profile else stamp


def _as_sold(base: Instance, kind: InstanceType, offering: Offering, region: str, volumes: int) -> Instance:
    return replace(
        base,
        price=offering.price + volumes,
        volumes=volumes,
        labels={**bought_labels(kind, offering), labels.REGION: region},
        capacity=kind.capacity,
        allocatable=kind.allocatable(),
    )
