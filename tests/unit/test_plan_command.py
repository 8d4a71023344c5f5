"""`dovetail plan` as users run it: real files, the real command, what it prints and its exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.base.clock import SECOND
from dovetail.cli.main import run
from dovetail.cli.searching import progress
from dovetail.cloud import catalog
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.live import FORMAT, LiveRegion, Row
from dovetail.units.quantity import parse_quantity

EXAMPLE = Path(__file__).parents[2] / "examples" / "plan"

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  template:
    spec:
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      nodeClassRef: {group: example.com, kind: Class, name: any}
"""
PODS = """\
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
NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: old
  labels:
    kubernetes.io/hostname: old
    kubernetes.io/arch: amd64
    kubernetes.io/os: linux
    topology.kubernetes.io/zone: zone-a
    node.kubernetes.io/instance-type: large
status:
  capacity: {cpu: "2", memory: 8Gi, pods: "10"}
  allocatable: {cpu: "2", memory: 8Gi, pods: "10"}
  conditions:
  - {type: Ready, status: "True"}
"""


def instance_type(name: str, cpu: int, price: float) -> dict[str, Any]:
    labels = {
        "node.kubernetes.io/instance-type": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": "zone-a",
        "karpenter.sh/capacity-type": "on-demand",
        "example.com/size": name,
    }
    offering = {"topology.kubernetes.io/zone": "zone-a", "karpenter.sh/capacity-type": "on-demand"}
    return {
        "name": name,
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()],
        "offerings": [{"price": price, "available": True, "requirements": offering}],
        "capacity": {"cpu": str(cpu), "memory": f"{cpu * 4}Gi", "pods": "50"},
        "overhead": {"cpu": "100m", "memory": "200Mi"},
    }


@pytest.fixture
def types(tmp_path: Path) -> Path:
    file = tmp_path / "types.json"
    file.write_text(json.dumps([instance_type("small", 2, 0.1), instance_type("large", 4, 0.18)]))
    return file


def write(tmp_path: Path, *texts: str) -> str:
    file = tmp_path / "manifests.yaml"
    file.write_text("\n---\n".join(texts))
    return str(file)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["plan", *arguments, "-o", "json"]) == 0, capsys.readouterr().err
    found = json.loads(capsys.readouterr().out)
    assert list(found) == [
        "schemaVersion",
        "region",
        "regionFrom",
        "prices",
        "pods",
        "monthly",
        "cutShort",
        "atMostCheaper",
        "nodeClaims",
        "existing",
        "unschedulable",
        "cost",
        "copies",
        "realised",
        "proof",
        "elapsedSeconds",
        *(["cluster"] if "cluster" in found else []),
    ]
    return dict(found)


def test_buys_the_cheapest(tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "-f", write(tmp_path, POOL, PODS), "--instance-types", str(types))
    claims = found["nodeClaims"]
    assert sorted(pod for claim in claims for pod in claim["pods"]) == [f"default/web-{i}" for i in range(3)]
    assert {claim["nodePool"] for claim in claims} == {"default"}
    assert sum(claim["price"] for claim in claims) == pytest.approx(found["cost"]["hourly"])
    assert found["cost"]["hourly"] == pytest.approx(0.28)
    assert found["cost"]["lowerBound"] <= found["cost"]["hourly"]
    assert found["unschedulable"] == []
    first = claims[0]
    assert first["instanceTypes"][0] == first["instanceType"]
    assert first["zone"] == "zone-a"
    assert first["capacityType"] == "on-demand"
    assert {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]} in first["requirements"]
    assert first["requests"]["cpu"] in ("1500m", "3")


def test_existing_nodes_are_filled_first(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write(tmp_path, POOL, PODS.replace("replicas: 3", "replicas: 1"), NODE)
    found = answer(capsys, "-f", files, "--instance-types", str(types))
    assert found["existing"] == {"old": ["default/web-0"]}
    assert found["nodeClaims"] == []


def test_pods_that_exist_are_not_counted_twice(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": "web-abc",
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1", "controller": True}
            ],
        },
        "spec": yaml.safe_load(PODS)["spec"],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-abc-x",
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web-abc",
                    "uid": "2",
                    "controller": True,
                }
            ],
        },
        "spec": {**yaml.safe_load(PODS)["spec"]["template"]["spec"], "nodeName": "old"},
    }
    files = write(tmp_path, POOL, PODS, NODE, yaml.safe_dump(replica_set), yaml.safe_dump(pod))
    found = answer(capsys, "-f", files, "--instance-types", str(types))
    placed = [pod for claim in found["nodeClaims"] for pod in claim["pods"]]
    assert sorted(placed) == ["default/web-1", "default/web-2"]
    assert found["existing"] == {}


