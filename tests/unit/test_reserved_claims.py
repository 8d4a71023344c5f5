"""What becomes of claims in reserved capacity, and which zones take no traffic, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.cloud.aws.live.services import shifted_zones
from dovetail.cloud.provider import Instance
from dovetail.controllers.nodeclaim.reserved import expiring, moved
from dovetail.model import labels

PLACE = "aws:///a/i-1"
REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
KIND = labels.AWS + "capacity-reservation-type"
INTERRUPTIBLE = labels.AWS + "capacity-reservation-interruptible"


def claim(reservation: str = "cr-1", capacity: str = "reserved", **meta: Any) -> NodeClaim:
    marks = {labels.CAPACITY_TYPE: capacity, labels.RESERVATION_ID: reservation}
    document = {
        "metadata": {"name": "one", "labels": marks, **meta},
        "spec": {"nodeClassRef": REFERENCE},
        "status": {"providerID": PLACE},
    }
    return decode(document, NodeClaim)


def instance(capacity: str, reservation: str = "") -> Instance:
    return Instance(PLACE, "m5.large", "a", capacity, 0, "ami-1", 0, reservation_id=reservation)


@pytest.mark.parametrize(
    ("given", "found", "expected"),
    [
        (claim(), instance("reserved", "cr-1"), None),
        (
            claim(),
            instance("on-demand"),
            {
                labels.CAPACITY_TYPE: "on-demand",
                labels.RESERVATION_ID: None,
                KIND: None,
                INTERRUPTIBLE: None,
            },
        ),
        (claim(), instance("reserved", "cr-2"), {labels.RESERVATION_ID: "cr-2"}),
        (claim(capacity="on-demand"), instance("on-demand"), None),
        (claim(), None, None),
    ],
)
def test_labels_follow_the_machine(
    given: NodeClaim, found: Instance | None, expected: dict[str, str | None] | None
) -> None:
    changes = [item.labels for item in moved([given], [found] if found else [])]
    assert changes == ([expected] if expected else [])


def test_claims_of_blocks_that_end_soon() -> None:
    status = {
        "capacityReservations": [{"id": "cr-1", "state": "expiring"}, {"id": "cr-2", "state": "active"}]
    }
    classes = [decode({"spec": {}, "status": status}, EC2NodeClass)]
    leaving = claim("cr-1", deletionTimestamp="2026-03-02T21:00:00Z")
    assert expiring([claim("cr-1"), claim("cr-2"), leaving], classes) == [claim("cr-1")]


def test_zones_without_weight_are_shifted_away_from() -> None:
    assert shifted_zones({"use1-az2": 0.0, "use1-az1": 1.0, "use1-az4": 0}) == ("use1-az2", "use1-az4")
    assert shifted_zones({}) == ()
