"""Offerings in capacity that the account has reserved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dovetail.cloud.aws.instance.request import RESERVED_SHARE
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirement, Requirements

_TYPE = labels.AWS + "capacity-reservation-type"
_INTERRUPTIBLE = labels.AWS + "capacity-reservation-interruptible"


@dataclass(frozen=True, slots=True)
class Reservation:
    """A capacity reservation that a class selects."""

    id: str
    instance_type: str
    zone: str
    zone_id: str
    kind: str  # default or capacity-block
    left: int  # instances that may still start in it
    interruptible: bool = False


def with_reservations(item: InstanceType, reservations: Iterable[Reservation]) -> InstanceType:
    """The type with an offering more per reservation of it, and with the labels that those may give."""
    own = [one for one in reservations if one.instance_type == item.name]
    if not own:
        return item
    price = max((one.price for one in item.offerings if one.capacity_type == labels.ON_DEMAND), default=0)
    offerings = tuple(_offering(one, price // RESERVED_SHARE) for one in own)
    values = {
        labels.CAPACITY_TYPE: (*item.requirements.get(labels.CAPACITY_TYPE).values, labels.RESERVED),
        labels.RESERVATION_ID: tuple(one.id for one in own),
        _TYPE: tuple({one.kind: None for one in own}),
        _INTERRUPTIBLE: tuple({_flag(one.interruptible): None for one in own}),
    }
    terms = {key: Requirement.new(key, "In", found) for key, found in values.items()}
    requirements = Requirements({**item.requirements.by_key, **terms})
    return replace(item, requirements=requirements, offerings=(*item.offerings, *offerings))


def _offering(one: Reservation, price: int) -> Offering:
    terms = {
        labels.ZONE: one.zone,
        labels.ZONE_ID: one.zone_id,
        labels.CAPACITY_TYPE: labels.RESERVED,
        labels.RESERVATION_ID: one.id,
        _TYPE: one.kind,
        _INTERRUPTIBLE: _flag(one.interruptible),
    }
    return Offering(
        zone=one.zone,
        capacity_type=labels.RESERVED,
        price=price,
        requirements=Requirements.from_labels(terms),
        available=one.left > 0,
        reservation_id=one.id,
        reservation_capacity=one.left,
    )


def _flag(value: bool) -> str:
    return "true" if value else "false"
