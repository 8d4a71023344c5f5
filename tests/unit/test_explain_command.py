"""`dovetail explain` as users run it: the real command on real files, what it prints and its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.cli.main import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "plan"
BASE = ["-f", str(EXAMPLE), "--region", "ap-northeast-2", "--deadline", "50ms"]

HUGE = """\
apiVersion: v1
kind: Pod
metadata: {name: huge, namespace: shop}
spec:
  nodeSelector: {topology.kubernetes.io/zone: ap-northeast-2b}
  containers:
  - name: c
    resources: {requests: {cpu: "500"}}
"""
RUNNING = """\
apiVersion: v1
kind: Pod
metadata: {name: there}
spec: {nodeName: old, containers: [{name: c}]}
"""
DONE = """\
apiVersion: v1
kind: Pod
metadata: {name: done}
spec: {nodeName: old, containers: [{name: c}]}
status: {phase: Succeeded}
"""


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["explain", *arguments, "-o", "json"]) == 0, capsys.readouterr().err
    return dict(json.loads(capsys.readouterr().out))


def test_a_pod_with_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(capsys, "pod", "database-1", *BASE)
    assert found["pod"] == "default/database-1"
    assert found["scheduled"]
    node = found["newNode"]
    assert node["capacityType"] == "on-demand"
    assert "default/database-1" in node["pods"]
    assert found["nodePools"][0]["cheapest"]["price"] <= node["price"]
    assert run(["explain", "pod", "default/database-1", *BASE]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "default/database-1 goes onto a new node of NodePool general" in out


def test_a_pod_without_a_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "huge.yaml"
    file.write_text(HUGE)
    arguments = ["pod", "shop/huge", *BASE, "-f", str(file)]
    found = explained(capsys, *arguments)
    assert not found["scheduled"]
    (pool,) = found["nodePools"]
    (miss,) = pool["misses"]
    assert (miss["rule"], miss["name"]) == ("resource", "cpu")
    assert "more CPU than" in miss["text"]
    assert run(["explain", *arguments, "-o", "yaml"]) == 0
    # The clock may end a solve on a busy machine, so only what does not depend on the plan is compared.
    assert yaml.safe_load(capsys.readouterr().out)["nodePools"] == found["nodePools"]
    assert run(["explain", *arguments]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "shop/huge has no place in this plan." in out
    assert miss["text"] in out


def test_a_pod_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "there.yaml"
    file.write_text(RUNNING)
    assert run(["explain", "pod", "there", *BASE, "-f", str(file)]) == 0
    assert capsys.readouterr().out.strip() == "default/there runs on node old: there is nothing to plan."


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["pod", "default/web-77"], "did you mean default/web-7"),
        (["pod", "web"], "there is no pod default/web among the manifests"),
        (["pod", "shop/there"], "did you mean default/there?"),
        (["pod", "done"], "pod default/done has finished, so it needs no node"),
        (["pod"], "NAME"),
        (["pods", "x"], "Unknown command"),
        (["pod", "web-0", "--region", "us-east-1"], "--region"),
    ],
)
def test_wrong_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    file = tmp_path / "more.yaml"
    file.write_text(f"{RUNNING}---\n{DONE}")
    assert run(["explain", *arguments, *BASE, "-f", str(file)]) == 2
    captured = capsys.readouterr()
    assert complaint in " ".join((captured.err + captured.out).split())
    assert "Traceback" not in captured.err
