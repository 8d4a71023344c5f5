"""What a node's volumes cost: AWS's list prices as a table."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.errors import InputError
from dovetail.cloud.catalog import regions, volume_price
from dovetail.units.money import NANO_DOLLARS, parse_dollars

MONTH = 730


def node_class(*mappings: dict[str, Any], family: str = "AL2023") -> EC2NodeClass:
    return decode(
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {"amiFamily": family, "blockDeviceMappings": list(mappings)},
        },
        EC2NodeClass,
    )


def root(device: str = "/dev/xvda", **ebs: Any) -> dict[str, Any]:
    return {"deviceName": device, "ebs": ebs}


@pytest.mark.parametrize(
    ("region", "ebs", "dollars_a_month"),
    [
        ("ap-northeast-2", {"volumeSize": "1000Gi", "volumeType": "gp3"}, 91.2),
        ("us-east-1", {"volumeSize": "100Gi", "volumeType": "gp3", "iops": 3000, "throughput": 125}, 8),
        ("us-east-1", {"volumeSize": "100Gi", "volumeType": "gp3", "iops": 4000}, 8 + 5),
        ("us-east-1", {"volumeSize": "100Gi", "volumeType": "gp3", "throughput": 225}, 8 + 4),
        ("us-east-1", {"volumeSize": "100Gi", "volumeType": "gp2"}, 10),
        ("us-east-1", {"volumeSize": "100Gi"}, 10),
        ("us-east-1", {"volumeSize": "100Gi", "volumeType": "io1", "iops": 1000}, 12.5 + 65),
        ("us-east-1", {"volumeSize": "100Gi", "volumeType": "io2", "iops": 32_000}, 12.5 + 2080),
        (
            "us-east-1",
            {"volumeSize": "100Gi", "volumeType": "io2", "iops": 100_000},
            12.5 + 2080 + 32_000 * 0.0455 + 36_000 * 0.03185,
        ),
        ("us-east-1", {"volumeSize": "500Gi", "volumeType": "st1"}, 22.5),
        ("us-east-1", {"volumeSize": "500Gi", "volumeType": "sc1"}, 7.5),
        ("us-east-1", {"volumeSize": "100Gi", "volumeType": "standard"}, 5),
        ("us-west-1", {"volumeSize": "100Gi", "volumeType": "standard"}, 8),
        ("ca-central-1", {"volumeSize": "100Gi", "volumeType": "standard"}, 5),  # unknown there: us-east-1's
        ("us-east-1", {"volumeSize": "100G", "volumeType": "gp3"}, 94 * 0.08),  # 93.1 GiB, rounded up
        ("us-east-1", {"snapshotID": "snap-1", "volumeType": "gp3"}, 1.6),  # the image's own size
    ],
)
def test_a_volume_costs(region: str, ebs: dict[str, Any], dollars_a_month: float) -> None:
    hourly = volume_price(region, node_class(root(**ebs)))
    assert hourly == round(dollars_a_month * NANO_DOLLARS / MONTH)


@pytest.mark.parametrize(
    ("family", "mappings", "gib"),
    [
        ("AL2023", (), 20),
        ("AL2", (), 20),
        ("Bottlerocket", (), 26),
        ("Windows2022", (), 50),
        ("Custom", (), 20),
        ("Bottlerocket", (root("/dev/xvdb", volumeSize="100Gi", volumeType="gp3"),), 106),
        ("AL2023", (root("/dev/sdb", volumeSize="80Gi", volumeType="gp3"),), 100),
        ("Custom", (root("/dev/sdb", volumeSize="80Gi", volumeType="gp3"),), 80),
        ("AL2023", ({"deviceName": "/dev/sdb"},), 20),
        (
            "AL2023",
            (
                root("/dev/xvda", volumeSize="30Gi", volumeType="gp3"),
                root("/dev/sdb", volumeSize="10Gi", volumeType="gp3"),
            ),
            40,
        ),
    ],
)
def test_devices_that_the_class_leaves_alone_are_the_images(
    family: str, mappings: tuple[dict[str, Any], ...], gib: int
) -> None:
    hourly = volume_price("us-east-1", node_class(*mappings, family=family))
    assert hourly == round(gib * 0.08 * NANO_DOLLARS / MONTH)


def test_every_region_has_a_price() -> None:
    cheapest = volume_price("us-east-1")
    assert cheapest == volume_price("us-east-1", node_class())
    for region in regions():
        assert volume_price(region) >= cheapest


def test_a_size_that_cannot_be_read_is_reported() -> None:
    with pytest.raises(InputError) as caught:
        volume_price("us-east-1", node_class(root("/dev/sdb", volumeSize="much")))
    assert caught.value.path == "spec.blockDeviceMappings[0].ebs.volumeSize"


@pytest.mark.parametrize(("text", "nanos"), [("0", 0), ("$2", 2 * NANO_DOLLARS), ("0.0125", 12_500_000)])
def test_dollars(text: str, nanos: int) -> None:
    assert parse_dollars(text) == nanos


@pytest.mark.parametrize("text", ["", "-1", "a lot", "nan", "inf"])
def test_no_dollars(text: str) -> None:
    with pytest.raises(ValueError, match=r"dollars|below"):
        parse_dollars(text)
