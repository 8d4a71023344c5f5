"""Make src/dovetail/cloud/catalog/data/ec2.json.gz from two public packages that carry real EC2 data.

The package itself needs neither of them at run time. To make the file again:

    pip install -e .[dev] apache-libcloud
    python scripts/make_catalog.py

The same versions of the two packages give the same bytes. What is taken:

- moto: every instance type as DescribeInstanceTypes answers it, and which zones of 30 regions sell it;
- apache-libcloud: pricing.json, on-demand Linux prices per region. A price of 0 there means unknown.

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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from dovetail.cloud.catalog import described as catalog_data

TARGET = Path(__file__).parent.parent / "src/dovetail/cloud/catalog/data/ec2.json.gz"
FORMAT = 1
NANO_DOLLARS = 1_000_000_000


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
    types = [msgspec.to_builtins(catalog_data.record(item)) for item in usable]
    names = [entry[0] for entry in types]
    return {
        "format": FORMAT,
        "sources": {
            "moto": importlib.metadata.version("moto"),
            "apache-libcloud": importlib.metadata.version("apache-libcloud"),
            "prices": datetime.fromtimestamp(pricing["updated"], UTC).date().isoformat(),
        },
        "types": types,
        "regions": {name: region(name, names, pricing["compute"]["ec2_linux"]) for name in region_names()},
    }


def region_names() -> list[str]:
    """Regions whose offerings per zone are known."""
    folder = importlib.resources.files("moto.ec2") / "resources/instance_type_offerings/availability-zone"
    return sorted(path.name.removesuffix(".json.gz") for path in folder.iterdir())


def region(name: str, types: list[str], prices: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Zones as [name, id]; per type, in the order of `types`: zones as a bit mask, price in nano-dollars."""
    offered = _read("moto.ec2", f"resources/instance_type_offerings/availability-zone/{name}.json.gz")
    zones = sorted({entry["Location"] for entry in offered})
    masks = dict.fromkeys(types, 0)
    for entry in offered:
        if entry["InstanceType"] in masks:
            masks[entry["InstanceType"]] |= 1 << zones.index(entry["Location"])
    ids = zone_ids(name, zones)
    return {
        "zones": [[zone, ids[zone]] for zone in zones],
        "masks": [masks[entry] for entry in types],
        "prices": [
            round(prices.get(entry, {}).get(name, 0) * NANO_DOLLARS) if masks[entry] else 0 for entry in types
        ],
    }


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
