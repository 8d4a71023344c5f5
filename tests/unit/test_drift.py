"""Drift of a claim from its pool, and of an instance from its class, as tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.fingerprint import class_hash
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import HOUR, SECOND
from dovetail.cloud.aws.nodeclass.drift import Made, class_stamp, drift
from dovetail.cloud.provider import (
    NodeClassResolution,
    ResolvedPlacementGroup,
    ResolvedReservation,
    ResolvedSecurityGroup,
    ResolvedSubnet,
)
from dovetail.disrupt.drift import NODE_POOL, TYPE_NOT_FOUND, pool_drift
from dovetail.model import labels
from dovetail.units.timestamp import to_rfc3339

NOW = 1_772_409_600 * SECOND


REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def marked(annotations: dict[str, str], age: int = 0) -> NodeClaim:
    meta = {"annotations": annotations, "creationTimestamp": to_rfc3339(NOW - age)}
    return decode({"metadata": meta, "spec": {"nodeClassRef": REFERENCE}}, NodeClaim)


def claim(hash_: str = "1", version: str = "v", age: int = 0) -> NodeClaim:
    return marked({labels.NODEPOOL_HASH: hash_, labels.NODEPOOL_HASH_VERSION: version}, age)


def pool(**annotations: str) -> NodePool:
    spec = {"template": {"spec": {"nodeClassRef": REFERENCE}}}
    return decode({"metadata": {"name": "p", "annotations": annotations}, "spec": spec}, NodePool)


def hashed(hash_: str, version: str = "v") -> NodePool:
    return pool(**{labels.NODEPOOL_HASH: hash_, labels.NODEPOOL_HASH_VERSION: version})


@pytest.mark.parametrize(
    ("made", "now", "reason"),
    [
        (claim("1"), hashed("1"), ""),
        (claim("1"), hashed("2"), NODE_POOL),
        (claim("1", "v3"), hashed("2", "dovetail-v3"), ""),
        (marked({}), hashed("2"), ""),
        (claim("1"), pool(), ""),
        (claim("1", age=HOUR - SECOND), hashed("1"), ""),
        (claim("1", age=HOUR), hashed("1"), TYPE_NOT_FOUND),
    ],
)
def test_drift_from_the_pool(made: NodeClaim, now: NodePool, reason: str) -> None:
    assert pool_drift(made, now, (), NOW) == reason


MADE = Made("ami-1", "subnet-1", frozenset({"sg-1", "sg-2"}))
GROUPS = (ResolvedSecurityGroup("sg-2", ""), ResolvedSecurityGroup("sg-1", ""))
RESERVED = ResolvedReservation("cr-1", "m5.large", "a", "123456789012", "targeted")
NEAR = ResolvedPlacementGroup("pg-1", "near", "cluster")
SUBNETS = (ResolvedSubnet("subnet-2", "a", ""), ResolvedSubnet("subnet-1", "b", ""))


@pytest.mark.parametrize(
    ("resolved", "image", "reason"),
    [
        (NodeClassResolution(SUBNETS, GROUPS), "ami-1", ""),
        (NodeClassResolution(SUBNETS, GROUPS), "ami-2", "AMIDrift"),
        (NodeClassResolution(SUBNETS, GROUPS), "", ""),
        (NodeClassResolution(SUBNETS, GROUPS[:1]), "ami-1", "SecurityGroupDrift"),
        (NodeClassResolution(SUBNETS[:1], GROUPS), "ami-1", "SubnetDrift"),
        (NodeClassResolution(SUBNETS[:1], GROUPS[:1]), "ami-2", "AMIDrift"),
        (NodeClassResolution(), "ami-1", ""),
    ],
)
def test_drift_from_the_class(resolved: NodeClassResolution, image: str, reason: str) -> None:
    node_class = decode({"spec": {}}, EC2NodeClass)
    stamped = marked(class_stamp(node_class))
    assert drift(stamped, node_class, MADE, resolved, image) == reason


@pytest.mark.parametrize(
    ("made", "resolved", "spec", "reason"),
    [
        ({"reservation": "cr-1"}, {"reservations": (RESERVED,)}, {}, ""),
        ({"reservation": "cr-2"}, {"reservations": (RESERVED,)}, {}, "CapacityReservationDrift"),
        ({"reservation": "cr-1"}, {}, {}, "CapacityReservationDrift"),
        ({}, {"reservations": (RESERVED,)}, {}, ""),
        ({"placement_group": "near"}, {"placement_group": NEAR}, {"name": "near"}, ""),
        ({"placement_group": "near"}, {}, {"name": "near"}, ""),
        ({"placement_group": "near"}, {}, {}, "PlacementGroupDrift"),
        ({}, {"placement_group": NEAR}, {"name": "near"}, "PlacementGroupDrift"),
    ],
)
def test_drift_of_reservations_and_placement_groups(
    made: dict[str, str], resolved: dict[str, Any], spec: dict[str, str], reason: str
) -> None:
    node_class = decode({"spec": {"placementGroupSelector": spec} if spec else {}}, EC2NodeClass)
    now = NodeClassResolution(SUBNETS, GROUPS, **resolved)
    assert drift(marked(class_stamp(node_class)), node_class, replace(MADE, **made), now, "ami-1") == reason


def test_an_alias_and_its_family_are_the_same_class() -> None:
    alias = {"amiSelectorTerms": [{"alias": "al2023@latest"}]}
    pinned = {"amiSelectorTerms": [{"alias": "al2023@v20250403"}]}
    named = {**alias, "amiFamily": "AL2023"}
    other = {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}
    hashes = [class_hash(decode({"spec": spec}, EC2NodeClass)) for spec in (alias, pinned, named, other)]
    assert hashes[0] == hashes[1] == hashes[2] != hashes[3]


def test_a_changed_class_comes_first_and_another_version_says_nothing() -> None:
    changed = decode({"spec": {"userData": "echo"}}, EC2NodeClass)
    stamp = class_stamp(decode({"spec": {}}, EC2NodeClass))
    stamped = marked(stamp)
    assert drift(stamped, changed, MADE, NodeClassResolution(SUBNETS, GROUPS), "ami-2") == "NodeClassDrift"
    older = marked({**stamp, labels.NODECLASS_HASH_VERSION: "v6"})
    assert drift(older, changed, MADE, NodeClassResolution(SUBNETS, GROUPS), "ami-1") == ""
