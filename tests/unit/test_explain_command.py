"""`dovetail explain` as users run it: the real command on real files, what it prints and its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.clusters import write
from dovetail.cli import searching
from dovetail.cli.main import run
from dovetail.solve.budget import Deadline

EXAMPLE = Path(__file__).parents[2] / "examples" / "plan"
BASE = ["-f", str(EXAMPLE), "--region", "ap-northeast-2", "--deadline", "50ms"]

NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: old
  labels:
    kubernetes.io/hostname: old
    kubernetes.io/arch: amd64
    kubernetes.io/os: linux
    topology.kubernetes.io/zone: ap-northeast-2a
    node.kubernetes.io/instance-type: m5.2xlarge
    karpenter.sh/capacity-type: on-demand
    karpenter.sh/nodepool: general
spec: {providerID: "aws:///ap-northeast-2a/i-1"}
status:
  capacity: {cpu: "8", memory: 32Gi, pods: "58"}
  allocatable: {cpu: 7910m, memory: 30Gi, pods: "58"}
  conditions: [{type: Ready, status: "True"}]
"""
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
VOLUMES = """\
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1}
spec:
  storageClassName: gp3
  csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [ap-northeast-2z]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {storageClassName: gp3, volumeName: pv-1, accessModes: [ReadWriteOnce]}
status: {phase: Bound}
---
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  containers: [{name: c, resources: {requests: {cpu: 100m}}}]
  volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: v1
kind: Pod
metadata: {name: lost}
spec:
  containers: [{name: c, resources: {requests: {cpu: 100m}}}]
  volumes: [{name: d, persistentVolumeClaim: {claimName: nothere}}]
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


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline is counted work alone: a busy machine changes no plan."""
    monkeypatch.setattr(searching, "Deadline", lambda *_: Deadline(1 << 62, int))


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


def test_volumes_out_of_reach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "volumes.yaml"
    file.write_text(VOLUMES)
    (pool,) = explained(capsys, "pod", "reader", *BASE, "-f", str(file))["nodePools"]
    (miss,) = pool["misses"]
    assert (miss["rule"], miss["name"]) == ("volume", "topology.kubernetes.io/zone")
    assert miss["text"].startswith("its volume needs zone ap-northeast-2z, the pool can buy ap-northeast-2a")
    assert pool["wouldFit"] == []
    assert run(["explain", "pod", "lost", *BASE, "-f", str(file)]) == 0
    out = capsys.readouterr().out.strip()
    assert out == 'default/lost has no place: persistentvolumeclaim "nothere" not found'


def test_a_pod_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "there.yaml"
    file.write_text(RUNNING)
    assert run(["explain", "pod", "there", *BASE, "-f", str(file)]) == 0
    assert capsys.readouterr().out.strip() == "default/there runs on node old: there is nothing to plan."


