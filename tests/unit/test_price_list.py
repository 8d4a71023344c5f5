"""Prices on demand: which endpoint answers for a region, and what of its answer is read."""

from __future__ import annotations

import json

import pytest

from dovetail.cloud.aws import pricing


def product(kind: str, price: str, *, currency: str = "USD", unit: str = "Hrs") -> str:
    dimension = {"unit": unit, "pricePerUnit": {currency: price}, "beginRange": "0", "endRange": "Inf"}
    return json.dumps(
        {
            "product": {"sku": "S", "productFamily": "Compute", "attributes": {"instanceType": kind}},
            "serviceCode": "AmazonEC2",
            "terms": {"OnDemand": {"S.T": {"sku": "S", "priceDimensions": {"S.T.D": dimension}}}},
        }
    )


@pytest.mark.parametrize(
    ("region", "answers"),
    [
        ("us-east-1", "us-east-1"),
        ("ca-central-1", "us-east-1"),
        ("sa-east-1", "us-east-1"),
        ("ap-northeast-2", "ap-south-1"),
        ("eu-west-1", "eu-central-1"),
        ("me-south-1", "eu-central-1"),
        ("af-south-1", "eu-central-1"),
        ("cn-north-1", "cn-northwest-1"),
        ("us-gov-west-1", None),
        ("us-iso-east-1", None),
        ("us-isob-east-1", None),
    ],
)
def test_the_nearest_endpoint_answers(region: str, answers: str | None) -> None:
    assert pricing.endpoint_region(region) == answers


def test_prices_are_exact() -> None:
    found = pricing.read(
        [product("m5.large", "0.1180000000"), product("c7g.medium", "0.0408000000")], "ap-northeast-2"
    )
    assert found == {"m5.large": 118_000_000, "c7g.medium": 40_800_000}


def test_yuan_count_as_they_are() -> None:
    items = [product("m5.large", "0.8000000000", currency="CNY"), product("m5.xlarge", "9.9")]
    assert pricing.read(items, "cn-north-1") == {"m5.large": 800_000_000}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"product": {}}',
        '{"product": {"attributes": {"instanceType": 5}}}',
        product("", "0.1"),
        product("m5.large", "0.0000000000"),
        product("m5.large", "NaN"),
        product("m5.large", "-0.1"),
        product("m5.large", "free"),
        product("m5.large", "0.1", unit="Quantity"),
    ],
)
def test_what_cannot_be_read_is_left_out(text: str) -> None:
    assert pricing.read([text, product("m5.xlarge", "0.236")], "us-east-1") == {"m5.xlarge": 236_000_000}


def test_one_product_per_type_is_asked_for() -> None:
    asked = dict(pricing.filters("eu-west-1"))
    assert asked["regionCode"] == "eu-west-1"
    assert (asked["operatingSystem"], asked["tenancy"], asked["preInstalledSw"]) == ("Linux", "Shared", "NA")
