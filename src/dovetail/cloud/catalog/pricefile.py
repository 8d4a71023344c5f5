"""Prices that a user gives: AWS's bulk price list of EC2 as AWS publishes it, or a plain table.

Three forms are read, recognised by how they begin, each plain or compressed with gzip:

- JSON offer file of EC2 (`.../offers/v1.0/aws/AmazonEC2/current/<region>/index.json`);
- CSV offer file (`index.csv` beside it);
- CSV with the columns instanceType and price (dollars per hour), and if wanted region, capacityType and zone.

Of an offer file those products count that AWS is asked for as well: Linux, shared tenancy, nothing
preinstalled, in use, on demand.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path

import msgspec

from dovetail.base.errors import InputError
from dovetail.base.guess import meant
from dovetail.model.labels import ON_DEMAND, SPOT
from dovetail.units.money import NANO_DOLLARS

_OFFER = "AmazonEC2"
_FORMS = (
    "give AWS's offer file of EC2 (index.json or index.csv of a region), or a CSV with the columns "
    "instanceType,price and, if wanted, region,capacityType,zone"
)
_COLUMNS = {
    "instancetype": "type",
    "instance_type": "type",
    "type": "type",
    "price": "price",
    "region": "region",
    "regioncode": "region",
    "capacitytype": "capacity",
    "capacity_type": "capacity",
    "zone": "zone",
    "availabilityzone": "zone",
}
_DEAREST = Decimal(1_000_000)  # dollars an hour: above it is a slip
_GZIP = b"\x1f\x8b"
_HOURLY = "Hrs"


@dataclass(frozen=True, slots=True)
class PriceFile:
    """`listed` is by region, type, capacity type and zone; "" stands for every region, and for every zone."""

    source: str
    date: str  # of the list; "" where the file does not say
    listed: Mapping[tuple[str, str, str, str], int] = field(default_factory=dict)

    def on_demand(self, region: str) -> Mapping[str, int]:
        """Nano-dollars per hour by type; a row for the region counts before one for every region."""
        rows = sorted(self.listed.items())
        return {
            name: price
            for (where, name, kind, _), price in rows
            if kind == ON_DEMAND and where in ("", region)
        }

    def spot(self, region: str) -> Mapping[tuple[str, str], int]:
        """Nano-dollars per hour by type and zone."""
        rows = sorted(self.listed.items())
        return {
            (name, zone): price
            for (where, name, kind, zone), price in rows
            if kind == SPOT and where in ("", region)
        }


def read_prices(path: Path) -> PriceFile:
    """Raises InputError for what is none of the three forms, and for a file without a price that counts."""
    try:
        packed = path.read_bytes()
        content = gzip.decompress(packed) if packed.startswith(_GZIP) else packed
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", source=str(path)) from None
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # what PowerShell writes with >
        try:
            content = content.decode("utf-16").encode()
        except UnicodeDecodeError as error:
            raise InputError(f"is not text: {error}", source=str(path), remedy=_FORMS) from None
    content = content.removeprefix(codecs.BOM_UTF8)
    if content.lstrip()[:1] == b"{":
        found = _offer_json(content, str(path))
    else:
        found = _table(content, str(path))
    if not found.listed:
        raise InputError("has no price of a Linux machine on demand", source=str(path), remedy=_FORMS)
    return found


class Attributes(msgspec.Struct, frozen=True, rename="camel"):
    """Of a product."""

    instance_type: str = ""
    region_code: str = ""
    operating_system: str = ""
    tenancy: str = ""
    pre_installed_sw: str = ""
    capacitystatus: str = ""
    marketoption: str = "OnDemand"


class Product(msgspec.Struct, frozen=True):
    """A product as AWS's offer files and its Price List API have it."""

    attributes: Attributes = Attributes()


class _Dimension(msgspec.Struct, frozen=True, rename="camel"):
    unit: str = ""
    price_per_unit: dict[str, str] = {}


class Term(msgspec.Struct, frozen=True, rename="camel"):
    """What a product costs on some terms, as both have it."""

    price_dimensions: dict[str, _Dimension] = {}


class _Terms(msgspec.Struct, frozen=True):
    on_demand: dict[str, dict[str, Term]] = msgspec.field(name="OnDemand", default={})


class _Offer(msgspec.Struct, frozen=True, rename="camel"):
    offer_code: str = ""
    publication_date: str = ""
    products: dict[str, Product] = {}
    terms: _Terms = _Terms()


def _offer_json(content: bytes, source: str) -> PriceFile:
    try:
        offer = msgspec.json.decode(content, type=_Offer)
    except msgspec.MsgspecError as error:
        raise InputError(f"is no offer file: {error}", source=source, remedy=_FORMS) from None
    if offer.offer_code != _OFFER:
        message = f"is no offer file of EC2: its offerCode is {offer.offer_code!r}"
        raise InputError(message, source=source, remedy=_FORMS)
    listed = {}
    for sku, product in offer.products.items():
        what = product.attributes
        if _counts(what.operating_system, what.tenancy, what.pre_installed_sw, what.capacitystatus):
            terms = offer.terms.on_demand.get(sku, {}).values()
            price = hourly_price(terms, what.region_code)
            if price and what.instance_type:
                listed[what.region_code, what.instance_type, ON_DEMAND, ""] = price
    return PriceFile(source, offer.publication_date[:10], listed)


