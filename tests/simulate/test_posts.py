"""Manifests of posts, written for v1alpha5, play out as their authors saw it."""

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
    summary, told = _played("post-002", capsys, "--until", "5m")
    assert (summary["nodes"]["launched"], summary["pods"]["bound"]) == (3, 20)
    assert "Provisioner express-test of karpenter.sh/v1alpha5 is taken for NodePool express-test" in told


def test_instances_with_letters_for_cores_do_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    summary, _ = _played("post-002/as-written", capsys, "--until", "5m")
    assert summary["nodes"]["launched"] == 0


def test_an_empty_node_goes_and_the_team_gets_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    summary, _ = _played("post-004", capsys, "--until", "25m")
    assert (summary["nodes"]["launched"], summary["nodes"]["terminated"]) == (2, 1)
    assert summary["pods"]["bound"] == 10
