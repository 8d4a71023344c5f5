"""Recorded answers on NodeOverlays: same order, same conditions, same prices and same capacity per pool."""

from __future__ import annotations

import gzip
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import ResourceList
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.cloud.catalog.file import parse_instance_types
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.overlays import Overlaid, Supply, Verdict, adjusted, evaluate, ordered
from dovetail.model.resources import amounts
from dovetail.units.money import NANO_DOLLARS
from dovetail.units.quantity import parse_quantity

with gzip.open(Path(__file__).parent / "vectors" / "overlays.jsonl.gz", "rt") as _file:
    CASES = [json.loads(line) for line in _file]
_SETS = re.compile(r"(expected one of: )(?:map)?\[([^]]*)\]")


def _of(op: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "case", [case for case in CASES if case["op"] == op], ids=lambda case: case["name"]
    )


@_of("price")
def test_prices(case: dict[str, Any]) -> None:
    given = case["input"]
    found = adjusted(Decimal(repr(given["price"])), given["change"])
    assert float(found) == pytest.approx(case["expected"]["price"], abs=1e-9)


@_of("overlay")
def test_overlays(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    overlays = [decode(item, NodeOverlay) for item in given["overlays"]]
    supplies = [_supply(pool, given) for pool in given["nodePools"]]
    found = evaluate(overlays, supplies)
    assert [item.metadata.name for item in ordered(overlays)] == (expected["order"] or [])
    assert {name: _condition(verdict) for name, verdict in found.verdicts.items()} == {
        name: (one["ValidationSucceeded"], one.get("reason", ""), _unordered(one.get("message", "")))
        for name, one in expected["conditions"].items()
    }
    assert {
        supply.pool: {
            before.name: _shown(found, supply.pool, before, after)
            for before, after in zip(supply.types, found.types(supply.pool, supply.types), strict=True)
        }
        for supply in supplies
    } == {
        pool: {name: _expected(one) for name, one in types.items()}
        for pool, types in (expected["nodePools"] or {}).items()
    }


def _supply(pool: dict[str, Any], given: dict[str, Any]) -> Supply:
    name = pool["metadata"]["name"]
    sold = given.get("instanceTypesForNodePool", {}).get(name)
    types = [_type(one) for one in given["instanceTypes"] if sold is None or one["name"] in sold]
    own = pool["spec"]["template"]["metadata"]["labels"] or {}
    return Supply(name, {**own, labels.NODEPOOL: name}, parse_instance_types(types))


def _type(one: dict[str, Any]) -> dict[str, Any]:
    offerings = [
        {**offer, "requirements": {item["key"]: item["values"][0] for item in offer["requirements"]}}
        for offer in one["offerings"]
    ]
    return {**one, "offerings": offerings}


def _condition(verdict: Verdict) -> tuple[str, str, str]:
    return "False" if verdict.reason else "True", verdict.reason, _unordered(verdict.message)


def _unordered(message: str) -> str:
    """Without the order, and the notation, of a list of known values."""

    def sort(found: re.Match[str]) -> str:
        return f"{found[1]}{sorted(name.removesuffix(':{}') for name in found[2].split())}"

    return _SETS.sub(sort, message)


def _shown(found: Overlaid, pool: str, before: InstanceType, after: InstanceType) -> Any:
    change = found.changes[pool].get(before.name)
    offers = [
        (
            round(offer.price / NANO_DOLLARS, 9),
            change is not None and offer.requirements in change.prices,
            offer.available,
        )
        for offer in after.offerings
    ]
    return offers, dict(after.capacity), found.resized(pool, [before.name])


def _expected(one: dict[str, Any]) -> Any:
    offers = [
        (pytest.approx(offer["price"], abs=1.1e-9), offer["overlaid"], offer["available"])
        for offer in one["offerings"]
    ]
    sized: ResourceList = {name: parse_quantity(text) for name, text in one["capacity"].items()}
    return offers, amounts(sized), one["capacityOverlaid"]
