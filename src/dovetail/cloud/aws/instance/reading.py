"""Instances of EC2 as the provider's port has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.cloud.aws import api
from dovetail.cloud.aws.instance.instances import CLAIM, ENDING, NODECLASS, provider_id
from dovetail.cloud.aws.instance.launcher import Launched, bought_labels
from dovetail.cloud.aws.nodeclass.drift import class_stamp
from dovetail.cloud.catalog.labels import TENANCY, tenancy
from dovetail.cloud.provider import Instance
from dovetail.cloud.unavailable import single_values
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirements


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
    sold = _as_sold(base, kind, offering, region, volumes)
    asked = Requirements.read(claim.spec.requirements)
    partition = single_values(asked).get(labels.PARTITION) if labels.PLACEMENT_GROUP in sold.labels else None
    return _in_partition(_held_as(sold, tenancy(asked)), partition)


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a type is sold to a class; no type where it is not any more. `volumes` is a price."""

    node_class: EC2NodeClass | None
    kind: InstanceType | None
    volumes: int


class Reader:
    """Reads an answer of EC2: what many of its instances have in common is worked out once.

    `launched` are this process's own instances by id; `terms` is asked with the names of class and type.
    """

    def __init__(
        self, region: str, launched: Mapping[str, Instance], terms: Callable[[str, str], Terms]
    ) -> None:
        self._region = region
        self._launched = launched
        self._terms = lru_cache(maxsize=None)(terms)
        self._sold = lru_cache(maxsize=None)(self._as_sold)

    def read(self, found: api.Instance) -> Instance:
        """What this process launched itself it knows better than EC2 does, but for what has moved since."""
        own = self._launched.get(found.id)
        partition = str(found.partition) if found.partition is not None else None
        if own is not None and own.reservation_id == found.reservation:
            ending = found.state in ENDING
            own = _in_partition(own, partition)
            return own if own.terminating == ending else replace(own, terminating=ending)
        how = labels.SPOT if found.spot else labels.RESERVED if found.reservation else labels.ON_DEMAND
        name, profile = found.tags.get(NODECLASS, ""), found.profile.rpartition("/")[2]
        sold = self._sold(name, found.instance_type, (found.zone, how, found.reservation))
        return replace(
            _in_partition(_held_as(sold, found.tenancy), partition),
            provider_id=provider_id(found.zone, found.id),
            image_id=found.image,
            created=found.launched,
            claim=found.tags.get(CLAIM, ""),
            terminating=found.state in ENDING,
            annotations=_remembered(self._terms(name, found.instance_type).node_class, profile),
        )

    def _as_sold(self, name: str, instance_type: str, place: tuple[str, str, str]) -> Instance:
        """An instance of the class and type; what is not sold any more has no price and no capacity."""
        zone, how, reservation = place
        terms = self._terms(name, instance_type)
        base = Instance(
            provider_id="",
            instance_type=instance_type,
            zone=zone,
            capacity_type=how,
            price=0,
            image_id="",
            created=0,
            reservation_id=reservation,
            labels={labels.REGION: self._region, labels.INSTANCE_TYPE: instance_type, labels.ZONE: zone},
        )
        if terms.kind is None:
            return base
        for offering in terms.kind.offerings:
            if place == (offering.zone, offering.capacity_type, offering.reservation_id):
                return _as_sold(base, terms.kind, offering, self._region, terms.volumes)
        return base


def _remembered(node_class: EC2NodeClass | None, profile: str) -> dict[str, str]:
    """What the claim keeps in mind: the class as it was, and the profile that has to stay while it runs."""
    stamp = class_stamp(node_class) if node_class is not None else {}
    return {**stamp, labels.INSTANCE_PROFILE: profile} if profile else stamp


def _held_as(sold: Instance, tenancy: str) -> Instance:
    return replace(sold, labels={**sold.labels, TENANCY: tenancy})


def _in_partition(instance: Instance, partition: str | None) -> Instance:
    """With the label that says in which partition of its placement group it is, if it is in one."""
    if partition is None or instance.labels.get(labels.PARTITION) == partition:
        return instance
    return replace(instance, labels={**instance.labels, labels.PARTITION: partition})


def _as_sold(base: Instance, kind: InstanceType, offering: Offering, region: str, volumes: int) -> Instance:
    return replace(
        base,
        price=offering.price + volumes,
        volumes=volumes,
        labels={**bought_labels(kind, offering), labels.REGION: region},
        capacity=kind.capacity,
        allocatable=kind.allocatable(),
    )
