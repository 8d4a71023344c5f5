"""Errors of an answer to CreateFleet: which mean that there is no capacity, and what is avoided then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from dovetail.base.errors import CloudError, CreateFailed, InsufficientCapacity
from dovetail.cloud.choice import Pool
from dovetail.model import labels

FULL = "ReservationCapacityExceeded"  # the reservation is: its next count tells of room
# Codes that say that one offering has no capacity; it is avoided for a while.
NO_CAPACITY = frozenset(
    {
        "InsufficientFreeAddressesInSubnet",
        "InsufficientInstanceCapacity",
        "InvalidCapacityReservationState.Unavailable",
        "MaxFleetCountExceeded",
        "MaxSpotInstanceCountExceeded",
        FULL,
        "SpotMaxPriceTooLow",
        "UnfulfillableCapacity",
        "Unsupported",
        "VcpuLimitExceeded",
    }
)
NO_ADDRESSES = "InsufficientFreeAddressesInSubnet"
NO_SPOT_ROLE = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
_SHOWN = 5
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class FleetError:
    """One error of an answer, about one override of the request."""

    code: str
    message: str
    capacity_type: str
    instance_type: str
    zone: str
    subnet: str = ""

    @property
    def pool(self) -> Pool:
        return self.capacity_type, self.instance_type, self.zone


@dataclass(frozen=True, slots=True)
class Refusals:
    """What to avoid for a while, each in the order of the errors."""

    pools: tuple[Pool, ...] = ()
    full: tuple[Pool, ...] = ()
    subnets: tuple[str, ...] = ()
    no_spot: bool = False  # True iff the account may start no spot instance at all, of whatever type


def refusals(errors: Iterable[FleetError]) -> Refusals:
    """What the errors say about capacity."""
    errors = tuple(errors)
    return Refusals(
        pools=_unique(error.pool for error in errors if error.code in NO_CAPACITY and error.code != FULL),
        full=_unique(error.pool for error in errors if error.code == FULL),
        subnets=_unique(error.subnet for error in errors if error.code == NO_ADDRESSES and error.subnet),
        no_spot=any(error.code == NO_SPOT_ROLE and error.capacity_type == labels.SPOT for error in errors),
    )


def failure(errors: Iterable[FleetError]) -> CloudError:
    """The error of a launch that got no instance.

    InsufficientCapacity where every override was out of capacity: others may have some. CreateFailed for
    anything else, with the first other code as the reason: trying again is all that can be done.
    """
    errors = tuple(errors)
    others = [error for error in errors if error.code not in (*NO_CAPACITY, NO_SPOT_ROLE)]
    if errors and not others:
        return InsufficientCapacity(_summary(errors))
    return CreateFailed(_summary(errors), others[0].code if others else "LaunchFailed")


def _summary(errors: tuple[FleetError, ...]) -> str:
    """Each different error once, the first few in words."""
    texts = _unique(f"{error.code}: {error.message}" for error in errors)
    more = len(texts) - _SHOWN
    rest = f"; and {more} more" if more > 0 else ""
    return f"with fleet error(s), {'; '.join(texts[:_SHOWN])}{rest}" if texts else "no instance was launched"


def _unique(items: Iterable[_Item]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys(items))
