"""Make src/dovetail/cloud/catalog/data/ec2.json.gz from public packages that carry real EC2 data.

The package itself needs none of them at run time. To make the file again (it needs the Go client, for
two modules):

    pip install -e .[dev]
    python -m scripts.make_catalog

The same versions give the same bytes. What is taken:

- moto: every instance type as DescribeInstanceTypes answers it, and which zones of 30 regions sell it;
- the lists of scripts/price_lists.py: on-demand Linux prices. What none of them has is estimated by
  scripts/estimate_prices.py; `--errors` shows how far off such prices are.

Kept are types with hvm virtualization and an x86_64 or arm64 processor: what a Kubernetes node can run on.
The file's layout is that of `Catalog` in src/dovetail/cloud/catalog/store.py, with the records of records.py.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import importlib.resources
import io
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from dovetail.cloud.catalog import described as catalog_data
from dovetail.cloud.catalog.live import TypeRecord
from scripts.estimate_prices import Estimator, errors
from scripts.price_lists import PriceList, lists

TARGET = Path(__file__).parent.parent / "src/dovetail/cloud/catalog/data/ec2.json.gz"
FORMAT = 4
# Bare metal with dedicated tenancy, as a multiple of what counts.
SURCHARGED = ((1.05, 1.075), (1.095, 1.105))
MODERN = 6  # the generation from which errors are measured, since newer families are what is estimated


def main() -> int:
    """Read both packages and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--output", type=Path, default=TARGET)
    parser.add_argument(
        "--errors", action="store_true", help="show how far off estimates are, and write nothing"
    )
    arguments = parser.parse_args()
    if arguments.errors:
        show_errors()
        return 0
    output = arguments.output
    data = catalog()
    text = json.dumps(data, separators=(",", ":"), sort_keys=True).encode()
    packed = io.BytesIO()
    # No name and no time in the header, so that equal data gives equal bytes.
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=9, mtime=0) as stream:
        stream.write(text)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(packed.getvalue())
    types, regions = len(data["types"]), len(data["regions"])
    print(f"{output}: {types} types, {regions} regions, {len(packed.getvalue()):,} bytes")
    return 0


def catalog() -> dict[str, Any]:
    """The whole file as plain JSON values."""
    types, sold, known = read()
    estimator = Estimator(types, known.prices)
    return {
        "format": FORMAT,
        "sources": {"moto": importlib.metadata.version("moto")},
        "types": msgspec.to_builtins(types),
        "regions": {name: region(name, types, sold[name], known, estimator) for name in sold},
    }


def read() -> tuple[list[TypeRecord], dict[str, dict[str, list[str]]], Known]:
    """The types by name; by region and type the zones that sell it; the prices that lists have."""
    described = _read("moto.ec2", "resources/instance_types.json.gz")
    usable = [described[name] for name in sorted(described) if catalog_data.usable(described[name])]
    types = [catalog_data.record(item) for item in usable]
    sold = {name: offered(name, types) for name in region_names()}
    return types, sold, merged(lists(), types, sold)


def show_errors() -> None:
    """A row per kind of estimate, as docs/reference/prices.md has them."""
    types, _, known = read()
    for one in errors(Estimator(types, known.prices), known.prices, since=MODERN):
        print(
            f"{one.kind}: {one.prices:,} prices, median {one.middle:.2%}, nine in ten within {one.ninth:.1%},"
            f" {one.within:.1%} within 5 %"
        )


def region_names() -> list[str]:
    """Regions whose offerings per zone are known."""
    folder = importlib.resources.files("moto.ec2") / "resources/instance_type_offerings/availability-zone"
    return sorted(path.name.removesuffix(".json.gz") for path in folder.iterdir())


