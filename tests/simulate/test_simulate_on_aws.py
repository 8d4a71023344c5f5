"""Scenarios on the provider that buys in production, over an account in memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.base.clock import MINUTE
from dovetail.base.errors import InputError
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario import load

EXAMPLES = Path(__file__).parents[2] / "examples"


def on_aws(example: str, folder: Path) -> Path:
    """A copy of the example that says so."""
    shutil.copytree(EXAMPLES / example, folder / example)
    path = folder / example / "scenario.yaml"
    text = path.read_text()
    if "\nsettings:\n" not in text:
        text += "\nsettings:\n"
    path.write_text(text.replace("\nsettings:\n", "\nsettings:\n  provider: aws\n"))
    return folder / example


def test_an_evening_keeps_every_promise(tmp_path: Path) -> None:
    scenario = load(on_aws("evening-rush", tmp_path)).until(35 * MINUTE)
    result = simulate(scenario)
    kinds = [record["kind"] for record in result.records]
    assert kinds.count("instance.started") > 3 and "instance.terminated" not in kinds
    assert not [record for record in result.records if record["kind"] == "violation"]
    assert not [record for record in result.records if record["kind"] == "reconcile.failed"]
    assert not any(record.get("estimated") for record in result.records if record.get("claim"))


def test_the_same_log_in_every_process(tmp_path: Path) -> None:
    folder = on_aws("evening-rush", tmp_path)
    command = (sys.executable, "-m", "dovetail", "simulate", str(folder), "--until", "15m", "-o", "json")
    logs = set()
    for seed in ("1", "2"):
        events = tmp_path / f"{seed}.jsonl"
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run((*command, "--events", str(events)), env=environment, check=True, capture_output=True)
        logs.add(events.read_bytes())
    assert len(logs) == 1


def test_a_provider_that_nobody_knows(tmp_path: Path) -> None:
    folder = on_aws("evening-rush", tmp_path)
    path = folder / "scenario.yaml"
    path.write_text(path.read_text().replace("provider: aws", "provider: gcp"))
    with pytest.raises(InputError, match="gcp"):
        load(folder)
