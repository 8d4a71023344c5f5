"""The launch templates and the fleet request of a claim, field by field as recorded, or the error."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.errors import InsufficientCapacity
from dovetail.cloud import catalog
from dovetail.cloud.aws.amifamily.userdata import Cluster
from dovetail.cloud.aws.instance.request import fleet_request
from dovetail.cloud.aws.instancetype.market import Reservation, with_reservations
from dovetail.cloud.aws.launchtemplate.template import Launch, cluster_tags, templates
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.settings import NodeSettings
from dovetail.cloud.choice import Choice, Request, choose
from dovetail.cloud.provider import ResolvedImage
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.requirement import Requirements
from dovetail.units.money import NANO_DOLLARS

VECTORS = Path(__file__).parent / "vectors" / "aws"
ZONES = (("us-east-1a", "use1-az1"), ("us-east-1b", "use1-az2"), ("us-east-1c", "use1-az4"))
SUBNETS = {zone: f"subnet-{zone[-1]}" for zone, _ in ZONES}
PLACEMENT_GROUPS = {"cl": "pg-0cluster"}
CA = "Y2EtYnVuZGxlCg=="
CIDRS = ("10.100.0.0/16", "fd30:1c53:5f8a::/108")
Case = dict[str, Any]


def _cases() -> list[Case]:
    """Launch templates and fleets of one scenario together; they were recorded in one order."""
    both = []
    for name in ("launch_templates", "fleets"):
        with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt") as lines:
            both.append([json.loads(line) for line in lines])
    for template, fleet in zip(*both, strict=True):
        assert template["name"] == fleet["name"]
        template["createFleetInput"] = fleet.get("createFleetInput")
    return both[0]


def _prices(case: Case) -> dict[str, int]:
    """On-demand prices, nano-dollars per hour: from the priorities where there are some, else as packaged."""
    return {**_packaged(), **_recorded(case)}


def _packaged() -> dict[str, int]:
    known = store.region("us-east-1").prices
    return {record.name: price for record, price in zip(store.load().types, known, strict=True)}


def _recorded(case: Case) -> dict[str, int]:
    """By the priorities of overrides."""
    prices = {}
    factors = case.get("spotPriceFactor") or {}
    shares = 10_000_000 if case.get("statusCapacityReservations") else 1
    for template in (case["createFleetInput"] or {}).get("LaunchTemplateConfigs", ()):
        for one in reversed(template["Overrides"]):
            price = one["Priority"] * shares * NANO_DOLLARS / factors.get(one["AvailabilityZone"], 1)
            prices[one["InstanceType"]] = round(price)
    return prices


def _types(case: Case, node_class: EC2NodeClass, prices: dict[str, int]) -> list[InstanceType]:
    settings = NodeSettings.of(node_class)
    factors = case.get("spotPriceFactor") or dict.fromkeys((zone for zone, _ in ZONES), 1)
    made = []
    for record in store.load().types:
        if record.family not in case["instanceFamilies"] or not prices[record.name]:
            continue
        item = catalog.make(record, settings, region="us-east-1", zones=ZONES, on_demand=prices[record.name])
        offerings = [
            replace(one, price=_quoted(prices[record.name] * factors[one.zone]))
            if one.capacity_type == labels.SPOT
            else one
            for one in item.offerings
        ]
        made.append(with_reservations(replace(item, offerings=tuple(offerings)), _reservations(case)))
    return made


def _quoted(price: float) -> int:
    """Spot prices were recorded as text with six decimals."""
    return round(float(f"{price / NANO_DOLLARS:.6f}") * NANO_DOLLARS)


def _reservations(case: Case) -> list[Reservation]:
    return [
        Reservation(
            one["id"],
            one["instanceType"],
            one["availabilityZone"],
            dict(ZONES)[one["availabilityZone"]],
            one["reservationType"],
            left=10,
            interruptible=one["interruptible"],
        )
        for one in case.get("statusCapacityReservations", ())
    ]


def _launch(case: Case, node_class: EC2NodeClass, capacity_type: str) -> Launch:
    selector = case["nodeClassSpec"].get("placementGroupSelector", {})
    tags = cluster_tags(case["clusterName"], "default", "default", node_class.spec.tags)
    assert tags == case["tags"]
    return Launch(
        claim=decode(case["nodeClaim"], NodeClaim),
        node_class=node_class,
        cluster=Cluster(
            case["clusterName"],
            case["clusterEndpoint"],
            CA,
            CIDRS[":" in case["kubeDNSIP"]],
            case["kubeDNSIP"],
        ),
        capacity_type=capacity_type,
        region=case["region"],
        tags=tags,
        images=tuple(
            ResolvedImage(image["id"], image.get("name", ""), _terms(image["requirements"]))
            for image in case["statusAMIs"]
        ),
        security_groups=("sg-1", "sg-2"),
        instance_profile="test-profile",
        placement_group=selector.get("id") or PLACEMENT_GROUPS.get(selector.get("name"), ""),
        reserved_capacity=case["reservedCapacityGate"],
    )


def _terms(written: list[Case]) -> Requirements:
    claim = {"spec": {"requirements": written, "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}
    return Requirements.read(decode(claim, NodeClaim).spec.requirements)


@cache
def _records() -> dict[str, store.TypeRecord]:
    return {record.name: record for record in store.load().types}


def _answer(case: Case) -> tuple[list[Case], Case]:
    """The template requests and the fleet request."""
    spec = {name: value for name, value in case["nodeClassSpec"].items() if name != "placementGroupSelector"}
    node_class = decode({"metadata": {"name": "default"}, "spec": spec}, EC2NodeClass)
    prices = _prices(case)
    launch = _launch(case, node_class, "")
    choice: Choice = choose(_types(case, node_class, prices), Request(launch.requirements, launch.requests))
    launch = _launch(case, node_class, choice.capacity_type)
    made = templates(launch, choice, _records())
    fleet = fleet_request(launch, choice, made, SUBNETS, prices)
    return [template.request(launch) for template in made], fleet


def _template(request: Case) -> Case:
    """Without the name, which is a hash of something else, and with the user data as text."""
    data = dict(request["LaunchTemplateData"])
    text = data["UserData"]
    data["UserData"] = text["decoded"] if isinstance(text, dict) else b64decode(text).decode()
    for mapping in data.get("BlockDeviceMappings", ()):
        # Bottlerocket's root volume was so large before 1.15; no class of these cases asks for as much.
        if mapping["Ebs"].get("VolumeSize") == 4:
            mapping["Ebs"] = {**mapping["Ebs"], "VolumeSize": 6}
    return {"LaunchTemplateData": data, "TagSpecifications": request["TagSpecifications"]}


def _sorted(items: list[Any]) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in items)


def _fleet(request: Case, made: list[Case]) -> Case:
    """With the templates themselves in the place of their names, and in one order."""
    contents = {one["LaunchTemplateName"]: _template(one) for one in made}
    configs = [
        {
            "Template": contents[config["LaunchTemplateSpecification"]["LaunchTemplateName"]],
            "Version": config["LaunchTemplateSpecification"]["Version"],
            "Overrides": _sorted(
                [{**one, "Priority": f"{one['Priority']:.9g}"} for one in config["Overrides"]]
            ),
        }
        for config in request["LaunchTemplateConfigs"]
    ]
    return {**request, "LaunchTemplateConfigs": _sorted(configs)}


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["name"])
def test_launch(case: Case) -> None:
    if "error" in case:
        with pytest.raises(InsufficientCapacity) as raised:
            _answer(case)
        assert f"insufficient capacity, {raised.value}" == case["error"]
        return
    made, fleet = _answer(case)
    recorded = case["createLaunchTemplateInputs"]
    assert _sorted([_template(one) for one in made]) == _sorted([_template(one) for one in recorded])
    assert len({one["LaunchTemplateName"] for one in made}) == len(made)
    assert _fleet(fleet, made) == _fleet(case["createFleetInput"], recorded)


def test_packaged_prices_are_those_recorded() -> None:
    packaged = {name: price for name, price in _packaged().items() if price}
    recorded = {name: price for case in _cases() for name, price in _recorded(case).items()}
    both = packaged.keys() & recorded.keys()
    off = {name for name in both if abs(packaged[name] - recorded[name]) > 0.0015 * recorded[name]}
    assert len(both) == 102
    assert not off
    assert not both & store.estimates("us-east-1").keys()
