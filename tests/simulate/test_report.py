"""The HTML report: its data from a small log. What a browser makes of it: test_pages.py."""

from __future__ import annotations

from typing import Any

from dovetail.simulate.analysis.summary import Run, summarize
from dovetail.views.report.page import Period, render, report_data
from dovetail.views.report.series import chart_series
from dovetail.views.report.timeline import blocker_rows, event_rows, node_rows

SECOND = 1_000_000_000
START = 1_772_452_800 * SECOND  # 21:00 in Seoul
ROOMLESS = "</script> no room"
REQUESTS = {"cpu": 1000, "memory": 4_000}
END = START + 3600 * SECOND


def record(second: float, kind: str, **fields: Any) -> dict[str, Any]:
    return {"t": START + int(second * SECOND), "kind": kind, **fields}


LOG = [
    record(0, "instance.started", instance="i-0", claim="", instanceType="m5.large", zone="z-a",
           capacityType="on-demand", price=118_000_000, estimated=False),
    record(0, "node.created", node="base-0", claim="", pool="", instanceType="m5.large", zone="z-a",
           capacityType="on-demand", allocatable={"cpu": 2000, "memory": 8_000}),
    record(0, "node.ready", node="base-0"),
    record(10, "pod.created", pod="shop/web-1", owner="ReplicaSet/shop/web", requests=REQUESTS),
    record(11, "pod.unschedulable", pod="shop/web-1", message="0/1 nodes are available: 1 Insufficient cpu."),
    record(13, "batch", opened=START + 11 * SECOND, closed=START + 13 * SECOND, pods=["shop/web-1"]),
    record(13.5, "nominated", pod="shop/web-1", claim="pool-abcde", node=""),
    record(13.5, "claim.created", claim="pool-abcde", pool="pool", requests={}, instanceTypes=1),
    record(15, "instance.started", instance="i-1", claim="pool-abcde", instanceType="m5.2xlarge", zone="z-c",
           capacityType="spot", price=190_000_000, estimated=True),
    record(45, "node.created", node="ip-1", claim="pool-abcde", pool="pool", instanceType="m5.2xlarge",
           zone="z-c", capacityType="spot", allocatable={"cpu": 8000, "memory": 30_000}),
    record(55, "node.ready", node="ip-1"),
    record(56, "pod.bound", pod="shop/web-1", node="ip-1"),
    record(60, "pod.running", pod="shop/web-1", node="ip-1"),
    record(60, "event", type="Warning", reason="FailedScheduling", object="Pod/shop/web-1", message=ROOMLESS),
    record(61, "event", type="Warning", reason="FailedScheduling", object="Pod/shop/web-2", message=ROOMLESS),
    record(62, "event", type="Normal", reason="Unconsolidatable", object="Node/ip-1", message="Not now"),
    record(1800, "pod.deleted", pod="shop/web-1", node="ip-1"),
    record(1900, "claim.condition", claim="pool-abcde", type="Drained", status="Unknown", reason="Draining"),
    record(1930, "node.deleted", node="ip-1"),
    record(1950, "instance.terminated", instance="i-1"),
    record(1951, "claim.deleted", claim="pool-abcde"),
]  # fmt: skip


def page() -> str:
    run = Run("evening", 7, START, END, "ab" * 32, 1.0, ("spot prices are estimates",))
    return render("Evening rush", Period(START, END, "Asia/Seoul", 9 * 3600, "r-1"), LOG, summarize(LOG, run))


def test_what_kept_nodes_is_counted_by_node() -> None:
    def event(second: float, reason: str, subject: str, message: str) -> dict[str, Any]:
        return record(second, "event", type="Normal", reason=reason, object=subject, message=message)

    held = 'Pod has "karpenter.sh/do-not-disrupt" annotation'
    log = [
        event(1, "DisruptionBlocked", "Node/a", f"{held} (Pod=shop/x)"),
        event(1, "DisruptionBlocked", "NodeClaim/a", f"{held} (Pod=shop/x)"),
        event(2, "Unconsolidatable", "Node/c", "Can't replace with a cheaper node"),
        event(3, "DisruptionBlocked", "Node/b", f"{held} (Pod=shop/y)"),
        event(130, "DisruptionBlocked", "Node/a", f"{held} (Pod=shop/x)"),
        event(131, "Nominated", "Node/a", "nothing of this"),
    ]
    begin = START // SECOND
    assert blocker_rows(log) == [
        {
            "text": held,
            "example": f"{held} (Pod=shop/x)",
            "first": begin + 1,
            "last": begin + 130,
            "objects": 2,
        },
        {
            "text": "Can't replace with a cheaper node",
            "example": "Can't replace with a cheaper node",
            "first": begin + 2,
            "last": begin + 2,
            "objects": 1,
        },
    ]


