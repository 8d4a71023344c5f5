"""The decision what to do next with the pods of a node that goes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from dovetail.api.core import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    SelectorRequirement,
    Toleration,
    TopologySpreadConstraint,
)
from dovetail.api.meta import LabelSelector, Meta, OwnerReference
from dovetail.base.clock import MINUTE, SECOND
from dovetail.controllers.node.drain import decide
from dovetail.units.quantity import parse_quantity
from dovetail.units.timestamp import to_rfc3339

NOW = 1_772_485_200 * SECOND
TOLERATES = (Toleration(key="karpenter.sh/disrupted", operator="Exists"),)


def pod(
    name: str,
    *,
    owner: str = "ReplicaSet",
    critical: str = "",
    deleted: int | None = None,
    protected: str = "",
    grace: int = 30,
    phase: str = "Running",
    started: int = NOW,
    **spec: Any,
) -> Pod:
    """A pod; `deleted` is when it must be gone, in nanoseconds from now."""
    reference = OwnerReference(api_version="v1", kind=owner, name="o", uid="o", controller=True)
    return Pod(
        metadata=Meta(
            name=name,
            namespace="default",
            uid=name,
            owner_references=(reference,),
            annotations={"karpenter.sh/do-not-disrupt": protected} if protected else {},
            deletion_timestamp="" if deleted is None else to_rfc3339(NOW + deleted),
        ),
        spec=PodSpec(
            priority_class_name=critical,
            termination_grace_period_seconds=grace,
            **spec,
        ),
        status=PodStatus(phase=phase, start_time=to_rfc3339(started)),
    )


def asking(name: str, cpu: str, memory: str) -> Pod:
    """A pod that asks for so much."""
    requests = {"cpu": parse_quantity(cpu), "memory": parse_quantity(memory)}
    container = Container(name="main", resources=ResourceRequirements(requests=requests))
    return pod(name, containers=(container,))


ORDINARY = pod("ordinary")
DAEMON = pod("daemon", owner="DaemonSet")
CRITICAL = pod("critical", critical="system-cluster-critical")
CRITICAL_DAEMON = pod("critical-daemon", owner="DaemonSet", critical="system-node-critical")
NODE_CRITICAL = pod("node-critical", critical="system-node-critical")
CLUSTER_CRITICAL_DAEMON = pod("cluster-daemon", owner="DaemonSet", critical="system-cluster-critical")
IMPORTANT = pod("important", critical="high-priority")
GOING = pod("going", deleted=30 * SECOND)


@pytest.mark.parametrize(
    ("pods", "evicted", "waiting"),
    [
        ((), "", 0),
        ((CRITICAL_DAEMON, CRITICAL, DAEMON, ORDINARY), "ordinary", 4),
        ((CRITICAL_DAEMON, CRITICAL, DAEMON), "daemon", 3),
        ((CRITICAL_DAEMON, CRITICAL), "critical", 2),
        ((CRITICAL_DAEMON,), "critical-daemon", 1),
        # Both classes of the system wait for ordinary pods and daemons: those may need what runs in them.
        ((NODE_CRITICAL, ORDINARY), "ordinary", 2),
        ((CRITICAL, ORDINARY), "ordinary", 2),
        ((NODE_CRITICAL, DAEMON), "daemon", 2),
        ((CRITICAL, DAEMON), "daemon", 2),
        ((NODE_CRITICAL, CRITICAL), "node-critical,critical", 2),
        ((CLUSTER_CRITICAL_DAEMON, CRITICAL), "critical", 2),
        ((CLUSTER_CRITICAL_DAEMON, CRITICAL_DAEMON), "cluster-daemon,critical-daemon", 2),
        # A class of the user's own is an ordinary one, however high.
        ((IMPORTANT, ORDINARY), "important,ordinary", 2),
        # The next group waits until the last pod of the present one is gone.
        ((GOING, DAEMON), "", 2),
        ((GOING, ORDINARY), "ordinary", 2),
        ((pod("stuck", deleted=-MINUTE - SECOND), DAEMON), "daemon", 1),
        ((pod("late", deleted=-MINUTE), DAEMON), "", 2),
        ((pod("mirror", owner="Node"),), "", 0),
        ((pod("tolerant", tolerations=TOLERATES),), "", 0),
        ((pod("done", phase="Succeeded"),), "", 0),
        ((pod("failed", phase="Failed"),), "", 0),
        ((pod("protected", protected="true"), ORDINARY, DAEMON), "ordinary", 3),
        ((pod("protected", protected="true"), DAEMON), "", 2),
        ((pod("protected", protected="10m"),), "", 1),
        ((pod("protected", protected="10m", started=NOW - 11 * MINUTE),), "protected", 1),
        ((pod("protected", protected="nonsense"),), "protected", 1),
    ],
)
def test_graceful_drain(pods: tuple[Pod, ...], evicted: str, waiting: int) -> None:
    step = decide(pods, NOW, None)
    assert ",".join(item.metadata.name for item in step.evict) == evicted
    assert (len(step.waiting), step.delete) == (waiting, ())


def test_what_asks_for_most_of_the_node_goes_first() -> None:
    room = {"cpu": 8000, "memory": 64 * 2**30, "pods": 58}
    pods = (asking("a", "500m", "1Gi"), asking("b", "2500m", "4Gi"), asking("c", "1", "48Gi"))
    small = asking("d", "500m", "1Gi")
    step = decide((*pods, small, ORDINARY), NOW, None, room)
    assert [item.metadata.name for item in step.evict] == ["c", "b", "a", "d", "ordinary"]


def test_among_pods_of_one_size_those_with_rules_go_first() -> None:
    ours = LabelSelector(match_labels={"app": "a"})
    term = PodAffinityTerm(topology_key="kubernetes.io/hostname", label_selector=ours)
    zones = TopologySpreadConstraint(
        max_skew=1,
        topology_key="topology.kubernetes.io/zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=ours,
    )
    wished = structs.replace(zones, when_unsatisfiable="ScheduleAnyway")
    zone_a = SelectorRequirement(key="zone", operator="In", values=("a",))
    there = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(zone_a,)),))
    pods = (
        pod("any"),
        pod("wish", topology_spread_constraints=(wished,)),
        pod("spread", topology_spread_constraints=(zones,)),
        pod("chosen", node_selector={"disk": "ssd"}),
        pod("apart", affinity=Affinity(pod_anti_affinity=PodAffinity(required=(term,)))),
        pod("near", affinity=Affinity(pod_affinity=PodAffinity(required=(term,)))),
        pod("node", affinity=Affinity(node_affinity=NodeAffinity(required=there))),
        asking("large", "4", "8Gi"),
    )
    step = decide(pods, NOW, None, {"cpu": 8000, "pods": 58})
    names = [item.metadata.name for item in step.evict]
    assert names == ["large", "spread", "chosen", "apart", "near", "node", "any", "wish"]


@pytest.mark.parametrize(
    ("left", "grace", "forced"),
    [
        (31 * SECOND, 30, None),
        (30 * SECOND, 30, None),
        (30 * SECOND - 1, 30, 29),
        (10 * SECOND, 30, 10),
        (SECOND // 2, 30, 1),
        (-MINUTE, 30, 1),
        (10 * SECOND, 5, None),
        (10 * SECOND, 3600, 10),
    ],
)
def test_a_pod_is_deleted_when_its_grace_would_pass_the_deadline(
    left: int, grace: int, forced: int | None
) -> None:
    step = decide((pod("p", grace=grace, protected="true"),), NOW, NOW + left)
    assert [item.grace_seconds for item in step.delete] == ([] if forced is None else [forced])
    if forced is None:
        assert step.again == NOW + left - grace * SECOND + 1


def test_the_deadline_knows_no_groups() -> None:
    pods = (ORDINARY, DAEMON, CRITICAL, CRITICAL_DAEMON, GOING)
    step = decide(pods, NOW, NOW + 5 * SECOND)
    assert [item.pod for item in step.delete] == list(pods)
    assert step.evict == () and len(step.waiting) == 5


@pytest.mark.parametrize(
    ("left", "hurried"),
    [
        (None, ()),
        (31 * SECOND, ()),
        (30 * SECOND, ()),
        (20 * SECOND, (20,)),
        (0, (1,)),
        (-MINUTE, (1,)),
    ],
)
def test_what_stops_already_is_hurried_only_to_meet_the_deadline(
    left: int | None, hurried: tuple[int, ...]
) -> None:
    step = decide((GOING,), NOW, None if left is None else NOW + left)
    assert step.evict == ()
    assert tuple(item.grace_seconds for item in step.delete) == hurried
    assert step.again == NOW + 30 * SECOND + MINUTE + 1


def test_what_ends_within_a_second_is_not_hurried_again() -> None:
    step = decide((pod("last", deleted=SECOND),), NOW, NOW - MINUTE)
    assert (step.evict, step.delete, len(step.waiting)) == ((), (), 1)


@pytest.mark.parametrize(
    ("pods", "left", "again"),
    [
        ((), None, None),
        ((ORDINARY,), None, None),
        ((GOING,), None, 90 * SECOND),  # a minute after it should be gone
        ((GOING, pod("later", deleted=40 * SECOND)), None, 90 * SECOND),
        ((pod("overdue", deleted=-30 * SECOND),), None, 30 * SECOND),
        ((pod("just", deleted=-MINUTE),), None, 0),
        ((pod("stuck", deleted=-MINUTE - SECOND),), None, None),
        ((ORDINARY,), MINUTE, 30 * SECOND),  # when it must begin to stop
        ((ORDINARY, pod("slow", grace=50)), MINUTE, 10 * SECOND),
        ((ORDINARY,), 30 * SECOND, 0),
        ((ORDINARY,), 20 * SECOND, None),  # it must stop already
        ((ORDINARY, GOING), 2 * MINUTE, 90 * SECOND),
        ((GOING,), MINUTE, 90 * SECOND),  # one that stops has its own time
    ],
)
def test_when_time_alone_changes_the_answer(
    pods: tuple[Pod, ...], left: int | None, again: int | None
) -> None:
    """A nanosecond after the instant: the rules say "after"."""
    step = decide(pods, NOW, None if left is None else NOW + left)
    assert step.again == (None if again is None else NOW + again + 1)
