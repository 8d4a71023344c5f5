"""Which provider a scenario plays: the one that buys in production, unless it asks for the plainer cloud."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from dovetail.base.clock import MINUTE
from dovetail.base.errors import InputError
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load

RUSH = Path(__file__).parents[2] / "examples" / "evening-rush"


def played_by(provider: str, folder: Path) -> Path:
    """A copy of the evening that names the provider."""
    copied = shutil.copytree(RUSH, folder / "rush")
    with (copied / "scenario.yaml").open("a") as file:
        file.write(f"\nsettings: {{ provider: {provider} }}\n")
    return copied


@pytest.mark.parametrize("provider", ["", "simulated"])
def test_the_beginning_of_an_evening(provider: str, tmp_path: Path) -> None:
    scenario = load(played_by(provider, tmp_path) if provider else RUSH).until(35 * MINUTE)
    result = simulate(scenario)
    kinds = Counter(record["kind"] for record in result.records)
    assert kinds["instance.started"] > 3 and not kinds["instance.terminated"]
    assert not kinds["violation"] and not kinds["reconcile.failed"]
    bought = [record for record in result.records if record["kind"] == "instance.started" and record["claim"]]
    assert bought and all(record["estimated"] == (record["capacityType"] == "spot") for record in bought)


def test_an_unknown_provider(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gcp"):
        load(played_by("gcp", tmp_path))
