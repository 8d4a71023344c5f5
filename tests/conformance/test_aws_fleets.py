"""Which types in which zones a fleet request asks for, as recorded."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.cloud import catalog
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.settings import NodeSettings
from dovetail.cloud.simulated.fleet import Request, candidates
from dovetail.model import labels
from dovetail.model.offering import NANO_DOLLARS, InstanceType
from dovetail.model.requirement import Requirements
from dovetail.model.resources import amounts

VECTORS = Path(__file__).parent / "vectors" / "aws" / "fleets.jsonl.gz"
ZONES = (("us-east-1a", "use1-az1"), ("us-east-1b", "use1-az2"), ("us-east-1c", "use1-az4"))
Case = dict[str, Any]


def _cases() -> list[Case]:
    """Those with a fleet request at recorded prices; reserved ones have invented prices and reservations."""
    with gzip.open(VECTORS, "rt") as lines:
        found = [json.loads(line) for line in lines]
    return [case for case in found if case.get("createFleetInput") and _recorded(case)]


def _overrides(case: Case) -> list[Case]:
    templates = case["createFleetInput"]["LaunchTemplateConfigs"]
    return [override for template in templates for override in template["Overrides"]]


def _recorded(case: Case) -> dict[str, int]:
    """On-demand prices of the types in the answer, from the priorities, which are prices in dollars."""
    if "statusCapacityReservations" in case:
        return {}
    factors = case.get("spotPriceFactor") or {}
    return {
        override["InstanceType"]: round(
            override["Priority"] * NANO_DOLLARS / factors.get(override["AvailabilityZone"], 1)
        )
        for override in reversed(_overrides(case))
        if "Priority" in override
    }


def _types(case: Case) -> list[InstanceType]:
    recorded, factors = _recorded(case), case.get("spotPriceFactor") or {}
    made = []
    for record, known in zip(store.load().types, store.region("us-east-1").prices, strict=True):
        price = recorded.get(record.name) or known
        if record.family in case["instanceFamilies"] and price:
            item = catalog.make(record, NodeSettings(), region="us-east-1", zones=ZONES, on_demand=price)
            offerings = [
                replace(one, price=round(price * factors.get(one.zone, 1)))
                if one.capacity_type == labels.SPOT
                else one
                for one in item.offerings
            ]
            made.append(replace(item, offerings=tuple(offerings)))
    return made


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["name"])
def test_types_and_zones(case: Case) -> None:
    claim = decode(case["nodeClaim"], NodeClaim)
    request = Request(Requirements.read(claim.spec.requirements), amounts(claim.spec.resources.requests))
    found = candidates(_types(case), request)
    wanted = {(override["InstanceType"], override["AvailabilityZone"]) for override in _overrides(case)}
    assert {(one.instance_type.name, one.offering.zone) for one in found} == wanted
    target = case["createFleetInput"]["TargetCapacitySpecification"]["DefaultTargetCapacityType"]
    assert {one.offering.capacity_type for one in found} == {target}
