"""Without a NodePool one is assumed that buys what the nodes are like."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from dovetail.cli.main import run
from dovetail.cloud import catalog
from dovetail.model import labels

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: app
        resources: {requests: {cpu: 1500m, memory: 1Gi}}
"""
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: mine}
spec:
  template:
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: any}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: any}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  role: nodes
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
"""
GROUP = """\
apiVersion: v1
kind: Node
metadata:
  name: %s
  labels:
    kubernetes.io/arch: %s
    kubernetes.io/os: linux
    kubernetes.io/hostname: %s
    node.kubernetes.io/instance-type: %s
    topology.kubernetes.io/zone: %s
    eks.amazonaws.com/nodegroup: workers
    eks.amazonaws.com/capacityType: %s
status:
  allocatable: {cpu: 500m, memory: 1Gi, pods: "10"}
  conditions: [{type: Ready, status: "True"}]
"""


@pytest.mark.parametrize(
    ("nodes", "arch", "capacity", "categories", "zones"),
    [
        ((), ["amd64"], ["on-demand"], ["c", "m", "r"], ["us-east-1a", "us-east-1b", "us-east-1c"]),
        (
            (("arm64", "t4g.small", "us-east-1b", "SPOT"),),
            ["arm64"],
            ["on-demand", "spot"],
            ["c", "m", "r", "t"],
            ["us-east-1b"],
        ),
        (
            (
                ("arm64", "m7g.large", "us-east-1a", "ON_DEMAND"),
                ("amd64", "i4i.large", "us-east-1b", "ON_DEMAND"),
            ),
            ["amd64", "arm64"],
            ["on-demand"],
            ["c", "i", "m", "r"],
            ["us-east-1a", "us-east-1b"],
        ),
    ],
)
def test_without_a_pool_one_is_assumed_of_what_the_nodes_are_like(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    nodes: tuple[tuple[str, str, str, str], ...],
    arch: list[str],
    capacity: list[str],
    categories: list[str],
    zones: list[str],
) -> None:
    made = [GROUP % (f"n{index}", each[0], f"n{index}", *each[1:]) for index, each in enumerate(nodes)]
    file = tmp_path / "cluster.yaml"
    file.write_text("---\n".join([WEB, *made]))
    asking = ("plan", "-f", str(file), "--region", "us-east-1", "--work", "100000")
    assert run([*asking, "-o", "json"]) == 0
    captured = capsys.readouterr()
    assert "no NodePool is given, so one is assumed that buys " in captured.err
    found = json.loads(captured.out)
    assert found["unschedulable"] == []
    claims = found["nodeClaims"]
    types = {item.name: item for item in catalog.instance_types("us-east-1")}
    assert claims
    for claim in claims:
        assert claim["nodePool"] == "assumed"
        assert claim["capacityType"] in capacity
        assert claim["zone"] in zones
        assert re.match("[a-z]+", claim["instanceType"])[0] in categories  # type: ignore[index]
        assert set(types[claim["instanceType"]].requirements.get(labels.ARCH).values) <= set(arch)
    (tmp_path / "pool.yaml").write_text(POOL)
    assert run([*asking, "-f", str(tmp_path / "pool.yaml"), "-o", "json"]) == 0
    captured = capsys.readouterr()
    assert "assumed" not in captured.err + captured.out


def test_a_node_of_a_group_has_its_price(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(GROUP % ("n0", "amd64", "n0", "m5.2xlarge", "us-east-1b", "ON_DEMAND"))
    assert run(["explain", "node", "n0", "-f", str(file), "--region", "us-east-1"]) == 0
    assert "n0 is there: m5.2xlarge in us-east-1b, on-demand, $0." in capsys.readouterr().out


def test_a_change_is_told_of_the_pool_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, new = tmp_path / "cluster.yaml", tmp_path / "new.yaml"
    cluster.write_text(WEB)
    new.write_text("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 5}}")
    assert run(["diff", str(cluster), "-f", str(new), "--region", "us-east-1"]) == 0
    assert capsys.readouterr().err.count("no NodePool is given") == 1


@pytest.mark.parametrize(
    ("provider", "cloud", "kind"),
    [
        ("gce://shop/europe-west1-b/n0", "Google Cloud", "n2-standard-8"),
        ("azure:///subscriptions/a/virtualMachines/0", "Azure", "Standard_D8s_v5"),
        ("kind://docker/kind/n0", "", "m99.unknown"),
    ],
)
def test_what_pods_on_nodes_of_another_cloud_would_cost_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], provider: str, cloud: str, kind: str
) -> None:
    zone = "europe-west1-b" if cloud else "us-east-1b"
    node = GROUP % ("n0", "amd64", "n0", kind, zone, "ON_DEMAND")
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: web-0, ownerReferences: [{apiVersion: apps/v1, kind: "
    pod += (
        "ReplicaSet, name: web, uid: u, controller: true}]}, spec: {nodeName: n0, containers: [{name: app, "
    )
    pod += "resources: {requests: {cpu: 300m}}}]}, status: {phase: Running}}"
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "\n---\n".join([node.replace("\nstatus:", f"\nspec: {{providerID: '{provider}'}}\nstatus:"), pod])
    )
    assert run(["plan", "-f", str(file), "--region", "us-east-1", "--work", "100000"]) == 0
    captured = capsys.readouterr()
    assert "What 1 node costs is not known: no type has a price that is." in captured.out
    assert "1 pod runs there. On the cheapest new nodes found they would cost $0.0" in captured.out
    assert "$0.0000" not in captured.out
    assert ("Nodes are on " in captured.err) is bool(cloud)
    assert cloud in captured.err


def _of_group(
    name: str, group: str, kind: str, own: dict[str, str], *taints: dict[str, str], **more: str
) -> str:
    stamped = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": kind,
        "topology.kubernetes.io/zone": "us-east-1a",
        "eks.amazonaws.com/nodegroup": group,
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        "alpha.eksctl.io/cluster-name": "shop",
        **own,
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": stamped},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": "1900m", "memory": "6Gi", "pods": "20", **more}},
    }
    return json.dumps(node)


_ASIDE = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
_GOING = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}
_LEARNING = """\
apiVersion: v1
kind: Pod
metadata: {name: learning}
spec:
  nodeSelector: {team: ml}
  containers:
  - name: c
    image: i
    resources: {requests: {cpu: 2}, limits: {nvidia.com/gpu: 1}}
