"""Lists of EC2's on-demand Linux prices that public packages carry: which, and how each is read.

- github.com/aws/karpenter-provider-aws (Go, Apache-2.0) brings prices of one region, newer than all others.
  Of bare metal it has the price of dedicated tenancy, 6 or 10 % above the one that counts.
- github.com/cristim/ec2-instances-info (Go; its data is that of ec2instances.info, MIT) has all regions.

apache-libcloud (Python, Apache-2.0) has all regions too, but is older, knows next to nothing that the second
does not, and has the price of dedicated tenancy for one type in six: it is not read.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NANO_DOLLARS = 1_000_000_000
_PROVIDER = "github.com/aws/karpenter-provider-aws", "v1.15.1"
_INFO = "github.com/cristim/ec2-instances-info", "v0.0.0-20250528091325-32acf84f42eb"
_PRICES = "pkg/providers/pricing/zz_generated.pricing_aws.go"
_GENERATED = re.compile(r"// generated at (\d{4}-\d\d-\d\d)T")
_REGION = re.compile(r'"([a-z0-9-]+)": \{(.*?)\n\t\}', re.DOTALL)
_PRICE = re.compile(r'"([a-z0-9-]+\.[a-z0-9-]+)": ([0-9.]+)')


@dataclass(frozen=True, slots=True)
class PriceList:
    """`prices` are nano-dollars per hour by region and type; 0 does not occur.

    `dedicated_metal`: bare metal has the price of dedicated tenancy.
    """

    source: str
    date: str
    prices: Mapping[str, Mapping[str, int]]
    dedicated_metal: bool = False


def lists() -> tuple[PriceList, ...]:
    """All of them, the newest first."""
    found = (_provider(), _info())
    return tuple(sorted(found, key=lambda one: one.date, reverse=True))


def _provider() -> PriceList:
    text = _module_file(*_PROVIDER, _PRICES).decode()
    dated = _GENERATED.search(text)
    if dated is None:
        raise ValueError(f"{_PRICES} does not say when it was made")
    prices = {
        region: {name: _nanos(price) for name, price in _PRICE.findall(body)}
        for region, body in _REGION.findall(text)
    }
    return PriceList(f"karpenter-provider-aws {_PROVIDER[1]}", dated[1], prices, dedicated_metal=True)


def _info() -> PriceList:
    prices: dict[str, dict[str, int]] = {}
    for item in json.loads(_module_file(*_INFO, "data/instances.json")):
        for region, sold in item["pricing"].items():
            price = _nanos(sold.get("linux", {}).get("ondemand", 0))
            if price:
                prices.setdefault(region, {})[item["instance_type"]] = price
    stamp = _INFO[1].split("-")[1]
    return PriceList("ec2-instances-info", f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}", prices)


def _nanos(price: Any) -> int:
    """Nano-dollars of a number of dollars; 0 for what is none, such as "N/A"."""
    try:
        return round(float(price) * NANO_DOLLARS)
    except ValueError:
        return 0


def _module_file(module: str, version: str, path: str) -> bytes:
    """One file of a Go module, which the Go client fetches and checks."""
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            ["go", "mod", "download", "-json", f"{module}@{version}"],
            cwd=empty,
            capture_output=True,
            check=False,
        )
    packed = json.loads(done.stdout).get("Zip", "")
    if not packed:
        raise OSError(f"{module}@{version} cannot be had: {done.stderr.decode() or done.stdout.decode()}")
    with zipfile.ZipFile(Path(packed)) as files:
        return files.read(f"{module}@{version}/{path}")
