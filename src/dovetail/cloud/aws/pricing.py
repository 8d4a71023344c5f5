"""Prices on demand as the Price List API has them: which endpoint answers, what is asked, what is read; and
of a history of spot prices those that count.

The fields are those of the public price list of Amazon EC2 (AWS Price List API, GetProducts).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dovetail.cloud.aws.api import SpotPrice
from dovetail.cloud.catalog.pricefile import Product, Term, hourly_price

SERVICE = "AmazonEC2"
# The API answers in a few regions only; the nearest of the same partition is asked.
_CHINA = "cn-northwest-1"
_AMERICAS = "us-east-1"
_NEAREST = (("ap-", "ap-south-1"), ("eu-", "eu-central-1"), ("me-", "eu-central-1"), ("af-", "eu-central-1"))


class _Terms(msgspec.Struct, frozen=True):
    on_demand: dict[str, Term] = msgspec.field(name="OnDemand", default={})


class _Item(msgspec.Struct, frozen=True):
    product: Product = Product()
    terms: _Terms = _Terms()


def endpoint_region(region: str) -> str | None:
    """The endpoint for a region's prices; None where there is none: GovCloud and isolated partitions."""
    if region.startswith("us-gov-") or "-iso" in region:
        return None
    if region.startswith("cn-"):
        return _CHINA
    return next((found for start, found in _NEAREST if region.startswith(start)), _AMERICAS)


def filters(region: str) -> tuple[tuple[str, str], ...]:
    """(field, value) pairs that leave one product per type: Linux, shared, nothing preinstalled, in use."""
    return (
        ("regionCode", region),
        ("preInstalledSw", "NA"),
        ("operatingSystem", "Linux"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
        ("tenancy", "Shared"),
    )


def read(products: Iterable[str], region: str) -> dict[str, int]:
    """Nano-dollars per hour by type; products that cannot be read, or cost nothing, are left out."""
    found: dict[str, int] = {}
    for text in products:
        try:
            item = msgspec.json.decode(text, type=_Item)
        except msgspec.MsgspecError:
            continue
        price = hourly_price(item.terms.on_demand.values(), region)
        if item.product.attributes.instance_type and price:
            found[item.product.attributes.instance_type] = price
    return found


def latest(history: Iterable[SpotPrice]) -> dict[tuple[str, str], int]:
    """The newest spot price of each type and zone; of two of one instant the higher."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for one in history:
        place = one.instance_type, one.zone
        found[place] = max(found.get(place, (0, 0)), (one.at, one.price))
    return {place: price for place, (_, price) in found.items()}
