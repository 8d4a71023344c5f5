"""Offerings of a type: one per zone and capacity type, with a price.

On-demand prices are published ones or estimated from them. Spot prices are not part of the catalogue's
sources, so they are estimated: the on-demand price less a discount that depends on the family and the zone
alone. The discount is drawn once, from a stream keyed by the two, within the range in which discounts of
that category usually lie;
it is the same in every process and changes only with the table below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from dovetail.base.streams import stream
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirement, Requirements

# Spot discounts in thousandths of the on-demand price, by category of the family; first match counts.
_DISCOUNTS = (
    (re.compile(r"p\d|trn|dl"), (150, 450)),  # training: scarce
    (re.compile(r"g\d|gr\d|inf|vt|f\d"), (350, 650)),  # inference and graphics
    (re.compile(r"u-|u\d|x\d|z\d|hpc"), (400, 650)),  # large memory and high frequency
    (re.compile(r"[tm]\d|c\d|r\d|a\d"), (550, 720)),  # general purpose
)
_OTHERS = (500, 700)  # storage and the rest
# Spot prices are quoted in hundredths of a cent.
_STEP = 100_000
_UNRESERVED = (
    labels.RESERVATION_ID,
    labels.AWS + "capacity-reservation-type",
    labels.AWS + "capacity-reservation-interruptible",
)


def offerings(
    family: str, zones: tuple[tuple[str, str], ...], on_demand: int, *, spot: bool, listed: bool = True
) -> tuple[Offering, ...]:
    """Offerings in all (zone, zone id), on-demand first; `on_demand` is nano-dollars per hour, 0 for unknown.

    An offering without a price is unavailable; one on demand may get a price from elsewhere. `listed` is
    False for a price on demand that is an estimate.
    """
    made = [
        Offering(
            zone=zone,
            capacity_type=labels.ON_DEMAND,
            price=on_demand,
            requirements=_requirements(zone, zone_id, labels.ON_DEMAND),
            available=on_demand > 0,
            unpriced=on_demand == 0,
            estimated=not listed,
        )
        for zone, zone_id in zones
    ]
    if spot:
        made += [
            Offering(
                zone=zone,
                capacity_type=labels.SPOT,
                price=spot_price(family, zone, on_demand),
                requirements=_requirements(zone, zone_id, labels.SPOT),
                available=on_demand > 0,
                estimated=True,
            )
            for zone, zone_id in zones
        ]
    return tuple(made)


def with_spot_prices(item: InstanceType, prices: Mapping[tuple[str, str], int]) -> InstanceType:
    """The type with spot prices by (type, zone) as they are known; one without a price is not for sale."""

    def priced(one: Offering) -> Offering:
        if one.capacity_type != labels.SPOT:
            return one
        price = prices.get((item.name, one.zone), 0)
        return replace(one, price=price, available=price > 0, estimated=False)

    return replace(item, offerings=tuple(map(priced, item.offerings)))


def with_given_spot_prices(item: InstanceType, prices: Mapping[tuple[str, str], int]) -> InstanceType:
    """The type with spot prices by (type, zone) where they are given; the zone "" stands for all."""

    def priced(one: Offering) -> Offering:
        price = prices.get((item.name, one.zone)) or prices.get((item.name, ""))
        if one.capacity_type != labels.SPOT or not price:
            return one
        return replace(one, price=price, available=True, estimated=False)

    return replace(item, offerings=tuple(map(priced, item.offerings)))


def spot_price(family: str, zone: str, on_demand: int) -> int:
    """Our estimate in nano-dollars per hour; 0 where there is no on-demand price to start from."""
    full = on_demand * (1000 - discount(family, zone)) // 1000
    return -(-full // _STEP) * _STEP


@lru_cache(maxsize=16_384)
def discount(family: str, zone: str) -> int:
    """Estimated spot discount in thousandths of the on-demand price."""
    low, high = next((span for pattern, span in _DISCOUNTS if pattern.match(family)), _OTHERS)
    return stream(0, f"{family}/{zone}", "spot discount").randint(low, high)


@lru_cache(maxsize=1024)
def _requirements(zone: str, zone_id: str, capacity_type: str) -> Requirements:
    return Requirements.of(
        (
            Requirement.new(labels.ZONE, "In", (zone,)),
            Requirement.new(labels.ZONE_ID, "In", (zone_id,)),
            Requirement.new(labels.CAPACITY_TYPE, "In", (capacity_type,)),
            *(Requirement.new(key, "DoesNotExist") for key in _UNRESERVED),
        )
    )