def region(
    name: str,
    types: Sequence[TypeRecord],
    sold: Mapping[str, Sequence[str]],
    known: Known,
    estimator: Estimator,
) -> dict[str, Any]:
    """Zones as [name, id]; per type, in the order of `types`: zones as a bit mask, price in nano-dollars.

    `estimates` are the kinds of the prices that no list has, by the place of the type in that order; `lists`
    are [date, source, how many prices] of the lists that the others are from.
    """
    zones = sorted({zone for places in sold.values() for zone in places})
    ids = zone_ids(name, zones)
    prices, estimates = [], {}
    for place, record in enumerate(types):
        price = known.prices[name].get(record, 0) if record.name in sold else 0
        if record.name in sold and not price:
            estimate = estimator.price(record, name)
            if estimate is not None:
                price, estimates[str(place)] = estimate
        prices.append(price)
    return {
        "zones": [[zone, ids[zone]] for zone in zones],
        "masks": [sum(1 << zones.index(zone) for zone in set(sold.get(record.name, ()))) for record in types],
        "prices": prices,
        "estimates": estimates,
        "lists": [[*source, count] for source, count in sorted(known.counts[name].items(), reverse=True)],
    }


def offered(name: str, types: Sequence[TypeRecord]) -> dict[str, list[str]]:
    """By type, the zones of the region that sell it."""
    path = f"resources/instance_type_offerings/availability-zone/{name}.json.gz"
    names, found = {record.name for record in types}, defaultdict(list)
    for entry in _read("moto.ec2", path):
        if entry["InstanceType"] in names:
            found[entry["InstanceType"]].append(entry["Location"])
    return dict(found)


@dataclass(frozen=True, slots=True)
class Known:
    """Prices by region and type as the newest list has them, and how many of each (date, source)."""

    prices: Mapping[str, Mapping[TypeRecord, int]]
    counts: Mapping[str, Mapping[tuple[str, str], int]]


def merged(
    found: Sequence[PriceList], types: Sequence[TypeRecord], names: Mapping[str, Collection[str]]
) -> Known:
    """The lists, newest first, as one. Bare metal at the price of dedicated tenancy is left out."""
    prices: dict[str, dict[TypeRecord, int]] = {name: {} for name in names}
    counts: dict[str, Counter[tuple[str, str]]] = {name: Counter() for name in names}
    named = {record.name: record for record in types}
    # What a list is known to have wrong comes last.
    turns = [(one, metal) for metal in (False, True) for one in found if metal <= one.dedicated_metal]
    for (one, metal), (name, sold) in product(turns, names.items()):
        for type_name, price in one.prices.get(name, {}).items():
            record = named.get(type_name)
            if record is None or type_name not in sold or record in prices[name]:
                continue
            if (
                one.dedicated_metal
                and record.bare_metal
                and (not metal or surcharged(record, price, prices[name]))
            ):
                continue
            prices[name][record] = price
            counts[name][one.date, one.source] += 1
    return Known(prices, counts)


def surcharged(metal: TypeRecord, price: int, prices: Mapping[TypeRecord, int]) -> bool:
    """True iff a virtual machine as large as the metal costs as much less as shared tenancy does."""
    twins = (
        price / known
        for record, known in prices.items()
        if record.family == metal.family and record.vcpus == metal.vcpus and not record.bare_metal
    )
    return any(low <= ratio <= high for ratio in twins for low, high in SURCHARGED)


def zone_ids(name: str, zones: list[str]) -> dict[str, str]:
    """Zone name -> zone id, as one account sees them.

    Zones newer than the package's own table get the ids that it leaves over, in order.
    """
    from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

    known = {zone.name: zone.zone_id for zone in RegionsAndZonesBackend.zones.get(name, ())}
    offered = _read("moto.ec2", f"resources/instance_type_offerings/availability-zone-id/{name}.json.gz")
    left = sorted({entry["Location"] for entry in offered} - {known[zone] for zone in zones if zone in known})
    new = [zone for zone in zones if zone not in known]
    return known | dict(zip(new, left, strict=True))


def _read(package: str, path: str) -> Any:
    content = (importlib.resources.files(package) / path).read_bytes()
    return json.loads(gzip.decompress(content) if path.endswith(".gz") else content)


if __name__ == "__main__":
    sys.exit(main())
