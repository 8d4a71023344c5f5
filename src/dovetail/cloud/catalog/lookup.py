"""What the packaged catalogue says of a node, by its labels or by the name of its type."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.assemble import instance_types, usual_capacity
from dovetail.model import labels


def catalogue_price(stamped: Mapping[str, str]) -> int | None:
    """What the packaged catalogue says of a node with these labels; estimates for spot. None: unknown."""
    region = stamped.get(labels.REGION) or stamped.get(labels.ZONE, "")[:-1]
    capacity = stamped.get(labels.CAPACITY_TYPE, labels.ON_DEMAND)
    price = _prices(region).get(
        (stamped.get(labels.INSTANCE_TYPE, ""), stamped.get(labels.ZONE, ""), capacity), 0
    )
    return price or None


@lru_cache(maxsize=8)
def _prices(region: str) -> Mapping[tuple[str, str, str], int]:
    if region not in store.regions():
        return {}
    return {
        (item.name, offering.zone, offering.capacity_type): offering.price
        for item in instance_types(region)
        for offering in item.offerings
    }


@lru_cache(maxsize=1_024)
def catalogue_capacity(name: str) -> Mapping[str, int]:
    """The capacity of an instance type, milli-CPU and bytes; nothing for one that no region has."""
    record = store.described(name)
    return usual_capacity(record) if record is not None else {}
