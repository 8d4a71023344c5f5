"""Karpenter's policy in charge of a simulated cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.base.clock import MINUTE
from dovetail.cli.main import run
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import load

EXAMPLES = Path(__file__).parents[2] / "examples"


def play(name: str, policy: str, minutes: int) -> Result:
    scenario = load(EXAMPLES / name).under(policy)  # type: ignore[arg-type]
    return simulate(scenario.until(minutes * MINUTE))


def test_pods_get_nodes_and_the_same_evening_plays_the_same_twice() -> None:
    first, second = play("burst", "karpenter", 3), play("burst", "karpenter", 3)
    assert first.sha256 == second.sha256
    assert first.summary.pods.bound == first.summary.pods.created > 0
    assert first.summary.nodes.launched > 0
    solves = [item for item in first.records if item["kind"] == "solve"]
    assert solves and all(item["lowerBound"] == 0 for item in solves)  # it proves nothing
    assert not [item for item in first.records if item["kind"] in ("violation", "checked", "efficiency")]


def test_one_node_is_replaced_where_it_is_dearer_than_its_pods() -> None:
    result = play("consolidation", "karpenter", 65)
    begun = [item for item in result.records if item["kind"] == "disruption.begun"]
    assert begun and begun[0]["decision"] == "replace"
    assert len(begun[0]["nodes"]) >= 1 == len(begun[0]["replacements"])


def test_what_only_dovetail_can_play(capsys: pytest.CaptureFixture[str]) -> None:
    faults = str(EXAMPLES / "faults" / "faults.yaml")
    given = ["--policy", "karpenter", "--faults", faults]
    assert run(["simulate", str(EXAMPLES / "burst"), *given]) == 2
    assert "only Dovetail can be played with faults" in capsys.readouterr().err
