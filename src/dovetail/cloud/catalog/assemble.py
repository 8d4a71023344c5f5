"""A region's instance types, put together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial

from dovetail.api.codec import encode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.errors import InputError
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.capacity import capacity, overhead, pods
from dovetail.cloud.catalog.labels import requirements
from dovetail.cloud.catalog.offerings import offerings, with_given_spot_prices, with_spot_prices
from dovetail.cloud.catalog.settings import Interface, NodeSettings
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.model import labels
from dovetail.model.offering import InstanceType


def instance_types(
    region: str,
    node_class: EC2NodeClass | None = None,
    *,
    zones: Mapping[str, str] | None = None,
    vm_memory_overhead_percent: float = 0.075,
    reserved_enis: int = 0,
) -> tuple[InstanceType, ...]:
    """All types that the region sells and the class's nodes can run on, by name.

    `zones` (name -> id) limits them to an account's zones; None means all of the region. Types without a
    price are included, with offerings that are unavailable. The memory overhead 0.075 is 7.5 %.
    Raises InputError for an unknown region or zone, and for kubelet values that cannot be read.
    """
    asked = _Asked(
        region,
        json.dumps(encode(node_class.spec), sort_keys=True) if node_class is not None else "",
        tuple(zones.items()) if zones is not None else None,
        vm_memory_overhead_percent,
        reserved_enis,
        node_class,
    )
    described = store.live(region)
    if described is None and not store.given_prices(region) and not store.given_spot(region):
        return _packaged(asked)
    return _assembled(asked, described.spot() if described is not None else None)


@dataclass(frozen=True, slots=True)
class _Asked:
    region: str
    spec: str  # of the node class, as JSON; "" without one
    zones: tuple[tuple[str, str], ...] | None
    vm_memory_overhead_percent: float
    reserved_enis: int
    node_class: EC2NodeClass | None = field(compare=False)  # `spec` is what counts of it


@lru_cache(maxsize=8)
def _packaged(asked: _Asked) -> tuple[InstanceType, ...]:
    """What is packaged never changes: simulations ask for the same again and again."""
    return _assembled(asked, None)


def _assembled(asked: _Asked, spot: Mapping[tuple[str, str], int] | None) -> tuple[InstanceType, ...]:
    settings = NodeSettings.of(
        asked.node_class,
        vm_memory_overhead_percent=asked.vm_memory_overhead_percent,
        reserved_enis=asked.reserved_enis,
    )
    region = asked.region
    place = _places(region, dict(asked.zones) if asked.zones is not None else None)
    made = []
    estimates, given = store.estimates(region), store.given_spot(region)
    for record, sold_in, price in store.sold(region):
        where = tuple((name, place[name]) for name in sold_in if name in place)
        if where and runs(record, settings) and settings.os_on(record.arch):
            known = record.name not in estimates
            item = make(record, settings, region=region, zones=where, on_demand=price, listed=known)
            item = item if spot is None else with_spot_prices(item, spot)
            made.append(with_given_spot_prices(item, given) if given else item)
    return tuple(made)


def make(
    record: TypeRecord,
    settings: NodeSettings,
    *,
    region: str,
    zones: tuple[tuple[str, str], ...],
    on_demand: int,
    listed: bool = True,
) -> InstanceType:
    """One type with its offerings in `zones` (name, id); `on_demand` is nano-dollars/h, 0 for unknown.

    `listed` is False for a price that is an estimate.
    Raises InputError for kubelet expressions that have no value for the type.
    """
    settings = settings.on(record, partial(pods, record))
    room = capacity(record, settings)
    return InstanceType(
        name=record.name,
        requirements=requirements(record, settings, _where(region, zones, record.spot)),
        offerings=offerings(record.family, zones, on_demand, spot=record.spot, listed=listed),
        capacity=room,
        overhead=overhead(record, settings, room),
    )


def usual_capacity(record: TypeRecord) -> Mapping[str, int]:
    """The capacity of a node of the type that no class changes."""
    return capacity(record, NodeSettings.of(None).on(record, partial(pods, record)))


def runs(record: TypeRecord, settings: NodeSettings) -> bool:
    """True iff the type takes what the class asks of its instances, and the AMI family boots on it.

    For arm64 with a Windows class it is True all the same: such a type has no operating system, so no pod
    and no image asks for it.
    """
    if settings.family == "AL2023" and record.family == "a1":
        return False
    if settings.nested_virtualization and not record.nested_virtualization:
        return False
    if settings.connection_tracking and record.hypervisor != "nitro":
        return False
    if settings.enclaves and not record.nitro_enclaves:
        return False
    if settings.placement and settings.placement not in record.placements:
        return False
    return not settings.interfaces or _takes(record, settings.interfaces)


def _takes(record: TypeRecord, interfaces: tuple[Interface, ...]) -> bool:
    """True iff the type's network cards have a place for each of the interfaces."""
    placed = all(one.card < len(record.cards) and one.device < record.cards[one.card] for one in interfaces)
    return record.ena and placed and sum(one.efa_only for one in interfaces) <= record.efa_interfaces


def zones(region: str) -> dict[str, str]:
    """Zone name -> zone id. Raises InputError for an unknown region."""
    return dict(store.region(region).zones)


def _places(region: str, chosen: Mapping[str, str] | None) -> Mapping[str, str]:
    known = zones(region)
    if chosen is None:
        return known
    for name in chosen:
        if name not in known:
            raise InputError(
                f"region {region} has no zone {name!r}", remedy=f"its zones are {', '.join(known)}"
            )
    return chosen


@lru_cache(maxsize=4096)
def _where(region: str, zones: tuple[tuple[str, str], ...], spot: bool) -> Mapping[str, tuple[str, ...]]:
    return {
        labels.REGION: (region,),
        labels.ZONE: tuple(name for name, _ in zones),
        labels.ZONE_ID: tuple(identifier for _, identifier in zones),
        labels.CAPACITY_TYPE: (labels.ON_DEMAND, labels.SPOT) if spot else (labels.ON_DEMAND,),
    }
