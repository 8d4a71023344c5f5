"""The figures of a run, from a small log with known answers."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from dovetail.base.clock import HOUR, SECOND
from dovetail.simulate.analysis.summary import Run, quantiles, summarize, to_json
from dovetail.simulate.analysis.summary_table import summary_table

DOLLAR = 1_000_000_000
RUN = Run("small", 7, 0, HOUR, "f" * 64, 1.234, ("prices of spot instances are estimates",))


def started(t: int, instance: str, claim: str, price: float, capacity: str = "spot") -> dict[str, Any]:
    return {
        "t": t * SECOND,
        "kind": "instance.started",
        "instance": instance,
        "claim": claim,
        "price": round(price * DOLLAR),
        "capacityType": capacity,
        "volumes": round(price * DOLLAR / 4),
        "estimated": capacity == "spot",
    }


def record(t: int, kind: str, **fields: object) -> dict[str, Any]:
    return {"t": t * SECOND, "kind": kind, **fields}


LOG = [
    started(0, "i-base", "", 0.4, "on-demand"),
    record(0, "node.created", node="base", claim=""),
    record(0, "pod.created", pod="shop/a", owner="ReplicaSet/web"),
    record(1, "pod.bound", pod="shop/a", node="base"),
    record(2, "pod.running", pod="shop/a", node="base"),
    record(600, "pod.created", pod="shop/b", owner="ReplicaSet/web"),
    record(600, "pod.unschedulable", pod="shop/b", message="0/1 nodes are available"),
    record(601, "batch", opened=600 * SECOND, closed=601 * SECOND, pods=["shop/b"]),
    record(602, "nominated", pod="shop/b", claim="c1", node=""),
    record(603, "instance.launchFailed", claim="c1", reason="InsufficientCapacity", message="none"),
    record(605, "nominated", pod="shop/b", claim="c2", node=""),
    started(610, "i-1", "c2", 0.12),
    started(620, "i-2", "c3", 0.36, "on-demand"),
    record(640, "node.created", node="n1", claim="c2"),
    record(650, "node.ready", node="n1"),
    record(651, "pod.bound", pod="shop/b", node="n1"),
    record(655, "pod.running", pod="shop/b", node="n1"),
    record(700, "pod.created", pod="shop/c", owner=""),
    record(710, "pod.deleted", pod="shop/c", node=""),
    record(890, "disrupted", node="n1", claim="c2", pool="a", reason="expired", pods=1),
    record(900, "node.deleted", node="n1"),
    record(910, "instance.terminated", instance="i-1"),
    record(1000, "pod.created", pod="shop/d", owner="", placeholder=True),
    record(1000, "hpa", name="shop/web", max=5, limited=True, waiting=0),
    record(1060, "hpa", name="shop/web", max=5, limited=False, waiting=0),
    record(1000, "traffic", service="web", load=100.0, over=30.0, seconds=15),
    record(1015, "traffic", service="web", load=50.0, over=0.0, seconds=15),
    record(1100, "violation", rule="resources", subject="shop/a", message="too big"),
]


def test_figures() -> None:
    found = to_json(summarize(LOG, RUN))
    assert found["pods"] == {
        "created": 4,
        "bound": 2,
        "unbound": 1,
        "unboundPlaceholders": 1,
        "preempted": {},
        "pendingSeconds": {"p50": 1.0, "p90": 51.0, "p99": 51.0, "max": 51.0},
    }
    nodes = {"launched": 2, "terminated": 1, "peak": 2, "base": 1, "initial": 0, "launchFailures": 1}
    assert found["nodes"] == {**nodes, "expired": 1, "expiredDaily": 24.0}
    assert found["cost"] == {
        "total": pytest.approx(0.4 + 0.01 + 0.36 * 2980 / 3600, abs=1e-4),
        "paid": pytest.approx(0.4 + 0.01 + 0.36 * 2980 / 3600, abs=1e-4),  # nothing was agreed on
        "unused": 0.0,
        "peakHourly": pytest.approx(0.88),
        "base": pytest.approx(0.4),
        "onDemand": pytest.approx(0.298),
        "spot": pytest.approx(0.01),
        "volumes": pytest.approx((0.4 + 0.01 + 0.298) / 4),
        "estimated": pytest.approx(0.0075),
    }
    assert found["hpaAtMaximum"]["shop/web"] == {
        "maximum": 5,
        "nothingPendingSeconds": 60.0,
        "waitingForNodesSeconds": 0.0,
        "spells": [{"start": 1000, "end": 1060, "waitingForNodes": False}],
    }
    assert found["traffic"] == {"web": {"requests": 2250, "overCapacity": 30, "overloadedSeconds": 15}}
    assert found["violations"] == [{"rule": "resources", "subject": "shop/a", "message": "too big"}]
    assert (found["eventLogSha256"], found["seed"], found["scenario"]) == ("f" * 64, 7, "small")
    assert (found["wallSeconds"], found["simulatedSeconds"]) == (1.23, 3600.0)
    assert found["assumptions"] == ["prices of spot instances are estimates"]


def test_who_gave_way_is_counted_without_placeholders() -> None:
    pods = [("a", "DaemonSet/ne"), ("b", "DaemonSet/ne"), ("c", "StatefulSet/db"), ("d", "Deployment/spare")]
    events = [
        record(
            5, "event", reason="Preempted", object=f"Pod/shop/{pod}", message="Preempted by pod u on node n"
        )
        for pod, _ in pods
    ]
    made = [
        record(0, "pod.created", pod=f"shop/{pod}", owner=owner, placeholder=pod == "d")
        for pod, owner in pods
    ]
    summary = summarize([*made, *events], RUN)
    assert summary.pods.preempted == {"DaemonSet/ne": 2, "StatefulSet/db": 1}
    shown = text(summary_table(summary))
    assert "3 pods gave way to a higher priority: 2 of DaemonSet/ne, 1 of StatefulSet/db" in shown


def test_waiting_figures() -> None:
    waiting = summarize(LOG, RUN).waiting
    assert waiting.pods == 1
    (pod,) = waiting.all
    assert pod.parts == {
        "batching": 1.0,
        "blocked": 0.0,
        "solve": 1.0,
        "retries": 3.0,
        "replanned": 0.0,
        "launch": 5.0,
        "join": 40.0,
        "scheduling": 1.0,
        "start": 4.0,
    }
    assert (pod.total_seconds, pod.pending_seconds, pod.attempts, pod.node) == (55.0, 51.0, 2, "n1")
    assert waiting.mean == pod.parts
    assert [(owner.owner, owner.pods, owner.max_seconds) for owner in waiting.by_owner] == [
        ("ReplicaSet/web", 1, 55.0)
    ]


def test_an_empty_run() -> None:
    summary = summarize([], RUN)
    assert (summary.pods.created, summary.cost.total, summary.waiting.pods) == (0, 0.0, 0)
    shown = text(summary_table(summary))
    assert "0 created" in shown
    assert "Pending" not in shown  # no pod has waited "at most 0.0 s" where none was bound


def text(renderable: object) -> str:
    console = Console(width=160, color_system=None)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_the_table_shows_it_all() -> None:
    shown = text(summary_table(summarize(LOG, RUN)))
    for expected in (
        "4 created, 2 bound, 1 still without a node (1 of a priority below 0)",
        "2 launched, 1 terminated, at most 2 at once (1 of them always there); failed launches: 1",
        "1 ended by expireAfter: at that rate 24 launches a day",
        "$0.18 of it for volumes, $0.0075 of it rests on estimated prices",
        "1 broken",
        "shop/b",
        "batching 1.0 s, solve 1.0 s, retries 3.0 s, launch 5.0 s, join 40.0 s",
        "no node autoscaler can help, raise maxReplicas",
        "1.33 %",
        "prices of spot instances are estimates",
        "1 h 00 min simulated in 1.2 s; seed 7",
    ):
        assert expected in shown


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], (0, 0, 0, 0)),
        ([5], (5, 5, 5, 5)),
        (list(range(1, 101)), (50, 90, 99, 100)),
        ([1, 2], (1, 2, 2, 2)),
    ],
)
def test_quantiles(values: list[int], expected: tuple[float, ...]) -> None:
    found = quantiles(value * SECOND for value in values)
    assert (found.p50, found.p90, found.p99, found.max) == expected
