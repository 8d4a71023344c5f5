"""Pure decisions in the life of a NodeClaim."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.core import Node, NodeSpec, NodeStatus, ResourceRequirements, Taint
from dovetail.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.api.meta import Condition, Meta
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.cloud.provider import Instance
from dovetail.controllers.nodeclaim.collect import stray, vanished
from dovetail.controllers.nodeclaim.liveness import time_left
from dovetail.controllers.nodeclaim.register import missing, registration
from dovetail.controllers.nodeclaim.status import cut
from dovetail.disrupt.expiry import expires
from dovetail.units.quantity import parse_quantity
from dovetail.units.timestamp import to_rfc3339

NOW = 1_772_485_200 * SECOND
CLASS = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")
NO_SCHEDULE = "NoSchedule"
STARTUP = Taint(key="example.com/agent", value="down", effect=NO_SCHEDULE)
TEAM = Taint(key="team", value="a", effect=NO_SCHEDULE)
UNREGISTERED = Taint(key="karpenter.sh/unregistered", effect="NoExecute")


def claim(name: str = "c", *, provider_id: str = "", age: int = 0, **fields: Any) -> NodeClaim:
    """A claim; True, False or Unknown may be given for each condition, in capitals as in the API."""
    kinds = ("Launched", "Registered", "Initialized")
    stamp = to_rfc3339(NOW - age)
    conditions = tuple(
        Condition(type=kind, status=fields.pop(kind), last_transition_time=stamp)
        for kind in kinds
        if kind in fields
    )
    return NodeClaim(
        metadata=Meta(
            name=name,
            uid=f"uid-{name}",
            creation_timestamp=stamp,
            labels={"karpenter.sh/nodepool": "general"},
            deletion_timestamp=fields.pop("deleted", ""),
        ),
        spec=NodeClaimSpec(node_class_ref=CLASS, **fields),
        status=NodeClaimStatus(provider_id=provider_id, conditions=conditions),
    )


def node(*taints: Taint, ready: str = "True", labels: dict[str, str] | None = None, **there: str) -> Node:
    return Node(
        metadata=Meta(name="n", resource_version="7", labels=labels or {}),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(
            conditions=(Condition(type="Ready", status=ready),),
            allocatable={name: parse_quantity(amount) for name, amount in there.items()},
        ),
    )


@pytest.mark.parametrize(
    ("found", "reason", "message"),
    [
        (node(cpu="4"), "", ""),
        (node(ready="False", cpu="4"), "NodeNotReady", "Node status is NotReady"),
        (node(ready="Unknown", cpu="4"), "NodeNotReady", "Node status is NotReady"),
        (
            node(STARTUP, cpu="4"),
            "StartupTaintsExist",
            'StartupTaint "example.com/agent=down:NoSchedule" still exists',
        ),
        (
            node(Taint(key="node.kubernetes.io/not-ready", effect=NO_SCHEDULE), cpu="4"),
            "KnownEphemeralTaintsExist",
            'KnownEphemeralTaint "node.kubernetes.io/not-ready:NoSchedule" still exists',
        ),
        (
            node(Taint(key="readiness.k8s.io/gpu", effect=NO_SCHEDULE), cpu="4"),
            "KnownEphemeralTaintsExist",
            'KnownEphemeralTaint "readiness.k8s.io/gpu:NoSchedule" still exists',
        ),
        (node(TEAM, cpu="4"), "", ""),
        (node(cpu="0"), "ResourceNotRegistered", 'Resource "cpu" was requested but not registered'),
        (node(), "ResourceNotRegistered", 'Resource "cpu" was requested but not registered'),
    ],
)
def test_what_a_node_lacks(found: Node, reason: str, message: str) -> None:
    requests = {"cpu": parse_quantity("2"), "memory": parse_quantity("0")}
    wanted = claim(startup_taints=(STARTUP,), resources=ResourceRequirements(requests=requests))
    assert missing(found, wanted, "") == (reason, message)


def test_a_node_lacks_devices_until_their_driver_has_published_them() -> None:
    wanted, text = claim(), 'DRA driver "dra.net" has not published a complete resource pool'
    assert missing(node(cpu="4"), wanted, "dra.net") == ("DRADriverPoolsNotPublished", text)
    assert missing(node(ready="False", cpu="4"), wanted, "dra.net")[0] == "NodeNotReady"


@pytest.mark.parametrize(
    ("labels", "present", "expected"),
    [
        ({}, (UNREGISTERED,), [TEAM, STARTUP]),
        ({}, (UNREGISTERED, TEAM), [TEAM, STARTUP]),
        ({"karpenter.sh/do-not-sync-taints": "true"}, (UNREGISTERED,), []),
        ({"karpenter.sh/do-not-sync-taints": "false"}, (), [TEAM, STARTUP]),
    ],
)
def test_registration_makes_the_node_the_claims(
    labels: dict[str, str], present: tuple[Taint, ...], expected: list[Taint]
) -> None:
    patch = registration(node(*present, labels=labels), claim(taints=(TEAM,), startup_taints=(STARTUP,)))
    assert [item["key"] for item in patch["spec"]["taints"]] == [taint.key for taint in expected]
    meta = patch["metadata"]
    assert meta["resourceVersion"] == "7"
    assert meta["labels"] == {"karpenter.sh/nodepool": "general", "karpenter.sh/registered": "true"}
    assert meta["finalizers"] == ["karpenter.sh/termination"]
    assert [(item["kind"], item["blockOwnerDeletion"]) for item in meta["ownerReferences"]] == [
        ("NodeClaim", True)
    ]


@pytest.mark.parametrize(
    ("found", "left"),
    [
        (claim(age=0), 5 * MINUTE),
        (claim(age=4 * MINUTE, Launched="Unknown"), MINUTE),
        (claim(age=6 * MINUTE, Launched="Unknown"), -MINUTE),
        (claim(age=6 * MINUTE, Launched="True", Registered="Unknown"), 9 * MINUTE),
        (claim(age=15 * MINUTE, Launched="True", Registered="Unknown"), 0),
        (claim(age=HOUR, Launched="True", Registered="True", Initialized="Unknown"), None),
    ],
)
def test_time_left(found: NodeClaim, left: int | None) -> None:
    assert time_left(found, NOW) == left


@pytest.mark.parametrize(
    ("text", "end"), [("720h", NOW + 720 * HOUR), ("90s", NOW + 90 * SECOND), ("Never", None)]
)
def test_expiry(text: str, end: int | None) -> None:
    assert expires(claim(expire_after=text)) == end


def instance(provider_id: str, *, age: int = HOUR, owner: str = "", terminating: bool = False) -> Instance:
    return Instance(
        provider_id=provider_id,
        instance_type="m5.large",
        zone="z",
        capacity_type="spot",
        price=1,
        image_id="ami",
        created=NOW - age,
        claim=owner,
        terminating=terminating,
    )


def test_claims_whose_instance_vanished() -> None:
    claims = (
        claim("gone", provider_id="i-1", Registered="True"),
        claim("there", provider_id="i-2", Registered="True"),
        claim("waits", Launched="Unknown"),
        claim("young", provider_id="i-3", age=MINUTE, Launched="True", Registered="Unknown"),
        claim("never", provider_id="i-5", age=3 * MINUTE, Launched="True", Registered="Unknown"),
        claim("deleted", provider_id="i-4", Registered="True", deleted=to_rfc3339(NOW)),
    )
    there = {instance("i-2").provider_id}
    assert [item.metadata.name for item in claims if vanished(item, there, NOW)] == ["gone", "never"]


def test_instances_without_a_claim() -> None:
    claims = (claim("has", provider_id="i-1"), claim("waits"))
    instances = (
        instance("i-1", owner="has"),
        instance("i-2", owner="has"),
        instance("i-3", owner="waits"),
        instance("i-4", owner="gone"),
        instance("i-5", owner="gone", age=30 * SECOND),
        instance("i-6", owner="gone", terminating=True),
    )
    assert [item.provider_id for item in stray(claims, instances, NOW)] == ["i-2", "i-4"]


def test_long_errors_are_cut() -> None:
    assert cut("x" * 1024) == "x" * 1024
    assert cut("x" * 1025) == "x" * 1024 + "..."
