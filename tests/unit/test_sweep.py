"""A scenario with many settings: what is tried, what is kept, and which are best."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from dovetail.base.errors import InputError, InputErrors
from dovetail.cli.main import run
from dovetail.simulate.experiment.dataset import Dataset, Row, dominates, summed_up
from dovetail.simulate.experiment.measures import MEASURES
from dovetail.simulate.experiment.space import Axis, points
from dovetail.simulate.scenario.changed import Change
from dovetail.simulate.scenario.scenario import ScenarioFolder, load

SCENARIO = """\
    {apiVersion: simulation.dovetail.dev/v1alpha1, kind: Scenario, name: small, region: us-east-1,
     duration: 1m, settings: {provider: simulated}}
"""
POOL = Path(__file__).parents[2] / "examples" / "burst" / "01-node-pool.yaml"
POD = """\
apiVersion: v1
kind: Pod
metadata: { name: a, namespace: default }
spec: { containers: [{ name: c, image: c, resources: { requests: { cpu: 500m } } }] }
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "scenario.yaml").write_text(SCENARIO)
    (folder / "pool.yaml").write_text(POOL.read_text())
    (folder / "pod.yaml").write_text(POD)
    return folder


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("a.b=1,2", Axis("a.b", ("1", "2"))),
        ("policy=dovetail,karpenter", Axis("settings.policy", ("dovetail", "karpenter"))),
        ('a=["2%,$0.005", 3]', Axis("a", ("2%,$0.005", "3"))),
        ('a=["on", on]', Axis("a", ("'on'", "true"))),  # text stays text
        ("a=1..9", Axis("a", (), 1.0, 9.0, True)),
        ("a=0.5..2", Axis("a", (), 0.5, 2.0)),
    ],
)
def test_axes(text: str, axis: Axis) -> None:
    assert Axis.parse(text) == axis


@pytest.mark.parametrize("text", ["a", "=1", "a=", "a=1,1", "a=1,,2", "a=9..1", "a=["])
def test_what_varies_nothing(text: str) -> None:
    with pytest.raises(InputError):
        Axis.parse(text)


def test_a_grid_has_every_combination() -> None:
    found = list(points([Axis("a", ("1", "2")), Axis("b", ("x", "y", "z"))], None, 1))
    assert len(set(found)) == 6 and found[0] == (("a", "1"), ("b", "x"))
    with pytest.raises(InputError, match="is a range"):
        list(points([Axis("a", (), 1.0, 2.0)], None, 1))


def test_samples_fill_every_axis_evenly_and_the_same_every_time() -> None:
    axes = [Axis("a", (), 0.0, 10.0), Axis("b", (), 1.0, 5.0, whole=True), Axis("c", ("x", "y"))]
    found = list(points(axes, 20, 7))
    assert found == list(points(axes, 20, 7)) != list(points(axes, 20, 8))
    assert sorted(int(float(dict(point)["a"]) * 2) for point in found) == list(range(20))
    assert [sum(dict(point)["b"] == str(n) for point in found) for n in range(1, 6)] == [4] * 5
    assert sum(dict(point)["c"] == "x" for point in found) == 10


def test_several_errors_go_from_process_to_process() -> None:
    found = InputErrors.of((InputError("a", source="x", line=3), InputError("b", path="spec.c")))
    assert str(pickle.loads(pickle.dumps(found))) == str(found) == "x:3: a\nspec.c: b"


def row(cost: float, wait: float, seed: int = 1, name: str = "") -> Row:
    figures = {one.key: 0.0 for one in MEASURES} | {"costPerDay": cost, "waitP99": wait}
    return Row("f", (("a", name or f"{cost}/{wait}"),), seed, 60, figures, "hash", 1.5)


def test_the_best_are_beaten_by_none_in_all_that_counts() -> None:
    rows = [row(1, 9), row(2, 5), row(2.2, 4.98), row(2, 6), row(3, 5), row(9, 1), row(1, 9, name="twin")]
    found = summed_up(rows, ("costPerDay", "waitP99"))
    assert {point.settings[0][1] for point in found if point.best} == {"1/9", "2/5", "9/1", "twin"}
    assert [point.settings[0][1] for point in summed_up(rows, ("costPerDay",)) if point.best] == [
        "1/9",
        "twin",
    ]
    assert dominates((1, 2), (1, 3)) and not dominates((1, 2), (1, 2)) and not dominates((1, 4), (2, 3))
    (mean,) = summed_up([row(1, 2, 1, "x"), row(3, 6, 2, "x")], ("costPerDay",))
    assert (mean.seeds, mean.means["waitP99"]) == (2, 4.0)


def test_rows_come_back_as_they_were_and_none_twice(tmp_path: Path) -> None:
    kept = Dataset(tmp_path / "runs")
    rows = [row(float(number), 1.0) for number in range(20)]
    for one in (*rows, rows[-1]):
        kept.add(one)
    assert len(Dataset(tmp_path / "runs").rows()) == 16  # a file is written whole, and the rest waits
    kept.flush()
    (tmp_path / "runs" / "runs-x.part").write_bytes(b"a process that was killed")
    found = Dataset(tmp_path / "runs").rows()
    assert found == {one.key: one for one in rows}
    assert found[rows[3].key].figures == rows[3].figures
    (tmp_path / "runs" / "other.parquet").write_bytes(b"nothing")
    with pytest.raises(InputError, match="is no part of a sweep"):
        Dataset(tmp_path / "runs").rows()


