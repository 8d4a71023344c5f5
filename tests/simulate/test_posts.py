"""Manifests of posts, most of them of older generations, play out as their authors saw it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli.main import run

EXAMPLES = Path(__file__).parents[2] / "examples"


def _played(name: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[dict[str, Any], str]:
    assert run(["simulate", str(EXAMPLES / name), "-o", "json", *more]) == 0
    captured = capsys.readouterr()
    summary: dict[str, Any] = json.loads(captured.out)
    return summary, captured.err


def test_twenty_pods_come_to_three_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    summary, notes = _played("post-002", capsys, "--until", "5m")
    assert (summary["nodes"]["launched"], summary["pods"]["bound"]) == (3, 20)
    assert "Provisioner express-test of karpenter.sh/v1alpha5 is taken for NodePool express-test" in notes


def test_instances_with_letters_for_cores_do_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    summary, _ = _played("post-002/as-written", capsys, "--until", "5m")
    assert summary["nodes"]["launched"] == 0


def test_an_empty_node_goes_and_the_team_gets_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    summary, _ = _played("post-004", capsys, "--until", "25m")
    assert (summary["nodes"]["launched"], summary["nodes"]["terminated"]) == (2, 1)
    assert summary["pods"]["bound"] == 10


def test_an_evening_is_spent_on_spot_nodes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    summary, _ = _played("post-000", capsys, "--until", "1h25m", "--events", str(events))
    assert summary["pods"]["bound"] == summary["pods"]["created"] > 60, "pods whose node was taken came back"
    assert summary["cost"]["onDemand"] == 0 < summary["cost"]["spot"]
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    assert any(line.get("reason") == "SpotInterrupted" for line in lines), "the notice came by the queue"


def test_nodes_that_expire_after_an_hour_are_launched_anew(capsys: pytest.CaptureFixture[str]) -> None:
    summary, _ = _played("post-000/as-written", capsys, "--until", "1h25m")
    assert summary["nodes"]["expired"] == 7


def test_no_node_goes_in_the_window_and_all_go_by_drift(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    summary, notes = _played("post-001", capsys, "--events", str(events))
    assert "EC2NodeClass default of karpenter.k8s.aws/v1beta1 is taken for" in notes
    assert (summary["nodes"]["launched"], summary["nodes"]["terminated"]) == (7, 6)
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    minutes = [
        (line["t"] // 60_000_000_000) % 60
        for line in lines
        if line["kind"] == "disruption" and not line["bought"]
    ]
    assert len(minutes) == 5
    assert all(minute == 59 or minute >= 10 for minute in minutes), "09:00 to 09:10 in Seoul is 00:00 in UTC"
    blocked = "No allowed disruptions for disruption reason Empty due to blocking budget"
    assert any(line.get("message") == blocked for line in lines)


def test_a_limit_holds_and_is_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    summary, _ = _played("post-003", capsys, "--until", "33m", "--events", str(events))
    assert summary["pods"]["created"] == 40 > summary["pods"]["bound"]
    assert "all available instance types exceed limits for nodepool (NodePool=web)" in events.read_text()