SHARED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: shared}
spec:
  replicas: 10
  selector: {matchLabels: {app: shared}}
  template:
    metadata: {labels: {app: shared}, annotations: {dovetail.dev/on-demand: "%s"}}
    spec:
      schedulingGates: [{name: dovetail.dev/on-demand}]
      containers: [{name: c, resources: {requests: {cpu: 100m}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: gated, annotations: {dovetail.dev/on-demand: "1"}}
spec: {schedulingGates: [{name: dovetail.dev/on-demand}], containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: picky}
spec: {nodeSelector: {karpenter.sh/capacity-type: on-demand}, containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: changed
  annotations: {dovetail.dev/on-demand: "many", dovetail.dev/off-spot: "true"}
spec: {nodeName: old, nodeSelector: {karpenter.sh/capacity-type: on-demand}, containers: [{name: c}]}
---
apiVersion: v1
kind: Node
metadata: {name: old, labels: {karpenter.sh/capacity-type: on-demand}}
status: {allocatable: {cpu: "1", memory: 1Gi, pods: "9"}}
"""
_GATE = "at its scheduling gate dovetail.dev/on-demand"


@pytest.mark.parametrize(
    ("name", "share", "why"),
    [
        (
            "shared-0",
            "2 + 30%",
            'It keeps off spot for its workload\'s share, dovetail.dev/on-demand: "2 + 30%": of the 10 pods '
            "of Deployment shared, 5 are to, and 5 do.",
        ),
        ("shared-0", "1", "of the 10 pods of Deployment shared, 1 is to, and 1 does."),
        ("shared-9", "2 + 30%", ""),
        ("shared-0", "half", f"It waits {_GATE} until it is replaced: 'half' is no share of on-demand pods:"),
        ("gated", "1", f"It waits {_GATE} to be told whether it keeps off spot."),
        ("picky", "1", "It keeps off spot by its own node selector or required node affinity."),
        ("changed", "1", f"It was told {_GATE} to keep off spot."),
    ],
)
def test_why_a_pod_keeps_off_spot(
    name: str, share: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "shared.yaml"
    file.write_text(SHARED % share)
    arguments = ["pod", name, *BASE, "-f", str(file)]
    said = explained(capsys, *arguments).get("offSpot", "")
    assert why in said
    assert bool(why) == bool(said)
    assert run(["explain", *arguments]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert said in out


def test_a_node_to_be_bought(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(capsys, "node", "general-0", *BASE)
    assert found["planned"]
    assert found["nodePool"] == "general"
    names = [item["instanceType"] for item in found["possible"]]
    prices = [item["price"] for item in found["possible"]]
    assert found["offer"]["instanceType"] == names[0]
    assert prices == sorted(prices)
    assert all(item["price"] < prices[0] and item["misses"] for item in found["cheaperButUnfit"])
    assert found["resources"]["cpu"]["daemons"] == 100
    assert run(["explain", "node", "general-0", *BASE]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "general-0 is to be bought:" in out
    assert "Next best is" in out
    assert "Why nothing cheaper" in out


def test_a_node_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "node.yaml"
    file.write_text(NODE + "---\n" + RUNNING)
    found = explained(capsys, "node", "old", *BASE, "-f", str(file))
    assert not found["planned"]
    assert found["offer"]["instanceType"] == "m5.2xlarge"
    assert "default/there" in [item["pod"] for item in found["pods"]]
    assert "m5.2xlarge" in [item["instanceType"] for item in found["possible"]]
    assert {item["zone"] for item in found["possible"]} == {"ap-northeast-2a"}


CLAIM = """\
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: general-1, labels: {karpenter.sh/nodepool: general}}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  requirements: []
status: {providerID: "aws:///ap-northeast-2a/i-1", nodeName: old}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep, namespace: default}
spec: {maxUnavailable: 0, selector: {}}
"""


def test_what_keeps_a_node_from_being_disrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "node.yaml"
    file.write_text(f"{NODE}---\n{RUNNING}---\n{CLAIM}")
    found = explained(capsys, "node", "old", *BASE, "-f", str(file))["disruption"]
    assert found["blockers"] == [
        "Node isn't initialized nor registered",
        "Pdb prevents pod evictions (PodDisruptionBudget=[default/keep])",
    ]
    assert set(found["budgets"]) == {"Empty", "Drifted", "Underutilized", "Unhealthy"}
    assert found["consolidation"] == ['Node does not have label "karpenter.sh/capacity-type"']
    assert found["unreadable"] == []
    assert run(["explain", "node", "old", *BASE, "-f", str(file)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "What keeps it from being disrupted" in out
    assert "Nodes of its pool that budgets allow to be disrupted now:" in out


WEB = """\
apiVersion: v1
kind: Pod
metadata:
  name: lone-abc-1
  namespace: default
  labels: {app: lone, pod-template-hash: abc}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: lone-abc, uid: "1", controller: true}]
spec: {nodeName: old, containers: [{name: main, resources: {requests: {cpu: "1"}}}]}
status: {phase: Running}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: lone, namespace: default, annotations: {dovetail.dev/surge: "%s"}}
spec:
  replicas: 1
  strategy: {type: %s}
  selector: {matchLabels: {app: lone}}
  template: {metadata: {labels: {app: lone}}, spec: {containers: [{name: main}]}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: lone, namespace: default}
