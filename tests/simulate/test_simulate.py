"""Whole scenarios from their folder to their log: what they do, that they repeat, what the command says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.base.clock import MINUTE
from dovetail.base.errors import InputError
from dovetail.cli.main import run
from dovetail.simulate.analysis.log import Progress
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.manifests import in_order
from dovetail.simulate.scenario.scenario import load

RUSH = Path(__file__).parents[2] / "examples" / "evening-rush"

SCENARIO = """\
apiVersion: simulation.dovetail.dev/v1alpha1
kind: Scenario
name: small
region: ap-northeast-2
duration: 5m
nodeGroups:
  - {name: base, instanceType: m5.large, count: 2, zones: [ap-northeast-2a, ap-northeast-2c]}
"""

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - {name: web, image: web:1, resources: {requests: {cpu: 500m, memory: 256Mi}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "web.yaml").write_text(DEPLOYMENT)
    return tmp_path


def test_pods_run_on_the_nodes_that_are_there(folder: Path) -> None:
    moments: list[Progress] = []
    result = simulate(load(folder), events=folder / "log.jsonl", listener=moments.append)
    kinds = [record["kind"] for record in result.records]
    assert kinds.count("node.ready") == 2
    assert kinds.count("pod.running") == 3
    zones = {record["zone"] for record in result.records if record["kind"] == "node.created"}
    assert zones == {"ap-northeast-2a", "ap-northeast-2c"}
    nodes = [record["node"] for record in result.records if record["kind"] == "pod.bound"]
    assert len(set(nodes)) == 2
    last = moments[-1]
    assert (last.done, last.nodes, last.pods, last.pending) == (1.0, 2, 3, 0)
    assert last.hourly == sum(r["price"] for r in result.records if r["kind"] == "instance.started")
    lines = (folder / "log.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == list(result.records)


def test_listening_changes_nothing(folder: Path) -> None:
    assert simulate(load(folder)).sha256 == simulate(load(folder), listener=lambda _: None).sha256


def test_another_seed_is_another_history(folder: Path) -> None:
    scenario = load(folder)
    assert simulate(scenario).sha256 != simulate(scenario.seeded(2)).sha256


@pytest.mark.parametrize(
    ("file", "old", "new", "path", "words"),
    [
        ("scenario.yaml", "ap-northeast-2\n", "ap-northeast-22\n", "region", "ap-northeast-22"),
        ("scenario.yaml", "m5.large", "m5.larg", "nodeGroups[0].instanceType", "did you mean 'm5.large'"),
        ("scenario.yaml", "[ap-northeast-2a,", "[ap-northeast-2z,", "nodeGroups[0].zones", "not sold"),
        ("web.yaml", "replicas: 3", "replicsa: 3", "spec.replicsa", "did you mean replicas"),
        ("web.yaml", "cpu: 500m", "cpu: 5oom", None, "5oom"),
    ],
)
def test_mistakes_have_a_place(
    folder: Path, file: str, old: str, new: str, path: str | None, words: str
) -> None:
    target = folder / file
    target.write_text(target.read_text().replace(old, new))
    with pytest.raises(InputError) as caught:
        simulate(load(folder))
    assert caught.value.source == str(target)
    assert path is None or caught.value.path == path
    assert words in caught.value.message


def test_a_pool_without_its_class(folder: Path) -> None:
    (folder / "pool.yaml").write_text(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: default}\nspec:\n  template:\n"
        "    spec:\n      requirements: []\n"
        "      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: nowhere}\n"
    )
    with pytest.raises(InputError, match="EC2NodeClass nowhere, which is not among the manifests"):
        simulate(load(folder))


def test_pods_of_a_priority_class_that_is_not_there(folder: Path) -> None:
    web = folder / "web.yaml"
    text = web.read_text()
    assert "    spec:\n" in text
    web.write_text(text.replace("    spec:\n", "    spec:\n      priorityClassName: system-node-critical\n"))
    in_order(load(folder).manifests)  # it is in every cluster
    web.write_text(text.replace("    spec:\n", "    spec:\n      priorityClassName: gold\n"))
    with pytest.raises(InputError, match="PriorityClass gold, which is not among the manifests") as caught:
        in_order(load(folder).manifests)
    assert caught.value.source == str(web)


def test_the_command_prints_the_summary(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events, report = folder / "log.jsonl", folder / "report.html"
    arguments = ["simulate", str(folder), "-o", "json", "--until", "2m", "--seed", "3"]
    assert run([*arguments, "--events", str(events), "--report", str(report)]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["pods"]["bound"] == 3
    assert set(summary["pods"]["pendingSeconds"]) == {"p50", "p90", "p99", "max"}
    assert summary["simulatedSeconds"] == 2 * MINUTE / 1_000_000_000
    assert summary["violations"] == []
    assert len(summary["eventLogSha256"]) == 64
    assert events.stat().st_size > 0
    assert report.read_text().startswith("<!")


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--until", "soon"], "--until: 'soon' is not a duration"),
        (["--until", "0s"], "not more than 0s"),
        (["--events", "nowhere/log.jsonl"], "there is no folder nowhere"),
        (["--report", "."], "is a folder"),
        (["--trace", "pods.csv"], "the scenario plays no trace"),
    ],
)
def test_the_command_explains(
    folder: Path, extra: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", str(folder), *extra]) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def evening(hash_seed: int) -> subprocess.Popen[str]:
    """The evening until the spot shortage in its ramp is over, in a process of its own."""
    command = [sys.executable, "-m", "dovetail", "simulate", str(RUSH), "--until", "55m", "-o", "json"]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def history(run: subprocess.Popen[str]) -> str:
    shown, _ = run.communicate()
    assert run.returncode == 0
    return str(json.loads(shown)["eventLogSha256"])


@pytest.mark.long
def test_one_evening_under_every_hash_seed_and_however_busy_the_machine_is() -> None:
    first = history(evening(0))
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        runs = [evening(1), evening(2)]
        assert [history(run) for run in runs] == [first, first]
    finally:
        busy.kill()
        busy.wait()