def test_a_sweep_goes_on_where_it_was(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "runs"
    given = [
        "sweep",
        str(small),
        "--dataset",
        str(kept),
        "--measures",
        "costPerDay",
        "--jobs",
        "1",
        "-o",
        "json",
    ]
    vary = ["--vary", "Pod/a.spec.containers[0].resources.requests.cpu=500m,9", "--seeds"]
    assert run([*given, *vary, "1"]) == 0
    first = capsys.readouterr()
    assert "2 runs, 0 of them known, 2 to play" in first.err and "about" in first.err
    report = tmp_path / "best.html"
    assert run([*given, *vary, "1-2", "--report", str(report)]) == 0
    second = capsys.readouterr()
    assert "4 runs, 2 of them known, 2 to play" in second.err
    found = json.loads(second.out)["combinations"]
    assert [item["seeds"] for item in found] == [2, 2]
    small_one, large = found
    assert small_one["best"] and not large["best"]
    assert large["mean"]["costPerDay"] > 3 * small_one["mean"]["costPerDay"]
    assert "requests.cpu" in report.read_text("utf-8")
    (small / "pod.yaml").write_text(POD.replace("name: a,", "name: a, labels: { new: 'yes' },"))
    assert run([*given, *vary, "1"]) == 0
    assert "2 runs, 0 of them known" in capsys.readouterr().err  # another scenario
    assert run([*given[:-2], "--vary", "settings.nodeSurcharge=0,0.0001", "--seeds", "1"]) == 0
    assert "All 2 combinations come to the same" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--vary", "settings.podMoves=1,2"], "unknown field 'podMoves'"),
        (["--vary", "settings.podMovesPerDay=1..5"], "--samples"),
        (["--vary", "settings.podMovesPerDay=1..5", "--samples", "0"], "not at least 1"),
        (["--vary", "settings.podMovesPerDay=1,2", "--measures", "costADay"], "is no figure"),
        (["--vary", "settings.podMovesPerDay=1,2", "--report", "none/x.html"], "there is no folder"),
        (
            ["--vary", "settings.podMovesPerDay=1,2", "--vary", "settings.podMovesPerDay=3,4"],
            "settings.podMovesPerDay is varied twice",
        ),
        (["--vary", "seed=1,2"], "--vary seed=1: runs have the seeds of --seeds"),
        (
            ["--vary", "settings.podMovesPerDay=1,2", "--measures", "waitP99,waitP99"],
            "waitP99 is there twice",
        ),
        (["--vary", "settings.podMovesPerDay=1,2", "--on", "dask://h:99999"], "is no engine"),
        (["--vary", "settings.podMoves=1,2"], "--vary settings.podMoves=1: "),
        (["--vary", "settings.podMovesPerDay=1,2", "--jobs", "-1"], "--jobs: -1 is not at least 1"),
        (["--vary", "settings.podMovesPerDay=1,2", "--prices", "none.json"], "none.json: cannot be read"),
    ],
)
def test_what_cannot_be_swept(
    given: list[str], message: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", str(small), "--dataset", str(tmp_path / "runs"), *given]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_folder_is_read_once_and_wrong_settings_are_told_all_the_same(small: Path) -> None:
    folder = ScenarioFolder(small)
    values = ["Pod/a.spec.priority=5", "settings.nodeSurcharge=0.5", "duration=2m"]
    given = [(Change.parse(one),) for one in values]
    anew = [load(small, changes=changes) for changes in given]
    assert folder.scenario() == load(small)
    for name in ("pod.yaml", "pool.yaml"):
        (small / name).unlink()
    assert [folder.scenario(changes=changes) for changes in given] == anew
    assert folder.scenario().manifests[-1].document["spec"].get("priority") is None
    for text, message in (
        ("settings.nodeSurcharge=-1", "nodeSurcharge"),
        ("Pod/a.spec.prioritee=5", "unknown field"),
        ("Pod/b.spec.priority=5", "no manifest is the Pod 'b'"),
        ("changes=[{at: '00:00', file: none.yaml}]", "there is no file 'none.yaml'"),
    ):
        with pytest.raises(InputError, match=message):
            folder.scenario(changes=(Change.parse(text),))


def test_costs_are_what_is_paid_under_a_savings_plan_and_rows_of_their_own(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = ("--savings-plan", "0.05", "--savings-plan-discount", "30%")
    assert run(["simulate", str(small), *plan, "-o", "json"]) == 0
    cost = json.loads(capsys.readouterr().out)["cost"]
    assert cost["paid"] != cost["total"]
    given = ("--vary", "settings.podMovesPerDay=1", "--dataset", str(tmp_path / "runs"), "--seeds", "1")
    found = []
    for flags in ((), plan, plan):
        assert run(["sweep", str(small), *given, *flags, "-o", "json"]) == 0
        printed = capsys.readouterr()
        found.append(json.loads(printed.out)["combinations"][0]["mean"]["costPerDay"])
    assert "1 runs, 1 of them known" in printed.err
    assert found == pytest.approx([cost["total"] * 1440, cost["paid"] * 1440, cost["paid"] * 1440], rel=1e-3)
    ways = ("--set", "settings.podMovesPerDay=2", "--seeds", "1", "-o", "json")
    assert run(["compare", str(small), *plan, *ways]) == 0
    figures = [way["mean"]["costPerDay"] for way in json.loads(capsys.readouterr().out)["ways"]]
    assert figures == pytest.approx([cost["paid"] * 1440] * 2, rel=1e-3)