spec: {minAvailable: 1, selector: {matchLabels: {app: lone}}}
status: {expectedPods: 1, desiredHealthy: 1, currentHealthy: 1, disruptionsAllowed: 0}
"""
MORE = "run another replica and allow one to be missing (maxUnavailable: 1)"


@pytest.mark.parametrize(
    ("asks", "strategy", "remedy"),
    [
        (
            "",
            "RollingUpdate",
            f'{MORE}, or let another pod come first (dovetail.dev/surge: "true" on Deployment default/lone)',
        ),
        (
            "true",
            "RollingUpdate",
            "where the controller runs with --surge, Deployment default/lone brings up another pod first",
        ),
        (
            "true",
            "Recreate",
            f"{MORE}; no other pod can come first, because its Deployment has the strategy Recreate",
        ),
    ],
)
def test_what_would_help_with_a_budget_that_is_never_met(
    asks: str, strategy: str, remedy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.yaml"
    claim = CLAIM.partition("---")[0]
    file.write_text(f"{NODE}---\n{claim}---\n{WEB % (asks, strategy)}")
    found = explained(capsys, "node", "old", *BASE, "-f", str(file))["disruption"]
    assert "Pdb prevents pod evictions (PodDisruptionBudget=[default/lone])" in found["blockers"]
    assert found["remedies"] == [f"PodDisruptionBudget default/lone can never be met: {remedy}"]
    assert run(["explain", "node", "old", *BASE, "-f", str(file)]) == 0
    assert "What would help" in capsys.readouterr().out


def test_what_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "node.yaml"
    mark = '{name: general-1, annotations: {karpenter.sh/do-not-disrupt: "1h"}, '
    file.write_text(f"{NODE}---\n{RUNNING}---\n{CLAIM.replace('{name: general-1, ', mark)}")
    stamped = "node.kubernetes.io/instance-type: m5.2xlarge, karpenter.sh/capacity-type: on-demand"
    stamped += ", topology.kubernetes.io/zone: ap-northeast-2a, "
    file.write_text(file.read_text().replace("labels: {karpenter.sh/n", f"labels: {{{stamped}karpenter.sh/n"))
    found = explained(capsys, "node", "old", *BASE, "-f", str(file))["disruption"]
    (quiet,), (unreadable,) = found["consolidation"], found["unreadable"]
    assert quiet.startswith("Not Consolidatable yet: no pod may come or go for ")
    assert unreadable == (
        "NodeClaim general-1: Invalid karpenter.sh/do-not-disrupt annotation: "
        "nodes take nothing but \"true\", got '1h', ignoring annotation"
    )
    assert run(["explain", "node", "old", *BASE, "-f", str(file)]) == 0
    assert "What cannot be read" in capsys.readouterr().out


def test_a_node_without_a_pool_is_never_disrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "node.yaml"
    file.write_text(NODE)
    assert explained(capsys, "node", "old", *BASE, "-f", str(file))["disruption"] == {"managed": False}


def test_what_rules_cost(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(capsys, "cost", *BASE, "--tries", "3")
    assert found["lowerBound"] <= found["monthly"]
    for rule in found["rules"]:
        assert 0 <= rule["atLeast"] <= rule["atMost"]
        assert rule["atLeast"] <= rule["saved"] + 0.01 or rule["saved"] < 0
    assert len(found["rules"]) + len(found["notComparable"]) == 3
    assert found["notTried"]
    assert run(["explain", "cost", *BASE, "--tries", "2"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "The plan costs $" in out
    assert "not tried (see --tries)" in out


def test_the_rules_of_a_cluster_where_all_pods_run_have_prices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if it were empty: its pool keeps to spot or m5 and the like, which cost something."""
    given = ("-f", str(write(tmp_path / "shop", 0.01)), "--work", "20000", "--tries", "2")
    found = explained(capsys, "cost", *given)
    assert found["monthly"] > 0 and len(found["rules"]) == 2
    assert all(0 <= rule["atLeast"] <= rule["atMost"] for rule in found["rules"])
    assert run(["explain", "cost", *given]) == 0
    assert "pods are planned as if the cluster were empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["pod", "default/web-77"], "did you mean default/web-7"),
        (["pod", "web"], "there is no pod default/web among the manifests did you mean default/web-0"),
        (["pod", "shop/DATABASE-1"], "did you mean default/database-1?"),
        (["pod", "a/b/c"], "'a/b/c' is no name of a pod write NAMESPACE/NAME"),
        (["pod", ""], "an argument is empty"),
        (["pod", "shop/there"], "did you mean default/there?"),
        (["pod", "done"], "pod default/done has finished, so it needs no node"),
        (["pod"], "NAME"),
        (["pods", "x"], "there is no such command"),
        (["node", "general-99"], "did you mean general-"),
        (["node", "general"], "there is no node general in the plan or the manifests"),
        (["cost", "--tries", "0"], "--tries: 0 is less than 1"),
        (["cost", "--tries", "many"], "many"),
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
