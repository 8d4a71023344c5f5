"""`dovetail plan` and `explain` of manifests with CapacityBuffers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_plan_cluster import faults

from dovetail.cli.main import OK, run
from dovetail.model.buffers import MOST_OF_ALL, MOST_OF_ONE, bounded

_Text = pytest.CaptureFixture[str]
SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "plan.schema.json"
KINDS = ("c5.xlarge", "m5.large")


def _pool(limits: dict[str, str]) -> list[dict[str, Any]]:
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    needs = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(KINDS)},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    spec = {"template": {"spec": {"nodeClassRef": ref, "requirements": needs}}, "limits": limits}
    terms = [{"tags": {"a": "b"}}]
    of_class = {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
    }
    return [
        {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"}, "spec": spec},
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": of_class,
        },
    ]


def _web(replicas: int) -> dict[str, Any]:
    container = {"name": "a", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def _buffer(name: str, **spec: Any) -> dict[str, Any]:
    whole = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}, **spec}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": name},
        "spec": whole,
    }


def _file(folder: Path, *documents: dict[str, Any], limits: dict[str, str] | None = None) -> str:
    file = folder / "manifests.yaml"
    file.write_text(yaml.safe_dump_all([*_pool(limits or {}), *documents]))
    return str(file)


def _planned(capsys: _Text, file: str) -> dict[str, Any]:
    assert run(["plan", "-f", file, "--region", "us-east-1", "--work", "100000", "-o", "json"]) == OK
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert list(faults(found, *[json.loads(SCHEMA.read_text())] * 2, "$")) == []
    return found


def test_what_buffers_need_is_apart_from_the_plan(tmp_path: Path, capsys: _Text) -> None:
    alone = _planned(capsys, _file(tmp_path, _web(5)))
    found = _planned(capsys, _file(tmp_path, _web(5), _buffer("more", percentage=80)))
    assert "capacityBuffers" not in alone
    assert found["cost"] == alone["cost"]
    assert found["pods"] == alone["pods"]
    kept = found["capacityBuffers"]
    one = kept["buffers"][0]
    assert one["buffer"] == "default/more"
    assert one["pods"] == one["fit"] + one["needNodes"] == 4
    assert one["unschedulable"] == 0
    assert kept["hourlyCost"] == pytest.approx(sum(node["hourlyPrice"] for node in kept["nodes"]))


def test_room_that_the_plan_leaves_costs_nothing(tmp_path: Path, capsys: _Text) -> None:
    found = _planned(capsys, _file(tmp_path, _web(1), _buffer("little", replicas=0)))
    assert found["capacityBuffers"]["nodes"] == []
    assert found["capacityBuffers"]["hourlyCost"] == 0


def test_pods_come_first_where_a_limit_binds(tmp_path: Path, capsys: _Text) -> None:
    documents = _web(6), _buffer("greedy", replicas=1000)
    found = _planned(capsys, _file(tmp_path, *documents, limits={"cpu": "10"}))
    assert not found["unschedulable"]
    assert found["capacityBuffers"]["buffers"][0]["unschedulable"] >= 990


def test_a_buffer_without_its_workload_is_left_out(tmp_path: Path, capsys: _Text) -> None:
    assert run(["plan", "-f", _file(tmp_path, _buffer("lost", replicas=1)), "--region", "us-east-1"]) == OK
    captured = capsys.readouterr()
    assert 'CapacityBuffer default/lost is left out: deployments.apps "web" not found' in captured.err
    assert "CapacityBuffers keep" not in captured.out


def test_people_see_a_table_and_the_price(tmp_path: Path, capsys: _Text) -> None:
    file = _file(tmp_path, _web(3), _buffer("more", replicas=3))
    assert run(["plan", "-f", file, "--region", "us-east-1", "--work", "100000"]) == OK
    captured = capsys.readouterr()
    assert "Room that CapacityBuffers keep" in captured.out
    assert "/h beside the plan." in captured.out
    assert "the gate CapacityBuffer decides, which is shut by default" in captured.err


def test_why_a_virtual_pod_has_no_place_is_explained(tmp_path: Path, capsys: _Text) -> None:
    file = _file(tmp_path, _web(6), _buffer("greedy", replicas=9), limits={"cpu": "9"})
    key = "default/capacity-buffer-greedy-9"
    assert run(["explain", "pod", key, "-f", file, "--region", "us-east-1", "--work", "100000"]) == OK
    assert "limit" in capsys.readouterr().out


def test_no_namespace_takes_the_share_of_others() -> None:
    evil = {f"evil/{index}": 2**31 - 1 for index in range(100)}
    found = bounded({**evil, "shop/web": 30, "shop/api": 10})
    assert (found["shop/web"], found["shop/api"]) == (30, 10)
    assert sum(found.values()) <= MOST_OF_ALL
    assert bounded({"evil/0": 2**31 - 1}) == {"evil/0": MOST_OF_ONE}
