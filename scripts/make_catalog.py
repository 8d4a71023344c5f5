"""Make src/dovetail/cloud/catalog/data/ec2.json.gz from two public packages that carry real EC2 data.

The package itself needs neither of them at run time. To make the file again:

    pip install -e .[dev] apache-libcloud
    python scripts/make_catalog.py

The same versions of the two packages give the same bytes. What is taken:

- moto: every instance type as DescribeInstanceTypes answers it, and which zones of 30 regions sell it;
- apache-libcloud: pricing.json, on-demand Linux prices per region. A price of 0 there means unknown, and one
  in six is that of dedicated tenancy. Sizes of most families cost in proportion, which puts those right and
  tells some of the unknown ones.

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
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from dovetail.cloud.catalog import described as catalog_data
from dovetail.cloud.catalog.records import TypeRecord

TARGET = Path(__file__).parent.parent / "src/dovetail/cloud/catalog/data/ec2.json.gz"
FORMAT = 2
NANO_DOLLARS = 1_000_000_000
STEP = NANO_DOLLARS // 100_000  # EC2's prices have five decimals
Measure = Callable[[TypeRecord], int]
Listed = Mapping[str, Mapping[str, float]]  # dollars per hour by type and region; 0 is unknown
MEASURES: tuple[Measure, ...] = (attrgetter("vcpus"), attrgetter("memory"))
# Price by a measure as a multiple of the least in the family: plain, and with dedicated tenancy's surcharge.
# The bands are as wide as prices of small types are rounded.
PLAIN = (1, 1.012)
SURCHARGED = ((1.05, 1.075), (1.095, 1.105))


def main() -> int:
    """Read both packages and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--output", type=Path, default=TARGET)
    output = parser.parse_args().output
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
    described = _read("moto.ec2", "resources/instance_types.json.gz")
    pricing = _read("libcloud", "data/pricing.json")
    usable = [described[name] for name in sorted(described) if catalog_data.usable(described[name])]
    types = [catalog_data.record(item) for item in usable]
    listed = pricing["compute"]["ec2_linux"]
    measured = measures(types, listed)
    return {
        "format": FORMAT,
        "sources": {
            "moto": importlib.metadata.version("moto"),
            "apache-libcloud": importlib.metadata.version("apache-libcloud"),
            "prices": datetime.fromtimestamp(pricing["updated"], UTC).date().isoformat(),
        },
        "types": msgspec.to_builtins(types),
        "regions": {name: region(name, types, listed, measured) for name in region_names()},
    }


def region_names() -> list[str]:
    """Regions whose offerings per zone are known."""
    folder = importlib.resources.files("moto.ec2") / "resources/instance_type_offerings/availability-zone"
    return sorted(path.name.removesuffix(".json.gz") for path in folder.iterdir())


def region(
    name: str, types: Sequence[TypeRecord], listed: Listed, measured: Mapping[str, Measure]
) -> dict[str, Any]:
    """Zones as [name, id]; per type, in the order of `types`: zones as a bit mask, price in nano-dollars.

    `derived` are the places in that order of the prices that follow from those of other sizes.
    """
    offered = _read("moto.ec2", f"resources/instance_type_offerings/availability-zone/{name}.json.gz")
    zones = sorted({entry["Location"] for entry in offered})
    masks = {record.name: 0 for record in types}
    for entry in offered:
        if entry["InstanceType"] in masks:
            masks[entry["InstanceType"]] |= 1 << zones.index(entry["Location"])
    ids = zone_ids(name, zones)
    prices = {record: _price(record, name, listed) if masks[record.name] else 0 for record in types}
    made = dict(prices)
    for family, measure in measured.items():
        sizes = [record for record in types if record.family == family and not record.bare_metal]
        sold = {record: prices[record] for record in sizes if masks[record.name]}
        made |= proportional(sold, measure)
    return {
        "zones": [[zone, ids[zone]] for zone in zones],
        "masks": list(masks.values()),
        "prices": list(made.values()),
        "derived": [place for place, record in enumerate(types) if made[record] and not prices[record]],
    }


def measures(types: Sequence[TypeRecord], listed: Listed) -> dict[str, Measure]:
    """By family, what its sizes cost in proportion to: vCPUs, or memory as burstable types do.

    A family of which any size costs something else again in any region, as of those with accelerators, or
    that has two known prices in no region, is left out.
    """
    known: dict[str, dict[str, dict[TypeRecord, int]]] = defaultdict(lambda: defaultdict(dict))
    for record in types:
        for name in listed.get(record.name, {}):
            if (price := _price(record, name, listed)) and not record.bare_metal:
                known[record.family][name][record] = price
    found = {}
    for family, places in known.items():
        several = [prices for prices in places.values() if len(prices) > 1]
        for measure in MEASURES if several else ():
            if all(plain(prices, measure) for prices in several):
                found[family] = measure
                break
    return found


def proportional(prices: Mapping[TypeRecord, int], measure: Measure) -> dict[TypeRecord, int]:
    """A family's prices in a region, as those without a surcharge say; as they were if but one is known."""
    known = {record: price for record, price in prices.items() if price}
    if len(known) < 2:
        return dict(prices)
    right = plain(known, measure)
    largest = max(right, key=measure)  # its price is rounded least
    each = known[largest] / measure(largest)
    said = {record: round(each * measure(record) / STEP) * STEP for record in prices}
    return said | {record: known[record] for record in right}


def plain(known: Mapping[TypeRecord, int], measure: Measure) -> list[TypeRecord]:
    """The types whose price has no surcharge; none if the prices are not proportional to the measure."""
    least = min(price / measure(record) for record, price in known.items())
    times = {record: price / measure(record) / least for record, price in known.items()}
    right = [record for record in known if _within(times[record], PLAIN)]
    dear = [record for record in known if any(_within(times[record], band) for band in SURCHARGED)]
    return right if len(right) + len(dear) == len(known) else []


def _price(record: TypeRecord, name: str, listed: Listed) -> int:
    return round(listed.get(record.name, {}).get(name, 0) * NANO_DOLLARS)


def _within(value: float, band: tuple[float, float]) -> bool:
    return band[0] <= value <= band[1]


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
