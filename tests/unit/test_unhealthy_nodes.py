"""When a node is past help, and when so many are that none is repaired."""

from __future__ import annotations

import pytest

from dovetail.api.core import Node, NodeStatus
from dovetail.api.meta import Condition, Meta
from dovetail.base.clock import MINUTE
from dovetail.cloud.provider import EKS_POLICIES
from dovetail.controllers.node.repair import diagnosis, too_many
from dovetail.units.timestamp import parse_rfc3339

SINCE = "2026-03-02T10:00:00Z"


def node(kind: str = "Ready", status: str = "True", since: str = SINCE) -> Node:
    found = (Condition(type=kind, status=status, last_transition_time=since),)
    meta = Meta(name="n", creation_timestamp="2026-03-02T09:00:00Z")
    return Node(metadata=meta, status=NodeStatus(conditions=found))


@pytest.mark.parametrize(
    ("kind", "status", "minutes"),
    [
        ("Ready", "True", None),
        ("Ready", "False", 30),
        ("Ready", "Unknown", 30),
        ("AcceleratedHardwareReady", "False", 10),
        ("AcceleratedHardwareReady", "Unknown", None),
        ("StorageReady", "False", 30),
        ("NetworkingReady", "False", 30),
        ("KernelReady", "False", 30),
        ("ContainerRuntimeReady", "False", 30),
        ("MemoryPressure", "False", None),
    ],
)
def test_each_fault_has_its_time(kind: str, status: str, minutes: int | None) -> None:
    end = None if minutes is None else parse_rfc3339(SINCE) + minutes * MINUTE
    assert diagnosis(node(kind, status), EKS_POLICIES) == (None if end is None else (end, kind))


def test_the_first_of_two_faults_counts_and_a_missing_instant_is_the_creation() -> None:
    both = (
        Condition(type="Ready", status="False", last_transition_time="2026-03-02T10:05:00Z"),
        Condition(type="AcceleratedHardwareReady", status="False"),
    )
    sick = Node(metadata=Meta(creation_timestamp=SINCE), status=NodeStatus(conditions=both))
    found = diagnosis(sick, EKS_POLICIES)
    assert found == (parse_rfc3339(SINCE) + 10 * MINUTE, "AcceleratedHardwareReady")


@pytest.mark.parametrize(
    ("sick", "healthy", "blocked"),
    [(1, 0, False), (2, 0, True), (1, 4, False), (2, 3, True), (2, 4, False), (3, 8, False), (4, 7, True)],
)
def test_more_than_a_fifth_rounded_up_stops_all_repairs(sick: int, healthy: int, blocked: bool) -> None:
    nodes = [node("Ready", "False")] * sick + [node()] * healthy
    assert too_many(nodes, EKS_POLICIES) is blocked
