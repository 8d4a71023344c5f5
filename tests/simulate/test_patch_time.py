"""A scenario may say how long writes to the API server take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.realised.workloads import workload
from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load

SMALL = "zones-13"


def opened_after(folder: Path, patches: str) -> float:
    """Seconds from when the last node of a burst was Ready until nodes opened, in all."""
    written = workload(SMALL).write(folder, minutes=4, patches=patches)
    records = simulate(load(written)).records
    ready = max(one["t"] for one in records if one["kind"] == "node.ready")
    opened = max(one["t"] for one in records if one["kind"] == "nodes.opened")
    assert sum(one["kind"] == "pod.bound" for one in records) >= workload(SMALL).pods
    return (opened - ready) / SECOND


def test_pods_are_nominated_and_nodes_opened_later_the_longer_writes_take(tmp_path: Path) -> None:
    times = [opened_after(tmp_path / (time or "none"), time) for time in ("", "50ms", "200ms")]
    assert times == sorted(times)
    assert times[2] - times[0] > 0.1


@pytest.mark.parametrize("value", ["quick", "-1s"])
def test_what_is_no_length_of_time_is_refused(tmp_path: Path, value: str) -> None:
    file = workload(SMALL).write(tmp_path, minutes=4) / "scenario.yaml"
    document: dict[str, Any] = json.loads(file.read_text())
    document["settings"]["patchTime"] = value
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"settings\.patchTime|scenario\.yaml"):
        load(tmp_path)