def test_keys_of_the_types_are_well_known(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PODS.replace(
        "      containers:", "      nodeSelector: {example.com/size: large}\n      containers:"
    )
    found = answer(capsys, "-f", write(tmp_path, POOL, text), "--instance-types", str(types))
    assert {claim["instanceType"] for claim in found["nodeClaims"]} == {"large"}


def test_a_pod_too_large_is_reported_and_no_error(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PODS.replace("1500m", '"10000"').replace("replicas: 3", "replicas: 1")
    files = write(tmp_path, POOL, text)
    found = answer(capsys, "-f", files, "--instance-types", str(types))
    (left,) = found["unschedulable"]
    assert left["pod"] == "default/web-0"
    assert left["reason"]
    assert "default" in left["nodePools"]
    assert set(found["cost"].values()) == {0}
    assert run(["plan", "-f", files, "--instance-types", str(types)]) == 0
    out = capsys.readouterr().out
    assert "Unschedulable" in out
    nearest = "needs 9996.1 more CPU than the largest allowed type, large, has for pods (10000 of 3.9)"
    assert left["nearestMiss"] == {"default": nearest}
    assert f"default: {nearest}" in " ".join(out.split())
    assert "1 pod left over" in out


BY_HAND = """\
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /disk}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  volumeName: disk
  storageClassName: ""
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: db}
spec:
  containers: [{name: main, image: db, resources: {requests: {cpu: 1, memory: 1Gi}}}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""


@pytest.mark.parametrize(
    ("kept", "left"),
    [
        ("", 0),
        ("claimRef: {namespace: default, name: data}, ", 0),
        ("claimRef: {namespace: a, name: b}, ", 1),
    ],
)
def test_claims_that_name_their_volume_are_as_the_volume_controller_makes_them(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str], kept: str, left: int
) -> None:
    text = BY_HAND.replace("hostPath", f"{kept}hostPath")
    found = answer(capsys, "-f", write(tmp_path, POOL, text), "--instance-types", str(types))
    assert len(found["unschedulable"]) == left


@pytest.mark.parametrize(
    ("classes", "named", "left"),
    [
        pytest.param("", "", "b", id="of equals as few as possible"),
        pytest.param("high", "high", "a", id="a class among the manifests"),
        pytest.param("", "system-cluster-critical", "a", id="one that every cluster has"),
        pytest.param("low", "low", "b", id="below all others"),
    ],
)
def test_limits_leave_over_whose_priority_is_low(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str], classes: str, named: str, left: str
) -> None:
    """Two pods on a small node, or one on a large one: there may be one node."""
    head = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\n"
    values = {"high": 1000, "low": -5}
    text = "".join(f"{head}metadata: {{name: {name}}}\nvalue: {values[name]}\n" for name in classes.split())
    for name, kind in (("a1", "small"), ("a2", "small"), ("b", "large")):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"node.kubernetes.io/instance-type": kind},
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}],
                **({"priorityClassName": named} if named and name == "b" else {}),
            },
        }
        text += f"---\n{json.dumps(pod)}\n"
    limited = POOL.replace("spec:\n", "spec:\n  limits: {nodes: 1}\n", 1)
    found = answer(capsys, "-f", write(tmp_path, limited, text), "--instance-types", str(types))
    assert {one["pod"].removeprefix("default/")[:1] for one in found["unschedulable"]} == {left}


ALLOWED = """\
apiVersion: v1
kind: LimitRange
metadata: {name: usual}
spec: {limits: [{type: Container, defaultRequest: {cpu: 900m, memory: 1Gi}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: few}
spec: {hard: {pods: "2"}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: i}]}
"""


def test_pods_are_as_their_namespace_has_them(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of three are made; with the DaemonSet's each small node has room for one of them."""
    pods = PODS.replace("{cpu: 1500m, memory: 1Gi}", "{}")
    files = write(tmp_path, POOL, pods, ALLOWED)
    assert run(["plan", "-f", files, "--instance-types", str(types), "-o", "json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["unschedulable"] == []
    assert [claim["pods"] for claim in found["nodeClaims"]] == [["default/web-0", "default/web-1"]]
    assert found["nodeClaims"][0]["requests"]["cpu"] == "2700m"
    assert "1 pod of the namespace default would be refused by the API server: exceeded quota: few" in (
        captured.err
    )


def test_a_policy_against_its_class_is_refused_as_a_server_does(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    low = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 5
preemptionPolicy: Never
"""
    for policy, placed in (("Never", 3), ("PreemptLowerPriority", 0)):
        pods = PODS.replace(
            "    spec:\n", f"    spec:\n      priorityClassName: low\n      preemptionPolicy: {policy}\n"
        )
        assert pods != PODS
        files = write(tmp_path, POOL, pods, low)
        assert run(["plan", "-f", files, "--instance-types", str(types), "-o", "json"]) == 0
        captured = capsys.readouterr()
        found = json.loads(captured.out)
        assert sum(len(claim["pods"]) for claim in found["nodeClaims"]) == placed
        refused = "3 pods of the namespace default would be refused by the API server: the string value of"
        assert (refused in captured.err) == (not placed)


RUNTIME = """\
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: 600m}}
scheduling:
  nodeSelector: {kubernetes.io/arch: amd64}
  tolerations: [{key: kata, operator: Exists}]
---
"""


@pytest.mark.parametrize("given", [True, False], ids=["given", "not given"])
def test_pods_are_as_their_runtime_class_has_them(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str], given: bool
) -> None:
    """With its overhead no two of them go onto a node of 4, and the pool's taint is tolerated."""
    tainted = POOL.replace("    spec:\n", "    spec:\n      taints: [{key: kata, effect: NoSchedule}]\n", 1)
    pods = PODS.replace("containers:", "runtimeClassName: kata\n      containers:", 1)
    files = write(tmp_path, tainted if given else POOL, pods, RUNTIME if given else "")
    assert run(["plan", "-f", files, "--instance-types", str(types), "-o", "json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["unschedulable"] == []
    each = 2100 if given else 1500
    asked = sum(parse_quantity(claim["requests"]["cpu"]).milli() for claim in found["nodeClaims"])
    assert asked == 3 * each
    assert ("no RuntimeClass kata is among the manifests" in captured.err) is not given


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_a_device_tolerates_the_taint_of_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """As on EKS; nodes of a DaemonSet's pods are chosen before admission sees them."""
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "d"},
                    "requirements": [],
                    "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
                }
            }
        },
    }
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "d"},
        "spec": {
            "role": "r",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"a": "b"}}],
            "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
        },
    }
    asked = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}

    def workload(kind: str, name: str, resources: dict[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
                },
            },
        }

    texts = [pool, node_class, workload("Deployment", "train", asked)]
    if kind == "DaemonSet":
        texts.append(workload(kind, "agent", asked))
    files = write(tmp_path, "\n---\n".join(map(json.dumps, texts)))
    found = answer(capsys, "-f", files, "--region", "us-east-1")
    assert found["unschedulable"] == []
    (claim,) = found["nodeClaims"]
    assert claim["requests"]["nvidia.com/gpu"] == "1"


