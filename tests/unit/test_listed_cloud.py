"""EC2 by the catalogue alone: what a class can have follows from the subnets in its status."""

from __future__ import annotations

import asyncio

import pytest

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from dovetail.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.api.meta import Meta
from dovetail.base.errors import CreateFailed, InstanceNotFound
from dovetail.cloud import catalog
from dovetail.cloud.listed import ListedCloud


def node_class(*zones: str) -> EC2NodeClass:
    subnets = tuple({"id": f"subnet-{zone}", "zone": zone, "zoneID": f"id-{zone}"} for zone in zones)
    return EC2NodeClass(metadata=Meta(name="default"), status=EC2NodeClassStatus(subnets=subnets))


def test_zones_of_the_status() -> None:
    cloud = ListedCloud()
    types = cloud.instance_types(node_class("us-east-1b", "us-east-1d", "us-east-1-bos-1a"))
    assert {offering.zone for item in types for offering in item.offerings} == {"us-east-1b", "us-east-1d"}
    listed = {item.name: item for item in catalog.instance_types("us-east-1")}
    (mine,) = [item for item in types if item.name == "m5.large"]
    assert mine.offerings[0].price == listed["m5.large"].offerings[0].price
    assert cloud.instance_types(node_class("us-east-1b", "us-east-1d", "us-east-1-bos-1a")) is types
    assert cloud.volume_price(node_class("us-east-1b")) == catalog.volume_price("us-east-1", node_class())


@pytest.mark.parametrize("zones", [(), ("us-east-1-bos-1a",), ("mars-north-1a",)])
def test_nothing_for_a_class_whose_zones_are_not_known(zones: tuple[str, ...]) -> None:
    cloud = ListedCloud()
    assert cloud.instance_types(node_class(*zones)) == ()
    assert cloud.instance_types(None) == ()
    assert cloud.volume_price(node_class(*zones)) == 0


def test_it_does_not_act() -> None:
    cloud = ListedCloud()
    claim = NodeClaim(
        spec=NodeClaimSpec(
            node_class_ref=NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="x")
        )
    )
    with pytest.raises(CreateFailed):
        asyncio.run(cloud.create(claim, node_class("us-east-1a")))
    with pytest.raises(InstanceNotFound):
        asyncio.run(cloud.delete("aws:///us-east-1a/i-1"))
