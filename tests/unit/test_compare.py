"""Several ways to play the same evening: what varies, what is compared, and how sure the difference is."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import InputError
from dovetail.cli.main import run
from dovetail.cli.runs_output import seeds_of
from dovetail.simulate.experiment.measures import MEASURES, Difference, difference, nearest_rank, student
from dovetail.simulate.experiment.runs import Job, WorkersLost, played
from dovetail.simulate.experiment.steps import DIRECT, WITH_GROUPS, steps
from dovetail.simulate.experiment.variant import Variant
from dovetail.simulate.scenario.changed import Change

BURST = Path(__file__).parents[2] / "examples" / "burst"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pool, and three pods that it buys a node for."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "scenario.yaml").write_text(
        "{apiVersion: simulation.dovetail.dev/v1alpha1, kind: Scenario, name: small, region: us-east-1, "
        "duration: 2m, settings: {provider: simulated}}"
    )
    (folder / "pool.yaml").write_text((BURST / "01-node-pool.yaml").read_text())
    (folder / "work.yaml").write_text(
        dedent("""\
            apiVersion: apps/v1
            kind: Deployment
            metadata: { name: web }
            spec:
              replicas: 3
              selector: { matchLabels: { app: web } }
              template:
                metadata: { labels: { app: web } }
                spec: { containers: [{ name: c, image: c, resources: { requests: { cpu: 500m } } }] }
            """)
    )
    return folder


@pytest.mark.parametrize(
    ("ours", "theirs", "mean", "margin"),
    [
        ([1.0], [3.0], 2.0, None),
        ([1.0, 2.0], [2.0, 3.0], 1.0, 0.0),
        ([10.0, 20.0, 30.0], [11.0, 22.0, 33.0], 2.0, 4.303 * 1.0 / 3**0.5),
        ([5.0, 5.0, 5.0, 5.0], [4.0, 6.0, 4.0, 6.0], 0.0, 3.182 * (4 / 3) ** 0.5 / 2),
    ],
)
def test_differences_are_of_pairs(
    ours: list[float], theirs: list[float], mean: float, margin: float | None
) -> None:
    found = difference(ours, theirs)
    assert found.mean == pytest.approx(mean)
    assert found.margin == (None if margin is None else pytest.approx(margin))
    assert Difference(2.0, 1.9).sure and not Difference(2.0, 2.1).sure and not Difference(2.0, None).sure


@pytest.mark.parametrize(
    ("mean", "margin", "shows", "text"),
    [
        (0.2, 0.1, True, "+0.2 s"),
        (0.2, 0.3, False, "+0.2 s"),  # may be chance
        (0.2, None, False, "+0.2 s"),  # one seed
        (-0.003, 0.001, False, "+0.0 s"),  # sure, and too small to be seen
        (-12.0, 3.0, True, "-12.0 s"),
    ],
)
def test_a_difference_shows_if_it_is_sure_and_large_enough(
    mean: float, margin: float | None, shows: bool, text: str
) -> None:
    wait = next(one for one in MEASURES if one.key == "waitP99")
    assert wait.shows(Difference(mean, margin)) is shows
    assert wait.formatted(mean, signed=True) == text


def test_the_quantiles_fall_to_the_normal_one() -> None:
    found = [student(degrees) for degrees in range(1, 200)]
    assert found == sorted(found, reverse=True)
    assert student(60) == pytest.approx(2.000, abs=0.002)
    assert [nearest_rank([1.0, 2.0, 3.0, 4.0], share) for share in (50, 99, 25)] == [2.0, 4.0, 1.0]
    assert nearest_rank([], 99) == 0.0


@pytest.mark.parametrize(("text", "expected"), [("1-3", (1, 2, 3)), ("7", (7,)), ("4, 1-2,4", (4, 1, 2))])
def test_seeds(text: str, expected: tuple[int, ...]) -> None:
    assert seeds_of(text) == expected


@pytest.mark.parametrize("text", ["", "3-1", "a", "1-99999"])
def test_what_is_no_seed(text: str) -> None:
    with pytest.raises(InputError):
        seeds_of(text)


def record(second: float, kind: str, **fields: Any) -> Mapping[str, Any]:
    return {"t": round(second * SECOND), "kind": kind, **fields}


def test_the_steps_of_a_pod_that_a_node_was_bought_for() -> None:
    log = [
        record(0, "pod.created", pod="a"),
        record(0, "pod.created", pod="late"),
        record(1, "claim.created", claim="c"),
        record(2, "instance.started", claim="c"),
        record(20, "node.created", node="n", claim="c"),
        record(30, "node.ready", node="n"),
        record(31, "pod.bound", pod="a", node="n"),
        record(32, "pod.created", pod="here"),  # its node was there already
        record(33, "pod.bound", pod="here", node="n"),
        record(33, "pod.bound", pod="late", node="n"),
    ]
    found = steps(log, groups=False)
    assert found is not None
    assert (found.names, found.at, found.pods) == (DIRECT, (0.0, 30.0, 32.0), 2)
    assert (found.asked, found.started) == (1.0, 2.0)


def test_no_node_is_bought_for_pods_on_nodes_that_a_replay_begins_with() -> None:
    log = [
        record(0, "pod.created", pod="a"),
        record(0, "claim.created", claim="c"),
        record(0, "instance.started", claim="c"),
        record(0, "node.created", node="n", claim="c"),
        record(0, "node.ready", node="n"),
        record(0.2, "pod.bound", pod="a", node="n"),
    ]
    assert steps(log, groups=False) is None


def test_the_steps_with_node_groups() -> None:
    log = [
        record(0, "pod.created", pod="a"),
        record(43, "instance.started", node="n", claim="g/n", asked=8 * SECOND),
        record(50, "node.created", node="n", claim=""),
        record(70, "node.ready", node="n"),
        record(71, "pod.bound", pod="a", node="n"),
    ]
    found = steps(log, groups=True)
    assert found is not None and (found.names, found.at) == (WITH_GROUPS, (0.0, 8.0, 43.0, 70.0, 71.0))
    assert steps(log, groups=False) is None


def test_fields_are_set_in_the_scenario_and_in_manifests(small: Path) -> None:
    changes = (
        Change.parse("settings.podMovesPerDay=7"),
        Change.parse("NodePool/general.spec.disruption.consolidateAfter=9m"),
        Change.parse("Deployment/default/web.spec.replicas=5"),
    )
    scenario = Variant("x", small, "karpenter", changes).load(seed=4, until=MINUTE)
    assert scenario.file.settings.pod_moves_per_day == 7
    assert scenario.file.settings.policy == "karpenter"
    assert (scenario.seed, scenario.duration) == (4, MINUTE)
    objects = {item.object.KIND: item.document for item in scenario.manifests}
    assert objects["NodePool"]["spec"]["disruption"]["consolidateAfter"] == "9m"
    assert objects["Deployment"]["spec"]["replicas"] == 5
    plain = Variant("x", small).load()
    assert {item.object.KIND: item.document for item in plain.manifests} != objects


def test_manifests_take_the_place_of_those_of_the_same_name(small: Path, tmp_path: Path) -> None:
    text = (small / "work.yaml").read_text()
    (tmp_path / "a.yaml").write_text(text.replace("replicas: 3", "replicas: 1"))
    (tmp_path / "b.yaml").write_text(text.replace("name: web }", "name: more }"))
    scenario = Variant("x", small, manifests=tmp_path).load()
    made = [item.document for item in scenario.manifests if item.object.KIND == "Deployment"]
    assert [(item["metadata"]["name"], item["spec"]["replicas"]) for item in made] == [
        ("web", 1),
        ("more", 3),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "which scenario?"),
        (["{small}"], "one way to play"),
        (["{small}/none", "--policy", "karpenter"], "there is no"),
        (
            ["{small}", "--policy", "dovetail", "--policy", "cluster-autoscaler"],
            "no node group may be scaled",
        ),
        (["{small}", "--seeds", "1.5"], "is no seed"),
        (["{small}", "--set", "settings.podMovesPerDay"], "sets nothing"),
        (["{small}", "--set", "settings.nothing=1"], "unknown field 'nothing'"),
        (["{small}", "--set", "duration.x=1"], "duration has no x"),
        (["{small}", "--set", "NodePool/none.spec.weight=1"], "no manifest is the NodePool 'none'"),
        (["{small}", "--set", "NodePool/general.spec.wait=1"], "unknown field wait"),
        (["{small}", "--manifests", "{small}/none"], "no such file or folder"),
        (["{small}", "--against", "{small}/work.yaml"], "is no comparison"),
        (
            ["{small}", "--set", "settings.podMovesPerDay=2", "--report", "{small}/none/r.html"],
            "there is no folder",
        ),
        (["{small}", "--set", "settings.podMovesPerDay=2", "--until", "soon"], "--until"),
        (
            ["{small}", "--set", "settings.policy=kapenter"],
            "valid are dovetail, karpenter, cluster-autoscaler",
        ),
        (["{small}", "--set", "settings.nothing=1"], "--set settings.nothing=1: "),
        (["{small}", "--set", "seed=2"], "--set seed=2: runs have the seeds of --seeds"),
        (["{small}", "--set", "nothing.x=1"], "--set nothing.x=1: nothing: unknown field"),
        (
            ["{small}", "--set", "NodePool/general.spec.weight=999"],
            "--set NodePool/general.spec.weight=999: NodePool",
        ),
        (["{small}", "--set", "NodePool/general.spec.x.y=1"], "--set NodePool/general.spec.x.y=1: NodePool"),
        (["{small}", "--manifests", "{small}/scenario.yaml"], "no object that can take another's place"),
        (["{small}", "--set", "settings.podMovesPerDay=2", "--jobs", "0"], "--jobs: 0 is not at least 1"),
        (
            ["{small}", "--set", "settings.podMovesPerDay=2", "--prices", "{small}/none"],
            "none: cannot be read",
        ),
        (["{small}/none", "--days", "1"], "/none: there is no such file or folder"),
        (["/dev/null", "--days", "1"], "/dev/null: the file holds no objects"),
        (["/dev/null", "--seeds", "1"], "--seeds: means nothing for a dump of a cluster"),
        (
            ["{small}", "--set", "settings.podMovesPerDay=2", "--set", "settings.podMovesPerDay=2"],
            "'settings.podMovesPerDay=2' is there twice",
        ),
    ],
)
def test_what_cannot_be_compared(
    given: list[str], message: str, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *(each.format(small=small) for each in given)]) == 2
    assert message in capsys.readouterr().err


def test_ways_are_compared_and_again_with_what_was_written(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.html"
    more = "Deployment/web.spec.replicas=30"
    given = ["compare", str(small), "--set", more, "--seeds", "1-2", "--jobs", "1"]
    assert run([*given, "-o", "json", "--report", str(report)]) == 0
    text = capsys.readouterr().out
    found = json.loads(text)
    assert [way["name"] for way in found["ways"]] == ["as it is", more]
    base, changed = found["ways"]
    assert changed["difference"]["costPerDay"]["mean"] > 0
    assert changed["difference"]["costPerDay"]["margin95"] is not None
    assert base["steps"]["at"]["node is added"] > 0
    assert {run["seed"] for run in base["runs"]} == {1, 2}
    page = report.read_text("utf-8")
    assert more in page and "chart-pending" in page and "uPlot" in page

    (tmp_path / "before.json").write_text(text)
    assert run(["compare", str(small), "--seeds", "1", "--against", str(tmp_path / "before.json")]) == 0
    table = capsys.readouterr().out
    assert "as it is (Dovetail" in table and "earlier" in table
    assert "One seed says nothing about chance" in table
    cost = next(line for line in table.splitlines() if line.strip().startswith(MEASURES[0].label))
    assert cost.split("$")[1].split()[0] == cost.split("$")[2].split()[0]  # the same version: the same cost


def _kill_once(mark: str) -> None:
    """Ends the first process that comes here."""
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _always() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class _Killing:
    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __call__(self) -> None:
        _kill_once(self.mark)


def test_processes_find_what_one_finds_though_one_is_killed(small: Path, tmp_path: Path) -> None:
    jobs = [Job(Variant("x", small), seed, MINUTE) for seed in (1, 2, 3)]
    alone = dict(played(jobs, 1))
    together = list(played(jobs, 2, _Killing(tmp_path / "killed")))
    assert (tmp_path / "killed").exists()
    assert sorted(number for number, _ in together) == [0, 1, 2]  # none lost, none twice
    assert {n: (r.sha256, r.figures) for n, r in together} == {
        n: (r.sha256, r.figures) for n, r in alone.items()
    }
    with pytest.raises(WorkersLost, match="2 of 2 runs"):
        list(played(jobs[:2], 2, _always))