CLASS_OF_VOLUMES = """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gp3, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
"""
WITH_VOLUMES = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m}}}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {CLASS accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
NO_DEFAULT = CLASS_OF_VOLUMES.replace('"true"', '"false"')


@pytest.mark.parametrize(
    ("classes", "named", "left", "said"),
    [
        pytest.param(CLASS_OF_VOLUMES, "", 0, "", id="the default class"),
        pytest.param(CLASS_OF_VOLUMES, 'storageClassName: "",', 2, "", id="none is wanted"),
        pytest.param(CLASS_OF_VOLUMES, "storageClassName: other,", 2, "", id="one that is not there"),
        pytest.param(NO_DEFAULT, "", 2, "", id="none of them is the default"),
        pytest.param("", "", 0, "no StorageClass is among the manifests: the default one", id="no class"),
        pytest.param("", "storageClassName: fast,", 0, "manifests: fast is taken to be of ebs", id="named"),
    ],
)
def test_volumes_are_of_a_class(
    tmp_path: Path,
    types: Path,
    capsys: pytest.CaptureFixture[str],
    classes: str,
    named: str,
    left: int,
    said: str,
) -> None:
    files = write(tmp_path, POOL, *filter(None, [classes]), WITH_VOLUMES.replace("CLASS", named))
    assert run(["plan", "-f", files, "--instance-types", str(types), "-o", "json"]) == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["unschedulable"]) == left
    assert said in captured.err
    assert bool(said) is ("StorageClass" in captured.err)


