"""Two runs of one scenario side by side, and scenarios that only virtual time can play."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dovetail.base.clock import HOUR
from dovetail.base.errors import InputError
from dovetail.cli.main import run
from dovetail.simulate.analysis.summary import Run, summarize
from dovetail.simulate.live.compare import Row, compare, node_hours
from dovetail.simulate.live.play import check_scenario
from dovetail.simulate.run import Result
from dovetail.simulate.scenario.history import History
from dovetail.simulate.scenario.initial_nodes import Nodes
from dovetail.simulate.scenario.scenario import load

EXAMPLES = Path(__file__).parents[2] / "examples"


def result(*ends: int) -> Result:
    """A run of two hours with one instance for each of these, which ends then (hours; 0 for never)."""
    records = [
        {"t": 0, "kind": "instance.started", "instance": f"i-{i}", "price": 0} for i in range(len(ends))
    ]
    for i, end in enumerate(ends):
        if end:
            records.append({"t": end * HOUR, "kind": "instance.terminated", "instance": f"i-{i}"})
    scenario = load(EXAMPLES / "burst")
    summary = summarize([], Run("burst", 1, 0, 2 * HOUR, "", 0.0))
    return Result(scenario, records, 0, 2 * HOUR, "", 0.0, summary)


@pytest.mark.parametrize(
    ("simulated", "cluster", "difference", "close"),
    [
        (10.0, 11.0, 0.1, True),
        (10.0, 8.9, 0.11, False),
        (0.0, 0.0, 0.0, True),
        (0.0, 1.0, math.inf, False),
    ],
)
def test_differences(simulated: float, cluster: float, difference: float, close: bool) -> None:
    row = Row("figure", simulated, cluster)
    assert row.difference == pytest.approx(difference)
    assert row.close == close


def test_node_hours_count_to_the_end_of_an_instance_or_of_the_run() -> None:
    assert node_hours(result()) == 0
    assert node_hours(result(1, 0, 2)) == 5
    rows = {row.name: row for row in compare(result(1), result(0))}
    assert (rows["node-hours"].simulated, rows["node-hours"].cluster) == (1, 2)


@pytest.mark.parametrize(("name", "section"), [("evening-rush", "traffic")])
def test_what_only_virtual_time_can_play(name: str, section: str) -> None:
    scenario = load(EXAMPLES / name)
    with pytest.raises(InputError) as refused:
        check_scenario(scenario)
    assert refused.value.path == section


@pytest.mark.parametrize(("section", "given"), [("history", History(file="x")), ("nodes", Nodes(file="x"))])
def test_what_a_replay_adds_only_virtual_time_can_play(section: str, given: object) -> None:
    scenario = load(EXAMPLES / "burst")
    file = msgspec.structs.replace(scenario.file, **{section: given})
    with pytest.raises(InputError) as refused:
        check_scenario(replace(scenario, file=file))
    assert refused.value.path == section


@pytest.mark.parametrize("name", ["burst", "shrink", "zones"])
def test_what_both_can_play(name: str) -> None:
    check_scenario(load(EXAMPLES / name))


def test_faults_are_for_virtual_time_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faults = str(EXAMPLES / "faults" / "faults.yaml")
    given = ["--faults", faults, "--kubeconfig", str(tmp_path / "none")]
    assert run(["simulate", str(EXAMPLES / "burst"), *given]) == 2
    assert "faults can only be played in virtual time" in capsys.readouterr().err


def test_a_kubeconfig_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(EXAMPLES / "burst"), "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err
