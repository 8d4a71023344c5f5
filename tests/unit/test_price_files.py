"""Prices that a user gives: AWS's offer files as AWS publishes them, and a plain table."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.base.errors import InputError
from dovetail.cli.main import BAD_INPUT, OK, run
from dovetail.cloud import catalog
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.pricefile import read_prices
from dovetail.cloud.catalog.provenance import provenance

_Text = pytest.CaptureFixture[str]
REGION = "eu-west-1"
COLUMNS = (
    "SKU,OfferTermCode,RateCode,TermType,PriceDescription,EffectiveDate,Unit,PricePerUnit,Currency,"
    "Tenancy,Instance Type,Operating System,CapacityStatus,Pre Installed S/W,Region Code"
)


@pytest.fixture(autouse=True)
def _as_packaged() -> Iterator[None]:
    yield
    store.use_prices()


def product(name: str, **other: str) -> dict[str, object]:
    attributes = {
        "instanceType": name,
        "regionCode": REGION,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    return {"sku": name, "productFamily": "Compute Instance", "attributes": {**attributes, **other}}


def term(price: str, unit: str = "Hrs") -> dict[str, object]:
    return {"T": {"priceDimensions": {"D": {"unit": unit, "pricePerUnit": {"USD": price}}}}}


def offer(code: str = "AmazonEC2") -> str:
    products = {
        "A": product("m8i.large"),
        "B": product("m8i.large", tenancy="Dedicated"),
        "C": product("m8i.xlarge", operatingSystem="Windows"),
        "D": product("m8i.2xlarge"),
        "E": {"sku": "E", "productFamily": "Data Transfer", "attributes": {"transferType": "in"}},
        "F": product("m8i.4xlarge", capacitystatus="UnusedCapacityReservation"),
    }
    prices = {"A": "0.1234500000", "B": "9", "C": "9", "D": "0.0000000000", "F": "9"}
    return json.dumps(
        {
            "formatVersion": "v1.0",
            "offerCode": code,
            "publicationDate": "2026-11-01T00:00:00Z",
            "products": products,
            "terms": {"OnDemand": {sku: term(price) for sku, price in prices.items()}, "Reserved": {"A": {}}},
        }
    )


def offer_csv() -> str:
    facts = (
        '"FormatVersion","v1.0"\n"Disclaimer","none"\n"Publication Date","2026-11-01T00:00:00Z"\n'
        '"Version","1"\n"OfferCode","AmazonEC2"\n'
    )
    rows = (
        ("OnDemand", "Hrs", "0.1234500000", "USD", "Shared", "m8i.large", "Linux", "Used", "NA"),
        ("OnDemand", "Hrs", "9", "USD", "Dedicated", "m8i.large", "Linux", "Used", "NA"),
        ("Reserved", "Hrs", "9", "USD", "Shared", "m8i.xlarge", "Linux", "Used", "NA"),
        ("OnDemand", "Hrs", "9", "USD", "Shared", "m8i.xlarge", "Windows", "Used", "NA"),
        ("OnDemand", "Hrs", "9", "USD", "Shared", "m8i.xlarge", "Linux", "Used", "SQL Std"),
    )
    lines = (f"S,T,R,{kind},text,2026-11-01,{','.join(rest)},{REGION}\n" for kind, *rest in rows)
    return facts + COLUMNS + "\n" + "".join(lines)


def written(folder: Path, text: str | bytes, name: str = "prices") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("content", "date"),
    [
        (offer(), "2026-11-01"),
        (offer_csv(), "2026-11-01"),
        (gzip.compress(offer_csv().encode()), "2026-11-01"),
        ("instanceType,price\n# ours\n\nm8i.large,$0.12345\n", ""),
        (f"\ufeffInstance Type,Region,Price\nm8i.large,{REGION},0.12345\nm8i.large,us-east-1,9\n", ""),
        (f"price,type,region\n9,m8i.large,\n0.12345,m8i.large,{REGION}\n", ""),
    ],
)
def test_one_type_with_its_price(tmp_path: Path, content: str | bytes, date: str) -> None:
    found = read_prices(written(tmp_path, content))
    assert (found.on_demand(REGION), found.date) == ({"m8i.large": 123_450_000}, date)


def test_given_prices_count_before_all_others_and_are_no_estimates(tmp_path: Path) -> None:
    table = (
        "instanceType,price,capacityType,zone\nm8i.large,0.09,,\nm5.large,0.04,spot,\n"
        f"m5.large,0.03,spot,{REGION}b\nnowhere.large,1,,\n"
    )
    before = provenance(REGION)
    store.use_prices(read_prices(written(tmp_path, table)))
    types = {item.name: item for item in catalog.instance_types(REGION)}
    on_demand = {
        (one.price, one.estimated) for one in types["m8i.large"].offerings if one.capacity_type == "on-demand"
    }
    spot = {one.zone: one.price for one in types["m5.large"].offerings if one.capacity_type == "spot"}
    assert on_demand == {(90_000_000, False)}
    assert spot == {f"{REGION}a": 40_000_000, f"{REGION}b": 30_000_000, f"{REGION}c": 40_000_000}
    after = provenance(REGION)
    assert sum(after.estimated.values()) == sum(before.estimated.values()) - 1
    assert after.lists[0] == ("", str(tmp_path / "prices"), 1)
    assert after.lists[1:] == before.lists
    store.use_prices()
    assert provenance(REGION) == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no heading with the columns instanceType and price"),
        ("{}", "no offer file of EC2: its offerCode is ''"),
        (offer("AmazonRDS"), "its offerCode is 'AmazonRDS'"),
        ('{"offerCode": 1', "is no offer file"),
        ("FormatVersion,v1.0\nOfferCode,AmazonRDS\nSKU,Unit\n", "is no offer file of EC2"),
        ("FormatVersion,v1.0\nOfferCode,AmazonEC2\nSKU,Unit\n", "lacks the columns Operating System"),
        ("instanceType,price\n", "has no price of a Linux machine on demand"),
        ("instanceType,price\nm5.large,abc\n", "prices:2: 'abc' is no price of m5.large"),
        ("instanceType,price\nm5.large,-1\n", "prices:2: '-1' is no price"),
        ("instanceType,price\nm5.large,1e30\n", "prices:2: '1e30' is no price"),
        ("instanceType,price\nm5.large,nan\n", "prices:2: 'nan' is no price"),
        ("instanceType,price\n,1\n", "is no price of a type"),
        ("instanceType,price\nm5.large,1\nm5.large,2\n", "prices:3: m5.large has two prices"),
        ("type,price,capacityType\nm5.large,1,sopt\n", "no capacity type 'sopt'\n  did you mean spot"),
        (b"\xff\xfe\x00", "is not text"),
        (b"\x1f\x8b\x00", "cannot be read"),
    ],
)
def test_files_that_are_no_price_list(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_prices(written(tmp_path, content))
    assert words in str(caught.value)


def test_the_commands_take_them(tmp_path: Path, capsys: _Text) -> None:
    path = str(written(tmp_path, offer()))
    assert run(["catalog", "--region", REGION, "--name", "m8i.large", "--prices", path]) == OK
    text = " ".join(capsys.readouterr().out.split())
    assert " 0.1235 " in text
    assert f"{path} of 2026-11-01 (1 types)" in text
    assert run(["catalog", "--region", "us-west-2", "--prices", path]) == BAD_INPUT
    assert f"has no price for us-west-2\n  it has those of {REGION}" in capsys.readouterr().err
    other = str(written(tmp_path, "instanceType,price\nm99.large,1\n", "other"))
    assert run(["catalog", "--region", REGION, "--prices", other]) == BAD_INPUT
    assert "sells none of the 1 types of the file, such as m99.large" in capsys.readouterr().err
    assert run(["run", "--provider", "kwok", "--prices", path]) == BAD_INPUT
    assert "kwok has prices of its own" in capsys.readouterr().err