def test_same_plan_in_yaml_and_in_words(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["-f", write(tmp_path, POOL, PODS), "--instance-types", str(types)]
    as_json = answer(capsys, *arguments)
    assert run(["plan", *arguments, "-o", "yaml"]) == 0
    as_yaml = yaml.safe_load(capsys.readouterr().out)
    for found in (as_json, as_yaml):
        del found["elapsedSeconds"]
    assert as_yaml == as_json
    assert run(["plan", *arguments, "--deadline", "2s"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Nodes to buy" in out
    assert "2 nodes for $0.2800/h; no plan for the same pods costs less than $" in out


def test_the_example_of_the_repository(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "-f", str(EXAMPLE), "--region", "ap-northeast-2", "--deadline", "1s")
    placed = [pod for claim in found["nodeClaims"] for pod in claim["pods"]]
    assert len(placed) == 12 + 3 + 4
    assert found["unschedulable"] == []
    assert 0 < found["cost"]["lowerBound"] <= found["cost"]["hourly"]
    databases = [claim for claim in found["nodeClaims"] if any("database" in pod for pod in claim["pods"])]
    assert len(databases) == 3
    assert {claim["capacityType"] for claim in databases} == {"on-demand"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (PODS, "hold no NodePool"),
        (POOL + "---\n" + POOL, "NodePool default is given twice"),
        (POOL.replace("name: any", "nam: any"), "unknown field nam; did you mean name?"),
        (POOL.replace("kind: NodePool", "kind: NodePol"), "did you mean NodePool?"),
        (POOL.replace("name: any}", "name: any"), "malformed YAML"),
        (POOL + "  limits: {cpu: ten}\n", "must be a quantity"),
        (POOL + "  weight: heavy\n", "must be of type integer"),
        (POOL + "  disruption: {consolidateAfter: 1d}\n", "must be a duration of h, m and s"),
        (
            POOL.replace("values: [on-demand]", "values: [ondemand]"),
            "no valid values found in [ondemand] for karpenter.sh/capacity-type",
        ),
        ("", "the file holds no objects"),
    ],
)
def test_bad_manifests(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    assert run(["plan", "-f", write(tmp_path, text), "--instance-types", str(types)]) == 2
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert "manifests.yaml" in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_bad_arguments(tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write(tmp_path, POOL, PODS)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text("[{]")
    for arguments, complaint in (
        (["-f", files], "one of --region and --instance-types is needed"),
        (["-f", files, "--region", "us-east-1", "--instance-types", str(types)], "only one of --region"),
        (["-f", files, "--instance-types", str(tmp_path / "none.json")], "none.json"),
        (["-f", files, "--instance-types", str(tmp_path / "broken.json")], "broken.json"),
        (
            ["-f", files, "--instance-types", str(types), "--deadline", "1d"],
            "--deadline: '1d' is not a duration",
        ),
        (["-f", files, "--instance-types", str(types), "--deadline", "0s"], "must be longer than 0s"),
        (["-f", files, "--region", "us-east-1"], "the types of a region are for EC2NodeClasses"),
        (["-f", str(EXAMPLE), "--region", "ap-northeast-9"], "--region: there is no region 'ap-northeast-9'"),
        (["-f", str(tmp_path / "empty"), "--instance-types", str(types)], "holds no manifests"),
        (["-f", str(tmp_path / "nowhere"), "--instance-types", str(types)], "no such file or folder"),
        (["--instance-types", str(types)], "filename"),
        (["-f", files, "--instance-types", str(types), "-o", "xml"], "xml"),
    ):
        assert run(["plan", *arguments]) == 2, arguments
        captured = capsys.readouterr()
        assert complaint in (captured.err + captured.out).replace("\n", " "), arguments
        assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            "  kubelet: {maxPods: many}",
            "spec.kubelet.maxPods: 'many' is not a whole number, nor an expression",
        ),
        ("  kubelet: {systemReserved: {cpu: ten}}", "'ten' is not a quantity"),
        (
            "  userData: 5",
            "spec.userData: Invalid value: 5: must be of type string, not integer; write it in quotes",
        ),
        ("  instanceProfile: p", "must specify exactly one of ['role', 'instanceProfile']"),
        ("status: {subnets: [{zone: us-east-1z}]}", "region us-east-1 has no zone 'us-east-1z'"),
    ],
)
def test_bad_class(tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str, complaint: str) -> None:
    text = f"{(EXAMPLE / '01-node-pool.yaml').read_text()}{change}\n"
    assert run(["plan", "-f", write(tmp_path, text), "--region", "us-east-1"]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert complaint in error
    assert "manifests.yaml:" in error


def test_missing_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        (EXAMPLE / "01-node-pool.yaml").read_text().replace("        name: default", "        name: defalt")
    )
    assert run(["plan", "-f", write(tmp_path, text), "--region", "us-east-1"]) == 2
    complaint = " ".join(capsys.readouterr().err.split())
    assert "NodePool general names the EC2NodeClass defalt, which is not among the manifests" in complaint
    assert "did you mean default?" in complaint


def test_the_folder_of_a_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(__file__).parents[2] / "examples" / "evening-rush"
    assert run(["plan", "-f", str(folder), "--region", "ap-northeast-2", "-o", "json"]) == 0
    claims = json.loads(capsys.readouterr().out)["nodeClaims"]
    assert {claim["nodePool"] for claim in claims} == {"karpenter-node-pool"}
    assert all(claim["instanceType"].endswith(".2xlarge") for claim in claims)


UNPRICED = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: any}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
"""


def without_prices_of(*names: str) -> LiveRegion:
    """us-east-1 as AWS describes it without its price list: m5.large alone has a price."""
    rows = tuple(
        Row(record, zones, 0 if record.name in names else price, (0,) * len(zones))
        for record, zones, price in store.sold("us-east-1")
        if record.name in (*names, "m5.large")
    )
    zones = tuple(catalog.zones("us-east-1").items())
    return LiveRegion(FORMAT, "us-east-1", "2026-03-02", zones, rows)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ("m5.large", ""),
        ("m5.large, m8i.large", "of 1 type that the NodePools allow, so it is not bought: m8i.large\n"),
        (
            "m8i.xlarge, r8i.xlarge, r8i.8xlarge, r8i.16xlarge",
            "of 4 types that the NodePools allow, so they are not bought: "
            "m8i.xlarge, r8i.16xlarge, r8i.8xlarge and 1 more",
        ),
    ],
)
def test_types_without_a_known_price_are_named(
    types: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    of_type = f"{{key: node.kubernetes.io/instance-type, operator: In, values: [{types}]}}"
    pool = POOL.replace("      nodeClassRef", f"      - {of_type}\n      nodeClassRef")
    pool = pool.replace("example.com, kind: Class", "karpenter.k8s.aws, kind: EC2NodeClass")
    manifests = write(tmp_path, pool, UNPRICED, PODS)
    request.addfinalizer(store.use)
    store.use(without_prices_of("m8i.large", "m8i.xlarge", "r8i.xlarge", "r8i.8xlarge", "r8i.16xlarge"))
    assert run(["plan", "-f", manifests, "--region", "us-east-1", "-o", "json"]) == 0
    out, err = capsys.readouterr()
    json.loads(out)  # nothing of it stands between the answer's lines
    assert message in err
    assert bool(err) == bool(message)
    assert ("`dovetail catalog refresh --region us-east-1`" in err) == bool(message)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            PODS.replace("replicas: 3", "replicas: 0"),
            "Nothing to buy: 0 pods (replicas: 0 of Deployment default/web).",
        ),
        ("", "Nothing to buy: 0 pods are asked for: there is neither a Pod nor a workload that wants one."),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
            "spec: {nodeName: old, containers: [{name: c}]}\nstatus: {phase: Running}\n",
            "Nothing to buy: 0 pods wait for a node.",
        ),
    ],
)
def test_why_there_is_nothing_to_buy(
    text: str, said: str, tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write(tmp_path, POOL, NODE, *([text] if text else []))
    assert run(["plan", "-f", files, "--instance-types", str(types)]) == 0
    assert said in capsys.readouterr().out.splitlines()


def test_what_a_file_holds_does_not_steer_the_terminal(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = json.loads(types.read_text())
    for item in changed:
        item["name"] += "\x1b[31m\u202e"
        for one in item["requirements"]:
            if one["key"] == "node.kubernetes.io/instance-type":
                one["values"] = [item["name"]]
    types.write_text(json.dumps(changed))
    run(["plan", "-f", write(tmp_path, POOL, PODS), "--instance-types", str(types)])
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert r"\x1b[31m\u202e" in shown.out + shown.err


CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: any}
spec:
  role: r
  amiSelectorTerms: [{alias: FAMILY@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
"""


