"""Plans and explanations under limits that NodePools share, asked for as a user asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli.main import run

CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "node",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"a": "b"}}],
        "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
    },
}


def pool(name: str) -> dict[str, Any]:
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge"]},
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name, "labels": {"team": name[0]}},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": requirements}}},
    }


def pods(of: str, number: int) -> list[dict[str, Any]]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1500m"}}}
    spec = {"nodeSelector": {"karpenter.sh/nodepool": of}, "containers": [container]}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{of}-{at}"}, "spec": spec}
        for at in range(number)
    ]


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    """Three pools with six pods each; limits.yaml lies beside them, and is theirs to write."""
    items = [CLASS, *(one for name in ("a1", "a2", "b1") for one in (pool(name), *pods(name, 6)))]
    (tmp_path / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    there = ["-f", str(tmp_path / "all.json"), "--region", "us-east-1", "--work", "20000"]
    return [*there, "--shared-limits", str(tmp_path / "limits.yaml")]


def write(asked: list[str], text: str) -> None:
    Path(asked[-1]).write_text(text)


def test_plans_keep_to_it_and_explanations_name_it(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(asked, "limits: [{name: team-a, nodePoolSelector: {matchLabels: {team: a}}, limits: {cpu: 12}}]")
    assert run(["plan", *asked, "-o", "json", "--reproducible"]) == 0
    plan = json.loads(capsys.readouterr().out)
    left = plan["unschedulable"]
    assert len(left) == 12 - 6 and not any(one["pod"].startswith("default/b1") for one in left)
    assert all("not enough is left of the shared limit team-a (cpu)" in json.dumps(one) for one in left)
    assert run(["explain", "pod", left[0]["pod"], *asked]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "the shared limit team-a (cpu) of 12: 0 left, m5.large takes 2" in told
    assert "raise the shared limit team-a (cpu) to 14" in told


def test_money_is_told_in_dollars(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    write(asked, "limits:\n- {name: cluster, limits: {hourly-cost: 0.5}}\n")
    assert run(["plan", *asked, "-o", "json", "--reproducible"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert 0.3 < plan["cost"]["hourly"] <= 0.5
    pod = plan["unschedulable"][0]["pod"]
    assert run(["explain", "pod", pod, *asked]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "the shared limit cluster (hourly-cost) of $0.5/h" in told
    assert "raise the shared limit cluster (hourly-cost) to $0." in told


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("limits:\n- name: a\n  limits: {cpu: much}\n", 3, "limits[0].limits.cpu"),
        ("limits:\n- name: a\n  nodepools: [x]\n  limits: {cpu: 1}\n", 3, "did you mean nodePools?"),
        ("limits: []\n", 1, "no limit is listed"),
    ],
)
def test_a_fault_is_told_with_file_and_line(
    asked: list[str], text: str, line: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(asked, text)
    assert run(["plan", *asked]) == 2
    told = capsys.readouterr().err
    assert f"limits.yaml:{line}" in told and said in told
