"""The HTML report: its data from a small log, and its figures as a real browser shows them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dovetail.simulate.analysis.summary import Run, summarize
from dovetail.views.report.page import Period, render
from dovetail.views.report.series import chart_series
from dovetail.views.report.timeline import blocker_rows, event_rows, node_rows

SECOND = 1_000_000_000
START = 1_772_452_800 * SECOND  # 21:00 in Seoul
ROOMLESS = "</script> no room"
REQUESTS = {"cpu": 1000, "memory": 4_000}
END = START + 3600 * SECOND
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


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
    def told(second: float, reason: str, subject: str, message: str) -> dict[str, Any]:
        return record(second, "event", type="Normal", reason=reason, object=subject, message=message)

    held = 'Pod has "karpenter.sh/do-not-disrupt" annotation'
    log = [
        told(1, "DisruptionBlocked", "Node/a", f"{held} (Pod=shop/x)"),
        told(1, "DisruptionBlocked", "NodeClaim/a", f"{held} (Pod=shop/x)"),
        told(2, "Unconsolidatable", "Node/c", "Can't replace with a cheaper node"),
        told(3, "DisruptionBlocked", "Node/b", f"{held} (Pod=shop/y)"),
        told(130, "DisruptionBlocked", "Node/a", f"{held} (Pod=shop/x)"),
        told(131, "Nominated", "Node/a", "nothing of this"),
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
    assert len(instants) == 600
    assert all(len(line) == len(instants) for line in lines.values())
    at = {second: instants.index((START // SECOND) + second) for second in (30, 60, 3600)}
    assert [lines["pods.pending"][at[second]] for second in (30, 60, 3600)] == [1, 1, 0]
    assert [lines["pods.running"][at[second]] for second in (30, 60, 3600)] == [0, 1, 0]
    assert [lines["cost"][at[second]] for second in (30, 3600)] == [0.308, 0.118]
    assert lines["nodes.spot"][at[60]] == 1
    assert lines["use.cpu"][at[60]] == 10.0


def test_timeline_has_every_stage_of_a_node() -> None:
    base, bought = node_rows(LOG, END)
    assert (base["kind"], base["gone"]) == ("managed", END / SECOND)
    stages = [bought[name] - START / SECOND for name in ("launched", "joined", "ready", "leaving", "gone")]
    assert stages == [15, 45, 55, 1900, 1951]
    assert bought["name"] == "ip-1"


def test_equal_events_are_counted_together() -> None:
    row, _ = event_rows(LOG)
    assert (row["count"], row["object"]) == (2, "Pod/shop/web-1")


def test_no_text_of_the_log_can_end_the_data_early() -> None:
    assert ROOMLESS not in page()


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine to look at the report with")
def test_a_browser_shows_its_figures(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(), encoding="utf-8")
    dom = subprocess.run(
        [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000", "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout  # fmt: skip
    assert 'data-rendered="true"' in dom
    assert "21:00:00 to 22:00:00 (Asia/Seoul), r-1, seed 7" in dom
    assert "<b>$0.22</b>" in dom  # 1 h of $0.118 and 1,935 s of $0.19
    assert dom.count("<canvas") == 4  # no traffic in this log, so no fifth chart
    assert "1 of 1" in dom  # events shown
    assert "spot prices are estimates" in dom
    assert "m5.2xlarge spot in z-c at about $0.1900/h (estimated)" in dom
