"""Instance types from a JSON file: a list of types with requirements, offerings, capacity and overhead."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from dovetail.api.codec import decode
from dovetail.api.core import ResourceList
from dovetail.api.karpenter.nodepool import Requirement as WrittenRequirement
from dovetail.api.meta import Part
from dovetail.base.errors import InputError
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering, Overhead
from dovetail.model.requirement import Requirements
from dovetail.model.resources import LARGEST, amounts
from dovetail.reading.sources import decoded
from dovetail.units.money import DEAREST, NANO_DOLLARS

_REMEDY = (
    "Each entry needs name, requirements, offerings (price in $/h, requirements), capacity and overhead."
)
_RESERVATION = "reservation-id"


class _WrittenOffering(Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    price: float
    requirements: dict[str, str]
    available: bool = True
    reservation_capacity: int = 0


class _WrittenType(Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    requirements: tuple[WrittenRequirement, ...]
    offerings: tuple[_WrittenOffering, ...]
    capacity: ResourceList
    overhead: ResourceList = {}


def read_instance_types(path: Path) -> tuple[InstanceType, ...]:
    """The types of a file; raises InputError that names the file and the place in it."""
    try:
        document = json.loads(decoded(str(path)))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(path)) from error
    except RecursionError:
        raise InputError("is nested too deeply", source=str(path), remedy=_REMEDY) from None
    except ValueError as error:  # numbers that are too long included
        line = getattr(error, "lineno", None)
        raise InputError(f"is not JSON: {error}", source=str(path), line=line, remedy=_REMEDY) from error
    return parse_instance_types(document, source=str(path))


def parse_instance_types(document: Any, *, source: str = "") -> tuple[InstanceType, ...]:
    """The types of a decoded JSON list; raises InputError."""
    if not isinstance(document, list) or not document:
        raise InputError("must be a JSON list of at least one instance type", source=source, remedy=_REMEDY)
    types = []
    names: set[str] = set()
    for index, entry in enumerate(document):
        try:
            written = decode(entry, _WrittenType)
        except (msgspec.ValidationError, ValueError, OverflowError) as error:
            message, _, place = str(error).partition(" - at `$")
            path = f"[{index}]{place.rstrip('`')}"
            raise InputError(message, source=source, path=path, remedy=_REMEDY) from error
        if written.name in names:
            raise InputError(
                f"the name {written.name!r} appears twice", source=source, path=f"[{index}].name"
            )
        names.add(written.name)
        types.append(_instance_type(written, source, f"[{index}]"))
    return tuple(types)


def _instance_type(written: _WrittenType, source: str, path: str) -> InstanceType:
    try:
        requirements = Requirements.read(written.requirements)
    except ValueError as error:
        raise InputError(str(error), source=source, path=f"{path}.requirements") from error
    offerings = [
        _offering(offering, source, f"{path}.offerings[{index}]")
        for index, offering in enumerate(written.offerings)
    ]
    return InstanceType(
        name=written.name,
        requirements=requirements,
        offerings=tuple(offerings),
        capacity=_amounts(written.capacity, source, f"{path}.capacity"),
        overhead=Overhead(kube_reserved=_amounts(written.overhead, source, f"{path}.overhead")),
    )


def _amounts(written: ResourceList, source: str, path: str) -> dict[str, int]:
    found = amounts(written)
    for name, amount in found.items():
        if not 0 <= amount < LARGEST:
            raise InputError(
                f"{written[name]} is {'below zero' if amount < 0 else 'more than any machine has'}",
                source=source,
                path=f"{path}.{name}",
                remedy="give what one machine has, such as cpu: 4 and memory: 16Gi",
            )
    return found


def _offering(written: _WrittenOffering, source: str, path: str) -> Offering:
    found = written.requirements
    for key in (labels.ZONE, labels.CAPACITY_TYPE):
        if key not in found:
            raise InputError(f"lacks {key!r}", source=source, path=f"{path}.requirements", remedy=_REMEDY)
    # Through the decimal text, so that 0.1 $/h is exactly 100,000,000 nano-dollars.
    price = Decimal(repr(written.price)) * NANO_DOLLARS
    if not price.is_finite() or not 0 <= price <= DEAREST * NANO_DOLLARS:
        raise InputError(f"a price is 0 to {DEAREST:,} $/h", source=source, path=f"{path}.price")
    if written.reservation_capacity < 0:
        raise InputError("is below zero", source=source, path=f"{path}.reservationCapacity")
    reservation = next((found[key] for key in sorted(found) if key.endswith(_RESERVATION)), "")
    return Offering(
        zone=found[labels.ZONE],
        capacity_type=found[labels.CAPACITY_TYPE],
        price=int(price.to_integral_value()),
        requirements=Requirements.from_labels(found),
        available=written.available,
        reservation_id=reservation,
        reservation_capacity=written.reservation_capacity,
    )