def hourly_price(terms: Iterable[Term], region: str) -> int:
    """Nano-dollars per hour by the first of the terms that has a price; 0 where none has one.

    China's prices are in yuan: they count as they are, since only their proportions matter to a plan.
    """
    currency = _currency(region)
    dimensions = (one for term in terms for one in term.price_dimensions.values())
    rates = (one.price_per_unit.get(currency, "") for one in dimensions if one.unit == _HOURLY)
    return next(filter(None, map(nano_dollars, rates)), 0)


def _currency(region: str) -> str:
    return "CNY" if region.startswith("cn-") else "USD"


def _counts(system: str, tenancy: str, software: str, status: str) -> bool:
    return (system, tenancy, software, status) == ("Linux", "Shared", "NA", "Used")


def _table(content: bytes, source: str) -> PriceFile:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"is not text: {error}", source=source, remedy=_FORMS) from None
    rows = csv.reader(io.StringIO(text))
    try:
        return (
            _offer_csv(rows, source)
            if text.startswith(('"FormatVersion"', "FormatVersion"))
            else _plain(rows, source)
        )
    except csv.Error as error:
        raise InputError(f"is no CSV: {error}", source=source, line=rows.line_num, remedy=_FORMS) from None


def _offer_csv(rows: Iterator[list[str]], source: str) -> PriceFile:
    """Some lines of name and value, then a table with a header that begins with SKU."""
    facts: dict[str, str] = {}
    heading: list[str] = []
    for row in rows:
        if row[:1] == ["SKU"]:
            heading = row
            break
        facts[row[0] if row else ""] = row[1] if len(row) > 1 else ""
    if facts.get("OfferCode") != _OFFER or not heading:
        raise InputError("is no offer file of EC2", source=source, remedy=_FORMS)
    at = {name: place for place, name in enumerate(heading)}
    names = ("Operating System", "Tenancy", "Pre Installed S/W", "CapacityStatus")
    needed = (*names, "TermType", "Unit", "PricePerUnit", "Currency", "Instance Type", "Region Code")
    if missing := [name for name in needed if name not in at]:
        message = f"lacks the columns {', '.join(missing)}"
        raise InputError(message, source=source, remedy=_FORMS)
    listed = {}
    for row in rows:
        if len(row) < len(heading) or row[at["TermType"]] != "OnDemand" or row[at["Unit"]] != _HOURLY:
            continue
        region, name = row[at["Region Code"]], row[at["Instance Type"]]
        counts = row[at["Currency"]] == _currency(region) and _counts(*(row[at[one]] for one in names))
        if name and counts and (price := nano_dollars(row[at["PricePerUnit"]])):
            listed[region, name, ON_DEMAND, ""] = price
    return PriceFile(source, facts.get("Publication Date", "")[:10], listed)


def _plain(rows: Iterator[list[str]], source: str) -> PriceFile:
    heading = [_COLUMNS.get(name.strip().lower().replace(" ", ""), "") for name in next(rows, [])]
    if not {"type", "price"} <= set(heading):
        message = "has no heading with the columns instanceType and price"
        raise InputError(message, source=source, line=1, remedy=_FORMS)
    listed: dict[tuple[str, str, str, str], int] = {}
    for line, row in enumerate(rows, 2):
        if not any(cell.strip() for cell in row) or row[0].lstrip().startswith("#"):
            continue
        cells = {name: cell.strip() for name, cell in zip(heading, row, strict=False) if name}
        capacity = cells.get("capacity") or ON_DEMAND
        if capacity not in (ON_DEMAND, SPOT):
            remedy = meant(capacity, (ON_DEMAND, SPOT), f"valid: {ON_DEMAND}, {SPOT}")
            message = f"there is no capacity type {capacity!r}"
            raise InputError(message, source=source, line=line, remedy=remedy)
        price = nano_dollars(cells.get("price", "").removeprefix("$"))
        if not price or not cells.get("type"):
            message = f"{cells.get('price', '')!r} is no price of {cells.get('type') or 'a type'}"
            remedy = "a price is dollars per hour, above 0 and at most 1,000,000, such as 0.096"
            raise InputError(message, source=source, line=line, remedy=remedy)
        key = (
            cells.get("region", ""),
            cells["type"],
            capacity,
            cells.get("zone", "") if capacity == SPOT else "",
        )
        if listed.setdefault(key, price) != price:
            message = f"{cells['type']} has two prices"
            raise InputError(message, source=source, line=line, remedy="keep one of them")
    return PriceFile(source, "", listed)


def nano_dollars(text: str) -> int:
    """A decimal number of dollars an hour, such as "0.0960000000"; 0 for what is no price."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return 0
    return int(value * NANO_DOLLARS) if value.is_finite() and 0 < value <= _DEAREST else 0
