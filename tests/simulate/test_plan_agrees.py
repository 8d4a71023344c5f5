"""`dovetail plan` and the simulated controllers buy the same for the same manifests."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.cli.main import run
from dovetail.model.offering import NANO_DOLLARS
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load

EXAMPLES = Path(__file__).parents[2] / "examples"
# Those whose first minute holds nothing that is in no manifest: node groups, traffic, changes.
_BARE = ("consolidation", "post-001", "post-002", "post-003", "post-004", "repack", "rotation")


def _planned(folder: Path, region: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["plan", "-f", str(folder), "--region", region, "--work", "1000000", "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def _first_minute(folder: Path) -> str:
    """Of the scenario; its region."""
    file = folder / "scenario.yaml"
    text = file.read_text()
    file.write_text(re.sub(r"(?m)^duration:.*\n", "", text) + "\nduration: 1m\n")
    region: str = yaml.safe_load(text)["region"]
    return region


@pytest.mark.long
@pytest.mark.parametrize("name", _BARE)
def test_both_buy_the_same(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(EXAMPLES / name, tmp_path / name)
    plan = _planned(folder, _first_minute(folder), capsys)
    result = simulate(load(folder))
    started = [one for one in result.records if one["kind"] == "instance.started" and "claim" in one]
    assert len(started) == len(plan["nodeClaims"]) > 0
    assert sorted(one["capacityType"] for one in started) == sorted(
        one["capacityType"] for one in plan["nodeClaims"]
    )
    paid = sum(one["price"] for one in started) / NANO_DOLLARS
    spot = any(one["capacityType"] == "spot" for one in started)
    # A market is one of many: what is likely is a mean.
    assert paid == pytest.approx(plan["cost"]["likely"], rel=0.3 if spot else 0.001)
    assert paid <= plan["cost"]["worst"]
