"""The scenarios of the soak: what each is about really happens in it, and a seed of each is sound."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.base.clock import MINUTE
from dovetail.base.errors import InputError
from dovetail.simulate.faults.kinds import KINDS
from dovetail.simulate.faults.plan import load as load_faults
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import load
from dovetail.testing.soak import complaints, play

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/faults.yaml"))


def played(name: str, minutes: int) -> Result:
    return simulate(load(EXAMPLES / name).until(minutes * MINUTE))


def minutes_of(result: Result, kind: str) -> list[float]:
    """When records of a kind were written, in minutes since the start."""
    return [(one["t"] - result.start) / MINUTE for one in result.records if one["kind"] == kind]


def test_together_they_have_every_kind_of_fault() -> None:
    named = {fault.kind for path in FOLDERS for fault in load_faults(path / "faults.yaml", load(path)).faults}
    assert named == set(KINDS)


def test_no_node_is_bought_or_lost_while_the_class_is_not_ready() -> None:
    result = played("faults-pools", 16)
    assert result.summary.violations == []
    bought, ended = minutes_of(result, "claim.created"), minutes_of(result, "instance.terminated")
    assert not [at for at in (*bought, *ended) if 8.2 < at < 12]
    assert [at for at in bought if 12 <= at < 13]


def test_rollouts_replace_every_pod() -> None:
    result = played("faults-rollouts", 17)
    assert result.summary.violations == []
    created = [one["pod"] for one in result.records if one["kind"] == "pod.created" and "shop/" in one["pod"]]
    assert len(created) >= 2 * (16 + 8 + 4)


def test_a_soak_asks_for_as_many_nodes_as_the_file_says(tmp_path: Path) -> None:
    folder = EXAMPLES / "faults-disks"
    text = (folder / "faults.yaml").read_text(encoding="utf-8")
    path = tmp_path / "faults.yaml"
    path.write_text(text.replace("leastNodes: 9", "leastNodes: 900"), encoding="utf-8")
    scenario = load(folder).until(60 * MINUTE)
    result = played("faults-disks", 2)
    found = list(complaints(result, load_faults(path, scenario)))
    assert "900 are wanted" in " ".join(found)
    path.write_text(text.replace("leastNodes: 9", "leastNodes: -1"), encoding="utf-8")
    with pytest.raises(InputError, match="-1 is less than 0"):
        load_faults(path, scenario)


@pytest.mark.long
@pytest.mark.parametrize("name", ["faults-disks", "sick-nodes"])
def test_a_seed_is_sound(name: str) -> None:
    assert play(EXAMPLES / name, EXAMPLES / name / "faults.yaml", 1).complaints == ()