@pytest.mark.parametrize(
    ("family", "tenancy", "said"),
    [
        ("al2023", ["default", "dedicated"], []),
        ("windows2022", ["default"], ["EC2NodeClass any runs Windows; the prices are those of Linux"]),
        (
            "bottlerocket",
            ["dedicated"],
            ["NodePool default asks for dedicated tenancy; the prices are those"],
        ),
        ("windows2025", ["dedicated"], ["runs Windows", "asks for dedicated tenancy"]),
    ],
)
def test_what_the_prices_do_not_hold_is_reported(
    family: str, tenancy: list[str], said: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "karpenter.k8s.aws/instance-tenancy"
    pool = POOL.replace(
        "group: example.com, kind: Class", "group: karpenter.k8s.aws, kind: EC2NodeClass"
    ).replace(
        "requirements:\n",
        f"requirements:\n      - {{key: {key}, operator: In, values: {json.dumps(tenancy)}}}\n",
    )
    files = write(tmp_path, pool, CLASS.replace("FAMILY", family), PODS)
    assert run(["plan", "-f", files, "--region", "us-east-1", "--work", "1000"]) == 0
    shown = capsys.readouterr().err
    notes = [line for line in shown.splitlines() if line.startswith("note:")]
    assert len(notes) == len(said)
    assert all(text in line for text, line in zip(said, notes, strict=True))


def test_a_trace_shows_what_each_phase_did(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trace.jsonl"
    found = answer(
        capsys, "-f", write(tmp_path, POOL, PODS), "--instance-types", str(types), "--trace", str(file)
    )
    steps = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert steps[0]["phase"] == "first plan"
    assert {step["solve"] for step in steps} == {1}
    costs = [step["incumbent"] for step in steps]
    assert costs == sorted(costs, reverse=True)
    assert steps[-1]["nodes"] == len(found["nodeClaims"])
    assert [step["seconds"] for step in steps] == sorted(step["seconds"] for step in steps)
    assert not any(step["givenUp"] for step in steps)


def test_a_trace_that_cannot_be_written(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["-f", write(tmp_path, POOL, PODS), "--instance-types", str(types)]
    assert run(["plan", *arguments, "--trace", str(tmp_path / "none" / "x")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_a_report_holds_the_plan_and_its_solve(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be placed and what was found are in it; the same question has the same page to the byte."""
    giant = PODS.replace("name: web", "name: giant").replace("1500m", "900")
    asked = ["-f", write(tmp_path, POOL, PODS, giant, NODE), "--instance-types", str(types)]
    pages = [tmp_path / "one.html", tmp_path / "two.html"]
    for page in pages:
        assert run(["plan", *asked, "--work", "5000", "--reproducible", "--report", str(page)]) == 0
        assert f"the report is in {page}" in capsys.readouterr().err
    texts = [page.read_text("utf-8") for page in pages]
    assert texts[0] == texts[1]
    data = json.loads(texts[0].split('<script type="application/json" id="data">')[1].split("</script>")[0])
    found = answer(capsys, *asked, "--work", "5000")
    assert [row["price"] for row in data["claims"]] == [claim["price"] for claim in found["nodeClaims"]]
    assert data["existing"] == [{"node": "old", "pods": found["existing"]["old"]}]
    assert {row["pod"] for row in data["left"]} == {f"default/giant-{number}" for number in range(3)}
    assert all("default: " in row["why"] for row in data["left"])
    assert data["steps"][-1]["incumbent"] == found["cost"]["hourly"]
    assert all("seconds" not in step for step in data["steps"])
    assert any("node costs" in text for text in data["cluster"])


def test_a_report_of_copies_and_of_nothing(
    tmp_path: Path, types: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, replicas, title in (("many", 200_000, "nodes for $"), ("none", 0, "Nothing to buy")):
        pods = PODS.replace("replicas: 3", f"replicas: {replicas}")
        page, folder = tmp_path / f"{name}.html", tmp_path / name
        folder.mkdir()
        asked = ["-f", write(folder, POOL, pods), "--instance-types", str(types), "--work", "20000"]
        assert run(["plan", *asked, "--report", str(page)]) == 0
        assert title in page.read_text("utf-8").split("<title>")[1].split("</title>")[0]
    capsys.readouterr()


def test_progress_is_for_terminals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress("trying", 10 * SECOND)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    progress("trying", 10 * SECOND)
    assert "trying for up to 10 s more (--deadline 1s does not)" in capsys.readouterr().err
