"""EC2's types, where they are sold, their prices: as packaged, or a region as AWS told of it itself.

The packaged file is made by scripts/make_catalog.py.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources

import msgspec

from dovetail.base.errors import InputError
from dovetail.base.guess import meant
from dovetail.cloud.catalog.live import LiveRegion
from dovetail.cloud.catalog.records import Accelerator, Gpu, Neuron, TypeRecord

__all__ = ["Accelerator", "Gpu", "Neuron", "TypeRecord"]

FORMAT = 2


class RegionRecord(msgspec.Struct, frozen=True):
    """Where types are sold: `masks` and `prices` are in the order of the catalogue's types."""

    zones: tuple[tuple[str, str], ...]  # name and id
    masks: tuple[int, ...]  # bit i: sold in zone i
    prices: tuple[int, ...]  # on demand, nano-dollars per hour; 0 is unknown
    derived: frozenset[int]  # places of the prices that follow from those of other sizes of the family


class Catalog(msgspec.Struct, frozen=True):
    """The whole file. Regions stay undecoded until asked for."""

    format: int
    sources: dict[str, str]
    types: tuple[TypeRecord, ...]
    regions: dict[str, msgspec.Raw]


# Regions as AWS told of them, by name: chosen once by whoever starts a process, before anything is read.
_LIVE: dict[str, LiveRegion] = {}


def use(*found: LiveRegion) -> None:
    """From now on these regions are as in these files; without any, all are as packaged."""
    _LIVE.clear()
    _LIVE.update({item.region: item for item in found})
    region.cache_clear()


def live(name: str) -> LiveRegion | None:
    """The region as AWS told of it, if a file of it is used."""
    return _LIVE.get(name)


@lru_cache(maxsize=1)
def load() -> Catalog:
    """The packaged catalogue, decoded once."""
    packed = (resources.files(__package__) / "data" / "ec2.json.gz").read_bytes()
    catalog = msgspec.json.decode(gzip.decompress(packed), type=Catalog)
    if catalog.format != FORMAT:
        raise RuntimeError(f"the packaged catalogue has format {catalog.format}, not {FORMAT}: make it again")
    return catalog


def regions() -> tuple[str, ...]:
    """Every region of the catalogue, sorted."""
    return tuple(sorted({*load().regions, *_LIVE}))


@lru_cache(maxsize=32)
def region(name: str) -> RegionRecord:
    """One region's offerings. Raises InputError for a region that the catalogue does not have."""
    if name in _LIVE:
        return _as_packaged(_LIVE[name])
    raw = load().regions.get(name)
    if raw is None:
        remedy = f"{meant(name, regions(), most=3)} known regions: {', '.join(regions())}"
        raise InputError(f"there is no region {name!r} in the catalogue", remedy=remedy.lstrip())
    return msgspec.json.decode(raw, type=RegionRecord)


def sold(name: str) -> Iterator[tuple[TypeRecord, tuple[str, ...], int]]:
    """(type, names of its zones, on-demand price) of every type that the region sells, by name."""
    place = region(name)
    for record, mask, price in zip(_types(name), place.masks, place.prices, strict=True):
        if mask:
            zones = tuple(zone for bit, (zone, _) in enumerate(place.zones) if mask >> bit & 1)
            yield record, zones, price


def derived(name: str) -> frozenset[str]:
    """Names of the types whose price on demand follows from those of other sizes. Raises as `region` does."""
    types, places = _types(name), region(name).derived
    return frozenset(types[place].name for place in places)


def unpriced(name: str) -> tuple[int, int]:
    """How many types of the region have no price on demand, and of how many. Raises as `region` does."""
    prices = [price for _, _, price in sold(name)]
    return prices.count(0), len(prices)


def _types(name: str) -> tuple[TypeRecord, ...]:
    return tuple(row.record for row in _LIVE[name].rows) if name in _LIVE else load().types


def _as_packaged(found: LiveRegion) -> RegionRecord:
    bits = {zone: 1 << bit for bit, (zone, _) in enumerate(found.zones)}
    masks = tuple(sum(bits[zone] for zone in row.zones) for row in found.rows)
    places = frozenset(place for place, row in enumerate(found.rows) if row.derived)
    return RegionRecord(found.zones, masks, tuple(row.price for row in found.rows), places)
