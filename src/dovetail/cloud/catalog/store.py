"""EC2's types, where they are sold, their prices: as packaged, or a region as AWS described it itself.

The packaged file is made by scripts/make_catalog.py.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources

import msgspec
from msgspec.structs import replace

from dovetail.base.errors import InputError
from dovetail.base.guess import meant
from dovetail.cloud.catalog.live import Accelerator, Gpu, LiveRegion, Neuron, TypeRecord
from dovetail.cloud.catalog.pricefile import PriceFile

__all__ = ["Accelerator", "Gpu", "Neuron", "TypeRecord"]

FORMAT = 4


class RegionRecord(msgspec.Struct, frozen=True):
    """Where types are sold: `masks` and `prices` are in the order of the catalogue's types."""

    zones: tuple[tuple[str, str], ...]  # name and id
    masks: tuple[int, ...]  # bit i: sold in zone i
    prices: tuple[int, ...]  # on demand, nano-dollars per hour; 0 is unknown
    estimates: dict[int, str]  # by place, the kind of the prices that no list has
    lists: tuple[tuple[str, str, int], ...]  # date, source, how many prices; the newest first


class Catalog(msgspec.Struct, frozen=True):
    """The whole file. Regions stay undecoded until asked for."""

    format: int
    sources: dict[str, str]
    types: tuple[TypeRecord, ...]
    regions: dict[str, msgspec.Raw]


# Regions as AWS described them, by name, and a user's own prices: chosen once by whoever starts a process,
# before anything is read.
_LIVE: dict[str, LiveRegion] = {}
_PRICES: list[PriceFile] = []


def use(*found: LiveRegion) -> None:
    """From now on these regions are as in these files; without any, all are as packaged."""
    _LIVE.clear()
    _LIVE.update({item.region: item for item in found})
    _forget()


def use_prices(*found: PriceFile) -> None:
    """From now on these prices count before all others; without any, those of the regions do."""
    _PRICES[:] = found
    _forget()


def _forget() -> None:
    region.cache_clear()
    sold.cache_clear()


def given_prices(name: str) -> Mapping[str, int]:
    """On-demand prices of the region that a user gave, by type, in nano-dollars per hour."""
    return {kind: price for one in _PRICES for kind, price in one.on_demand(name).items()}


def given_spot(name: str) -> Mapping[tuple[str, str], int]:
    """Spot prices of the region that a user gave, by type and zone; the zone "" stands for all."""
    return {place: price for one in _PRICES for place, price in one.spot(name).items()}


def live(name: str) -> LiveRegion | None:
    """The region as AWS described it, if a file of it is used."""
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
        return _priced(name, _as_packaged(_LIVE[name]))
    raw = load().regions.get(name)
    if raw is None:
        remedy = f"{meant(name, regions(), most=3)} known regions: {', '.join(regions())}"
        raise InputError(f"there is no region {name!r} in the catalogue", remedy=remedy.lstrip())
    return _priced(name, msgspec.json.decode(raw, type=RegionRecord))


def described(kind: str) -> TypeRecord | None:
    """The instance type of that name, wherever it is sold."""
    found = (row.record for place in _LIVE.values() for row in place.rows if row.record.name == kind)
    return next(found, None) or _packaged_types().get(kind)


@lru_cache(maxsize=1)
def _packaged_types() -> Mapping[str, TypeRecord]:
    return {record.name: record for record in load().types}


@lru_cache(maxsize=4)
def sold(name: str) -> tuple[tuple[TypeRecord, tuple[str, ...], int], ...]:
    """(type, names of its zones, on-demand price) of every type that the region sells, by name."""
    place = region(name)
    return tuple(
        (record, tuple(zone for bit, (zone, _) in enumerate(place.zones) if mask >> bit & 1), price)
        for record, mask, price in zip(_types(name), place.masks, place.prices, strict=True)
        if mask
    )


def estimates(name: str) -> Mapping[str, str]:
    """By type, how its price on demand was estimated; without those that a list has. Raises as `region` does.

    The kinds are those of scripts/estimate_prices.py: size, region, generation, resources.
    """
    types = _types(name)
    return {types[place].name: kind for place, kind in region(name).estimates.items()}


def lists(name: str) -> tuple[tuple[str, str, int], ...]:
    """Date, source and number of the prices on demand that are no estimates, the newest first."""
    return region(name).lists


def unpriced(name: str) -> tuple[int, int]:
    """How many types of the region have no price on demand, and of how many. Raises as `region` does."""
    prices = [price for _, _, price in sold(name)]
    return prices.count(0), len(prices)


def _types(name: str) -> tuple[TypeRecord, ...]:
    return tuple(row.record for row in _LIVE[name].rows) if name in _LIVE else load().types


def _as_packaged(found: LiveRegion) -> RegionRecord:
    bits = {zone: 1 << bit for bit, (zone, _) in enumerate(found.zones)}
    masks = tuple(sum(bits[zone] for zone in row.zones) for row in found.rows)
    estimates = {place: row.estimate for place, row in enumerate(found.rows) if row.estimate}
    prices = tuple(row.price for row in found.rows)
    return RegionRecord(found.zones, masks, prices, estimates, found.lists)


def _priced(name: str, found: RegionRecord) -> RegionRecord:
    """With the prices that a user gave."""
    given = given_prices(name)
    if not given:
        return found
    places = {record.name: place for place, record in enumerate(_types(name))}
    prices = list(found.prices)
    changed = {
        places[kind]: price for kind, price in given.items() if kind in places and found.masks[places[kind]]
    }
    for place, price in changed.items():
        prices[place] = price
    kept = {place: kind for place, kind in found.estimates.items() if place not in changed}
    listed = sum(
        price > 0 and place not in kept and place not in changed for place, price in enumerate(prices)
    )
    lists = tuple((date, source, min(count, listed)) for date, source, count in found.lists) if listed else ()
    own = tuple((one.date, one.source, len(changed)) for one in _PRICES if one.on_demand(name))
    return replace(found, prices=tuple(prices), estimates=kept, lists=(*own, *lists))