"""


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """A cluster of two managed groups, one of them with labels and taints of its own."""
    file = tmp_path / "cluster.yaml"
    plain = [_of_group(f"a{index}", "plain", "m5.large", {"rack": str(index)}) for index in range(2)]
    gpu = _of_group("g", "GPU_1", "g4dn.xlarge", {"team": "ml", "nvidia.com/gpu.count": "1"}, _ASIDE, _GOING)
    file.write_text("\n---\n".join([WEB, *plain, gpu, _LEARNING]))
    return file


def test_each_kind_of_nodes_has_a_pool(groups: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "-f", str(groups), "--region", "us-east-1", "--work", "100000", "-o", "json"]) == 0
    captured = capsys.readouterr()
    assert (
        "no NodePool is given, so 2 are assumed (assumed-gpu-1, assumed-plain), one for each" in captured.err
    )
    found = json.loads(captured.out)
    assert found["unschedulable"] == []
    pools = {claim["nodePool"]: claim for claim in found["nodeClaims"]}
    assert pools["assumed-gpu-1"]["pods"] == ["default/learning"]
    assert pools["assumed-gpu-1"]["instanceType"].startswith("g")


def test_the_pools_are_written(groups: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pools = tmp_path / "pools.yaml"
    asking = ("plan", "-f", str(groups), "--region", "us-east-1", "--work", "100000", "-o", "json")
    assert run([*asking, "--write-pools", str(pools)]) == 0
    captured = capsys.readouterr()
    assert f"the assumed NodePools are in {pools}" in captured.err
    text = pools.read_text()
    assert "&" not in text and "role: KarpenterNodeRole-shop" in text
    node_class, gpu, plain = yaml.safe_load_all(text)
    assert node_class["kind"] == "EC2NodeClass"
    template = gpu["spec"]["template"]
    assert template["metadata"]["labels"] == {"team": "ml"}
    assert template["spec"]["taints"] == [_ASIDE]
    assert "metadata" not in plain["spec"]["template"]
    assert run([*asking, "-f", str(pools), "--reproducible"]) == 0
    again = json.loads(capsys.readouterr().out)
    first = json.loads(captured.out)
    assert again["nodeClaims"] == first["nodeClaims"]
    assert run([*asking, "-f", str(pools), "--write-pools", str(pools)]) == 2
    assert "NodePools are given, so that none is assumed" in capsys.readouterr().err


def test_a_replay_assumes_them_too(groups: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(groups), "--region", "us-east-1", "--until", "5m", "-o", "json"]) == 0
    captured = capsys.readouterr()
    assert "so 2 are assumed" in captured.err
    summary = json.loads(captured.out)
    assert summary["nodes"]["launched"] >= 1
    assert summary["pods"]["bound"] == summary["pods"]["created"] == 4


def test_a_chart_alone_has_the_devices_that_it_asks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "app.yaml"
    file.write_text("---\n".join([WEB, _LEARNING.replace("  nodeSelector: {team: ml}\n", "")]))
    assert run(["plan", "-f", str(file), "--region", "us-east-1", "--work", "100000", "-o", "json"]) == 0
    captured = capsys.readouterr()
    assert "amd64, categories c, g, m, p, r; " in captured.err
    found = json.loads(captured.out)
    assert found["unschedulable"] == []
    kinds = {pod: claim["instanceType"] for claim in found["nodeClaims"] for pod in claim["pods"]}
    assert kinds["default/learning"].startswith("g")