def test_series_follow_the_log() -> None:
    series = chart_series(LOG, START, END)
    lines, instants = series["lines"], series["t"]
    assert len(instants) == 601  # the start, and the ends of 600 intervals
    assert (instants[0], lines["nodes.base"][0], lines["cost"][0]) == (START // SECOND, 1, 0.118)
    assert all(len(line) == len(instants) for line in lines.values())
    at = {second: instants.index((START // SECOND) + second) for second in (30, 60, 3600)}
    assert [lines["pods.pending"][at[second]] for second in (30, 60, 3600)] == [1, 1, 0]
    assert [lines["pods.running"][at[second]] for second in (30, 60, 3600)] == [0, 0, 0]
    later = instants.index(
        START // SECOND + 66
    )  # the pod got its node at 56 s, and was counted once until then
    assert (lines["pods.pending"][later], lines["pods.running"][later]) == (0, 1)
    assert [lines["cost"][at[second]] for second in (30, 3600)] == [0.308, 0.118]
    assert lines["nodes.spot"][at[60]] == 1
    assert lines["use.cpu"][at[60]] == 10.0


def test_pods_without_a_node_are_no_wait_of_nothing() -> None:
    """A run that ends while all pods wait: "longest time to a node: 0 s" is what it said."""
    early = START + 30 * SECOND
    summary = summarize(LOG[:9], Run("early", 7, START, early, "ab" * 32, 1.0))
    data = report_data("x", Period(START, early, "Asia/Seoul", 9 * 3600, "r-1"), LOG[:9], summary)
    assert data["verdict"] == "1 of 1 pod had to wait for a place; 1 still had none at the end."
    tiles = {tile["label"]: (tile["value"], tile["bad"]) for tile in data["tiles"]}
    assert tiles["longest time to a node of pods that got one"] == ("–", False)
    assert tiles["pods without a node at the end"] == ("1", True)
    assert tiles["spent in all, part estimated"] == ("$0.0018", False)  # 30 s of $0.118 and 15 of $0.19

    nothing = summarize([], Run("nothing", 7, START, END, "ab" * 32, 1.0))
    data = report_data("x", Period(START, END, "Asia/Seoul", 9 * 3600, "r-1"), [], nothing)
    assert data["verdict"] == "There was no pod."
    assert {"value": "0", "label": "nodes at the peak", "bad": False} in data["tiles"]


def test_timeline_has_every_stage_of_a_node() -> None:
    base, bought = node_rows(LOG, END)
    assert (base["kind"], base["gone"]) == ("base", END / SECOND)
    stages = [bought[name] - START / SECOND for name in ("launched", "joined", "ready", "leaving", "gone")]
    assert stages == [15, 45, 55, 1900, 1951]
    assert bought["name"] == "ip-1"


def test_equal_events_are_counted_together() -> None:
    row, _ = event_rows(LOG)
    assert (row["count"], row["object"], row["also"]) == (2, "Pod/shop/web-1", ["Pod/shop/web-2"])


def test_no_text_of_the_log_can_end_the_data_early() -> None:
    assert ROOMLESS not in page()


def test_nothing_is_said_of_usage_before_there_is_a_node() -> None:
    late = [item for item in LOG if item["t"] > START and item.get("node") != "base-0"]
    lines = chart_series(late, START, END)["lines"]
    assert lines["use.cpu"][0] is None
    assert lines["use.cpu"][12] == 12.5  # 1 of 8 cores
    assert set(lines["efficiency"]) == {None}  # no look was taken


def test_what_a_command_saves_is_shown_once() -> None:
    both = ["pool-a", "pool-b"]
    log = [
        record(10, "disruption", reason="Underutilized", claims=both, nodes=["a", "b"], savings=7 * 10**8,
               replacements=["pool-c"]),
        *(record(20 + number, "disrupted", claim=claim, node=claim[-1], pool="pool", reason="underutilized",
                 mode="graceful", pods=1) for number, claim in enumerate(both)),
    ]  # fmt: skip
    run = Run("evening", 7, START, END, "ab" * 32, 1.0)
    data = report_data("x", Period(START, END, "Asia/Seoul", 9 * 3600, "r-1"), log, summarize(log, run))
    assert [row["saved"] for row in data["disruption"]["rows"]] == [0.7, None]
