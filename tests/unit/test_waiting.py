"""Where a waiting pod's time went: small logs with known answers, and sums that always come out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.base.clock import SECOND
from dovetail.simulate.analysis.waiting import PARTS, Spell, Wait, at_maximum, explain, split, waits

END = 1000
Record = dict[str, Any]


def log(*records: tuple[float, str, Record]) -> list[Record]:
    """(seconds, kind, fields) as the log stores it; batches get their closing instant in nanoseconds."""
    return [{"t": round(t * SECOND), "kind": kind, **fields} for t, kind, fields in records]


def created(t: float, pod: str = "shop/a") -> tuple[float, str, Record]:
    return (t, "pod.created", {"pod": pod, "owner": "ReplicaSet/web", "requests": {}})


def unschedulable(t: float, pod: str = "shop/a") -> tuple[float, str, Record]:
    return (t, "pod.unschedulable", {"pod": pod, "message": "0/2 nodes are available"})


def batch(opened: float, closed: float, *pods: str) -> tuple[float, str, Record]:
    fields = {"opened": round(opened * SECOND), "closed": round(closed * SECOND)}
    return (closed, "batch", {**fields, "pods": list(pods or ("shop/a",))})


def nominated(t: float, claim: str, node: str = "") -> tuple[float, str, Record]:
    return (t, "nominated", {"pod": "shop/a", "claim": claim, "node": node})


def started(t: float, claim: str) -> tuple[float, str, Record]:
    fields = {"instance": f"i-{claim}", "claim": claim, "price": 1, "capacityType": "spot"}
    return (t, "instance.started", fields)


def node(t: float, name: str, claim: str = "") -> tuple[float, str, Record]:
    return (t, "node.created", {"node": name, "claim": claim})


def ready(t: float, name: str) -> tuple[float, str, Record]:
    return (t, "node.ready", {"node": name})


def bound(t: float, name: str) -> tuple[float, str, Record]:
    return (t, "pod.bound", {"pod": "shop/a", "node": name})


def running(t: float, name: str) -> tuple[float, str, Record]:
    return (t, "pod.running", {"pod": "shop/a", "node": name})


def deleted(t: float) -> tuple[float, str, Record]:
    return (t, "pod.deleted", {"pod": "shop/a", "node": ""})


@pytest.mark.parametrize(
    ("why", "records", "expected"),
    [
        (
            "a new node",
            log(
                created(10),
                unschedulable(10),
                batch(10, 11),
                nominated(11.5, "c1"),
                started(14, "c1"),
                node(40, "n1", "c1"),
                ready(50, "n1"),
                bound(50.2, "n1"),
                running(55, "n1"),
            ),
            {"batching": 1, "solve": 0.5, "launch": 2.5, "join": 36, "scheduling": 0.2, "start": 4.8},
        ),
        (
            "room that was there",
            log(node(0, "n1", "c0"), ready(5, "n1"), created(10), bound(10.1, "n1"), running(12, "n1")),
            {"scheduling": 0.1, "start": 1.9},
        ),
        (
            "capacity was short twice",
            log(
                created(0),
                batch(0, 1),
                nominated(2, "c1"),
                (3, "instance.launchFailed", {"claim": "c1"}),
                batch(5, 6),
                nominated(7, "c2"),
                (8, "claim.deleted", {"claim": "c2"}),
                batch(8, 9),
                nominated(10, "c3"),
                nominated(20, "c3"),
                started(22, "c3"),
                node(30, "n3", "c3"),
                ready(40, "n3"),
                bound(41, "n3"),
                running(42, "n3"),
            ),
            {"batching": 1, "solve": 1, "retries": 8, "launch": 12, "join": 18, "scheduling": 1, "start": 1},
        ),
        (
            "the planned room went to another pod",
            log(
                created(0),
                batch(0, 1),
                nominated(2, "c1", "n1"),
                nominated(5, "c1", "n1"),
                nominated(12, "c2"),
                started(14, "c2"),
                node(30, "n2", "c2"),
                ready(40, "n2"),
                bound(41, "n2"),
                running(42, "n2"),
                (50, "claim.deleted", {"claim": "c2"}),
            ),
            {
                "batching": 1,
                "solve": 1,
                "replanned": 10,
                "launch": 2,
                "join": 26,
                "scheduling": 1,
                "start": 1,
            },
        ),
        (
            "no pool could take it for a while",
            log(
                created(0),
                batch(0, 1),
                batch(11, 12),
                batch(21, 22),
                nominated(23, "c1"),
                started(25, "c1"),
                node(45, "n1", "c1"),
                ready(50, "n1"),
                bound(51, "n1"),
                running(52, "n1"),
            ),
            {"batching": 1, "blocked": 21, "solve": 1, "launch": 2, "join": 25, "scheduling": 1, "start": 1},
        ),
        (
            "a node that was already on its way",
            log(
                started(2, "c1"),
                created(10),
                batch(10, 11),
                nominated(12, "c1"),
                node(20, "n1", "c1"),
                ready(30, "n1"),
                bound(31, "n1"),
                running(33, "n1"),
            ),
            {"batching": 1, "solve": 1, "join": 18, "scheduling": 1, "start": 2},
        ),
        (
            "another node than the nominated one",
            log(
                started(2, "c2"),
                created(10),
                batch(10, 11),
                nominated(12, "c1"),
                node(15, "n2", "c2"),
                ready(20, "n2"),
                bound(21, "n2"),
                running(22, "n2"),
            ),
            {"batching": 1, "solve": 1, "join": 8, "scheduling": 1, "start": 1},
        ),
        ("never seen by the scheduler", log(created(990)), {"batching": 10}),
        ("never placed", log(created(900), batch(900, 910)), {"batching": 10, "blocked": 90}),
        (
            "still launching",
            log(created(900), batch(900, 910), nominated(911, "c1")),
            {"batching": 10, "solve": 1, "launch": 89},
        ),
        (
            "deleted while the node joined",
            log(created(0), batch(0, 1), nominated(2, "c1"), started(5, "c1"), deleted(9)),
            {"batching": 1, "solve": 1, "launch": 3, "join": 4},
        ),
        (
            "room became free before any node came",
            log(
                node(0, "n1"),
                ready(0, "n1"),
                created(10),
                batch(10, 11),
                nominated(12, "c1"),
                bound(20, "n1"),
                running(21, "n1"),
            ),
            {"batching": 1, "solve": 1, "scheduling": 8, "start": 1},
        ),
    ],
)
def test_parts(why: str, records: list[Record], expected: dict[str, float]) -> None:
    (wait,) = waits(records, END * SECOND)
    seconds = {part: wait.parts[part] / SECOND for part in PARTS if wait.parts[part]}
    assert seconds == expected, why
    assert sum(wait.parts.values()) == wait.total


def test_what_is_shown_of_a_pod() -> None:
    records = log(
        created(0), unschedulable(0), batch(0, 1), nominated(2, "c1"), batch(3, 4), nominated(5, "c2")
    )
    (wait,) = waits(records, 60 * SECOND)
    assert (wait.pod, wait.owner, wait.attempts, wait.bound, wait.waited) == (
        "shop/a",
        "ReplicaSet/web",
        2,
        None,
        True,
    )
    assert wait.pending == wait.total == 60 * SECOND
    assert explain(wait).startswith("55.0 s of 60.0 s, without a node to the end, went to launch: ")


def test_a_pod_that_the_controller_leaves_alone_waits_for_no_batch() -> None:
    why = 'storageclass.storage.k8s.io "gp3" not found'
    event = {
        "object": "Pod/shop/a",
        "reason": "FailedScheduling",
        "message": f"Failed to schedule pod, {why}",
    }
    records = log(
        created(0),
        unschedulable(0.5),
        (1, "pod.ignored", {"pod": "shop/a", "message": why}),
        (1, "event", event),
    )
    (wait,) = waits(records, 60 * SECOND)
    assert {name: length // SECOND for name, length in wait.parts.items() if length} == {
        "batching": 1,
        "blocked": 59,
    }
    told = explain(wait)
    assert told.startswith(f"59.0 s of 60.0 s, without a node to the end, went to blocked ({why}): ")
    assert "create the storageclass gp3" in told


@pytest.mark.parametrize(
    ("owner", "advice"), [("DaemonSet/ne", "system-node-critical"), ("StatefulSet/db", "as high as theirs")]
)
def test_who_lost_its_room_to_a_higher_priority_is_told_so(owner: str, advice: str) -> None:
    event = {"object": "Pod/shop/a", "reason": "Preempted", "message": "Preempted by pod u on node n1"}
    records = log(
        (0, "pod.created", {"pod": "shop/a", "owner": owner}),
        bound(1, "n1"),
        running(2, "n1"),
        (10, "event", event),
        deleted(10),
        (10, "pod.created", {"pod": "shop/b", "owner": owner}),
        unschedulable(10, "shop/b"),
        (40, "pod.bound", {"pod": "shop/b", "node": "n1"}),
        (42, "pod.running", {"pod": "shop/b", "node": "n1"}),
    )
    first, second = waits(records, END * SECOND)
    assert (first.preempted, second.preempted) == (True, False)
    assert "pods of a higher priority took the room" in explain(second)
    assert advice in explain(second)


def test_a_daemon_pod_without_room_waits_for_no_batch() -> None:
    records = log((0, "pod.created", {"pod": "shop/a", "owner": "DaemonSet/ne"}), unschedulable(1))
    (wait,) = waits(records, 60 * SECOND)
    assert {part: length // SECOND for part, length in wait.parts.items() if length} == {"scheduling": 60}


def test_a_name_used_twice_is_two_pods() -> None:
    records = log(created(0), bound(1, "n1"), deleted(5), created(6), bound(8, "n1"))
    first, second = waits(records, END * SECOND)
    assert (first.created, first.bound, first.ended) == (0, SECOND, 5 * SECOND)
    assert (second.created, second.bound) == (6 * SECOND, 8 * SECOND)
    assert not second.waited


def test_plans_for_a_pod_that_runs_are_not_its_waiting() -> None:
    records = log(created(0), bound(1, "n1"), running(3, "n1"), batch(50, 51), nominated(52, "c9"))
    (wait,) = waits(records, END * SECOND)
    assert {part: value // SECOND for part, value in wait.parts.items() if value} == {
        "scheduling": 1,
        "start": 2,
    }
    assert (wait.waited, wait.attempts) == (False, 0)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_advice(part: str) -> None:
    parts = dict.fromkeys(PARTS, SECOND) | {part: 9 * SECOND}
    wait = Wait("shop/a", "", 0, 16 * SECOND, 1, parts, waited=True, message="0/2 nodes")
    assert explain(wait).startswith(f"9.0 s of 16.0 s went to {part}")
    assert ("0/2 nodes" in explain(wait)) == (part == "blocked")


def refused(t: float, reason: str) -> tuple[float, str, Record]:
    fields = {"object": "Pod/shop/a", "reason": "FailedScheduling"}
    return (t, "event", {**fields, "message": f"Failed to schedule pod, {reason}"})


@pytest.mark.parametrize(
    ("reason", "cure"),
    [
        ("no nodepools found", "create a NodePool"),
        ("no nodepools found (default: NodeClass not found on cluster)", "create the node class"),
        ("no nodepools found (default: Node Class Readiness Unknown)", "get the NodePool ready"),
        ("no nodepools found (default: AMISelector did not match any AMIs)", "no image is found"),
        ("not enough is left of the quota of on-demand vCPUs (standard types)", "ask AWS for a larger quota"),
        ("not enough is left of addresses in z-a (subnet-1)", "select further subnets"),
        ("all available instance types exceed limits for nodepool (NodePool=default)", "raise spec.limits"),
        ("node limits have been exhausted for nodepool (NodePool=default)", "raise spec.limits"),
        ("did not tolerate taint (taint=team=a:NoSchedule)", "give the pod a toleration"),
        (
            'incompatible requirements, label "team" does not have known values',
            "no NodePool defines the label team",
        ),
        (
            "incompatible requirements, key kubernetes.io/arch, kubernetes.io/arch In [arm64] not in "
            "kubernetes.io/arch In [amd64]",
            "no NodePool allows the kubernetes.io/arch",
        ),
        # The pool that is meant for the pod decides: that another one has other labels is no mistake.
        (
            "incompatible requirements, key karpenter.sh/nodepool, karpenter.sh/nodepool In [a] not in "
            "karpenter.sh/nodepool In [b]; all available instance types exceed limits for nodepool "
            "(NodePool=a)",
            "raise spec.limits",
        ),
        (
            "no instance type has enough resources, requirements=zone In [z-a], resources={}",
            "allow larger instance types",
        ),
        ("something that is new", "what is in brackets"),
    ],
)
def test_what_keeps_a_pod_from_every_pool_has_its_own_cure(reason: str, cure: str) -> None:
    (wait,) = waits(log(created(0), unschedulable(0), batch(0, 1), refused(1, reason)), END * SECOND)
    advice = explain(wait)
    assert f"went to blocked ({reason}): no pool could take it, round after round; {cure}" in advice
    assert advice.count("; or ") == 0


@pytest.mark.parametrize(
    ("failed", "advice"),
    [
        (
            [
                (
                    9,
                    "instance.launchFailed",
                    {"claim": "c1", "reason": "InsufficientCapacity", "message": "none"},
                )
            ],
            "capacity was",
        ),
        (
            [
                (
                    9,
                    "instance.launchFailed",
                    {"claim": "c1", "reason": "CreateFailed", "message": "VcpuLimitExceeded: 8"},
                )
            ],
            "ask AWS for a larger quota",
        ),
        (
            [started(3, "c1"), (900, "claim.deleted", {"claim": "c1"})],
            "instances started and never became nodes",
        ),
    ],
)
def test_launches_that_came_to_nothing_say_why(failed: list[tuple[float, str, Record]], advice: str) -> None:
    begun = [created(0), unschedulable(0), batch(0, 1), nominated(2, "c1"), *failed]
    (wait,) = waits(log(*begun), END * SECOND)
    assert wait.largest == "retries"
    assert advice in explain(wait)


instants = st.integers(min_value=0, max_value=10**12)


@given(
    created_at=instants,
    length=instants,
    cuts=st.lists(st.one_of(st.none(), instants), min_size=len(PARTS), max_size=len(PARTS)),
)
def test_parts_sum_to_the_whole(created_at: int, length: int, cuts: list[int | None]) -> None:
    parts = split(created_at, created_at + length, zip(PARTS, cuts, strict=True))
    assert tuple(parts) == PARTS
    assert sum(parts.values()) == length
    assert all(value >= 0 for value in parts.values())


KINDS = st.sampled_from(
    [
        created(0),
        unschedulable(0),
        batch(0, 0),
        nominated(0, "c1"),
        nominated(0, "c2"),
        started(0, "c1"),
        node(0, "n1", "c1"),
        ready(0, "n1"),
        bound(0, "n1"),
        running(0, "n1"),
        deleted(0),
    ]
)


@given(st.lists(st.tuples(st.integers(min_value=0, max_value=900), KINDS), max_size=30))
def test_any_log_in_order_of_time_can_be_read(steps: list[tuple[int, tuple[float, str, Record]]]) -> None:
    records = log(*((t, kind, dict(fields)) for t, (_, kind, fields) in sorted(steps, key=lambda s: s[0])))
    for wait in waits(records, END * SECOND):
        assert sum(wait.parts.values()) == wait.total >= 0


def hpa(t: float, *, limited: bool, waiting: int, name: str = "shop/web") -> tuple[float, str, Record]:
    fields = {"name": name, "current": 5, "desired": 5, "max": 5, "limited": limited, "waiting": waiting}
    return (t, "hpa", fields)


@pytest.mark.parametrize(
    ("why", "records", "expected"),
    [
        ("never", log(hpa(0, limited=False, waiting=3)), {}),
        (
            "nothing waits",
            log(hpa(10, limited=True, waiting=0), hpa(40, limited=False, waiting=0)),
            {"shop/web": (Spell(10, 40, False),)},
        ),
        (
            "first nodes, then nothing",
            log(
                hpa(10, limited=True, waiting=2),
                hpa(25, limited=True, waiting=1),
                hpa(40, limited=True, waiting=0),
                hpa(70, limited=False, waiting=0),
            ),
            {"shop/web": (Spell(10, 40, True), Spell(40, 70, False))},
        ),
        ("to the end", log(hpa(10, limited=True, waiting=0)), {"shop/web": (Spell(10, 100, False),)}),
        (
            "each for itself",
            log(
                hpa(10, limited=True, waiting=0),
                hpa(20, limited=True, waiting=1, name="shop/api"),
                hpa(30, limited=False, waiting=0),
            ),
            {"shop/api": (Spell(20, 100, True),), "shop/web": (Spell(10, 30, False),)},
        ),
    ],
)
def test_at_maximum(why: str, records: list[Record], expected: dict[str, tuple[Spell, ...]]) -> None:
    found = {
        name: tuple(Spell(spell.start // SECOND, spell.end // SECOND, spell.waiting) for spell in spells)
        for name, spells in at_maximum(records, 100 * SECOND).items()
    }
    assert found == expected, why
