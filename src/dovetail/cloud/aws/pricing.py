"""Prices on demand as the Price List API has them: which endpoint answers, what is asked, what is read; and
of a history of spot prices those that count.

The fields are those of the public price list of Amazon EC2 (AWS Price List API, GetProducts).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation

import msgspec

from dovetail.cloud.aws.api import SpotPrice
from dovetail.model.offering import NANO_DOLLARS

SERVICE = "AmazonEC2"
# The API answers in a few regions only; the nearest of the same partition is asked.
_CHINA = "cn-northwest-1"
_AMERICAS = "us-east-1"
_NEAREST = (("ap-", "ap-south-1"), ("eu-", "eu-central-1"), ("me-", "eu-central-1"), ("af-", "eu-central-1"))
_HOURLY = "Hrs"


class _Attributes(msgspec.Struct, frozen=True, rename="camel"):
    instance_type: str = ""


class _Product(msgspec.Struct, frozen=True):
    attributes: _Attributes = _Attributes()


class _Dimension(msgspec.Struct, frozen=True, rename="camel"):
    unit: str = ""
    price_per_unit: dict[str, str] = {}


class _Term(msgspec.Struct, frozen=True, rename="camel"):
    price_dimensions: dict[str, _Dimension] = {}


class _Terms(msgspec.Struct, frozen=True):
    on_demand: dict[str, _Term] = msgspec.field(name="OnDemand", default={})


class _Item(msgspec.Struct, frozen=True):
    product: _Product = _Product()
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
    """Nano-dollars per hour by type; products that cannot be read, or cost nothing, are left out.

    China's prices are in yuan: they count as they are, since only their proportions matter to a plan.
    """
    currency = "CNY" if region.startswith("cn-") else "USD"
    found: dict[str, int] = {}
    for text in products:
        try:
            item = msgspec.json.decode(text, type=_Item)
        except msgspec.MsgspecError:
            continue
        price = next(filter(None, (_price(term, currency) for term in item.terms.on_demand.values())), 0)
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


def nano_dollars(text: str) -> int:
    """A decimal number of dollars, such as "0.0960000000"; 0 for what is no price."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return 0
    return int(value * NANO_DOLLARS) if value.is_finite() and value > 0 else 0


def _price(term: _Term, currency: str) -> int:
    dimensions: Mapping[str, _Dimension] = term.price_dimensions
    hourly = (one.price_per_unit.get(currency, "") for one in dimensions.values() if one.unit == _HOURLY)
    return next(filter(None, map(nano_dollars, hourly)), 0)
