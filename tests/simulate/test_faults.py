"""Faults: read strictly, drawn from the seed, survived by the controllers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.base.clock import MINUTE
from dovetail.base.errors import InputError
from dovetail.simulate.faults.kinds import HOSTILE_TENANT, KINDS, LAUNCH_CRASH, NODE_CONDITION
from dovetail.simulate.faults.plan import Faults
from dovetail.simulate.faults.plan import load as load_faults
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import Scenario
from dovetail.simulate.scenario.scenario import load as load_scenario

EXAMPLE = Path(__file__).parents[2] / "examples" / "faults"
HEAD = "apiVersion: simulation.dovetail.dev/v1alpha1\nkind: Faults\nfaults:\n"


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario(EXAMPLE)


def read(tmp_path: Path, scenario: Scenario, text: str) -> Faults:
    path = tmp_path / "faults.yaml"
    path.write_text(text, encoding="utf-8")
    return load_faults(path, scenario)


@pytest.mark.parametrize(
    ("section", "line", "said"),
    [
        ("- {kind: watchdrop, rate: 0.1}", 4, "did you mean 'watchDrop'?"),
        ("- {kind: meteor, rate: 0.1}", 4, "valid are apiConflict"),
        ("- kind: crash\n  rate: 0.1", 5, "a fault of kind crash has no such field; valid are kind, from"),
        ("- kind: apiError\n  times: 3", 5, "has no such field"),
        ("- {kind: awsTimeout, rate: 0.1}", 4, "say `provider: aws` under the scenario's `settings`"),
        ("- {kind: apiError}", 4, "needs to say how often it happens"),
        ("- kind: apiError\n  rate: 1.5", 5, "1.5 is not more than 0 and at most 1"),
        ("- kind: crash\n  times: 0", 5, "0 is less than 1"),
        ("- kind: hostileTenant\n  times: 1\n  count: 0", 6, "0 is less than 1"),
        ("- kind: crash\n  times: 1\n  count: 3", 6, "has no such field"),
        ("- {kind: crash, times: often}", 4, "expected whole number"),
        ("- {kind: crash, times: 1, colour: red}", 4, "unknown field 'colour'"),
        ("- kind: crash\n  times: 1\n  from: soon", 6, "soon"),
        ("- kind: crash\n  times: 1\n  from: 2h\n  until: 1h", 7, "must end after it begins"),
        ("- kind: crash\n  times: 1\n  until: 100h", 6, "at most 2h after the start"),
        ("- kind: zoneShortage\n  times: 1\n  zones: [mars-1a]", 6, "has no zone 'mars-1a'"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(
    tmp_path: Path, scenario: Scenario, section: str, line: int, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, scenario, HEAD + section)
    assert said in str(caught.value)
    assert caught.value.line == line


@pytest.mark.parametrize("text", ["", "- a", "kind: Scenario", HEAD + "[]"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, scenario: Scenario, text: str) -> None:
    with pytest.raises(InputError):
        read(tmp_path, scenario, text)


def test_the_example_has_every_kind_but_those_of_other_examples(scenario: Scenario) -> None:
    named = {fault.kind for fault in load_faults(EXAMPLE / "faults.yaml", scenario).faults}
    others = {LAUNCH_CRASH, HOSTILE_TENANT, NODE_CONDITION}
    assert named == {kind.name for kind in KINDS.values() if not kind.aws} - others


def test_instants_follow_from_the_seed_alone(tmp_path: Path, scenario: Scenario) -> None:
    faults = read(tmp_path, scenario, HEAD + "- {kind: crash, times: 5, from: 10m, until: 20m}")
    crash = faults.faults[0]
    assert crash.instants(1) == crash.instants(1) != crash.instants(2)
    assert all(crash.since <= instant < crash.until for instant in crash.instants(1))
    assert faults.over == crash.until + crash.lasts


@pytest.fixture(scope="module")
def hour(scenario: Scenario) -> Result:
    return played(scenario)


def played(scenario: Scenario) -> Result:
    short = scenario.until(45 * MINUTE)
    return simulate(short, faults=_early(load_faults(EXAMPLE / "faults.yaml", scenario), short))


def _early(faults: Faults, scenario: Scenario) -> Faults:
    return Faults(
        faults.source, tuple(one for one in faults.faults if one.since < scenario.start + scenario.duration)
    )


@pytest.mark.long
def test_all_goes_wrong_and_no_promise_is_broken(hour: Result) -> None:
    assert hour.summary.violations == []
    assert hour.summary.invariants_checked > 5_000
    assert set(hour.summary.faults) >= {"apiError", "apiTimeout", "watchDrop", "crash", "staleRead"}


@pytest.mark.long
def test_a_seed_replays_its_faults_exactly(scenario: Scenario, hour: Result) -> None:
    assert played(scenario).sha256 == hour.sha256
