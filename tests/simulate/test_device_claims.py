"""Claims for devices in a simulated cluster: made from templates, allocated by the scheduler, given back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load

SCENARIO = """\
apiVersion: simulation.dovetail.dev/v1alpha1
kind: Scenario
name: gpus
region: us-east-1
duration: 10m
nodeGroups:
  - {name: gpus, instanceType: g5.12xlarge, count: 1, zones: [us-east-1a]}
settings: {ignoreDRARequests: false}
"""
CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors:
    - cel:
        expression: |-
          device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: ml}
spec:
  spec:
    devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml}
spec:
  completions: 6
  parallelism: 6
  template:
    metadata: {annotations: {simulation.dovetail.dev/duration: 2m}}
    spec:
      restartPolicy: Never
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
      containers:
        - name: main
          image: train:1
          resources: {requests: {cpu: "1", memory: 1Gi}, claims: [{name: gpu}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("scenario", SCENARIO), ("class", CLASS), ("job", JOB)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def played(folder: Path) -> list[dict[str, Any]]:
    return list(simulate(load(folder), events=folder / "log.jsonl").records)


def test_a_gpu_is_one_pods_at_a_time(folder: Path) -> None:
    records = played(folder)
    kinds = Counter(record["kind"] for record in records)
    assert kinds["pod.running"] == 6, kinds
    running, most = set[str](), 0
    for record in records:
        if record["kind"] == "pod.running":
            running.add(record["pod"])
        elif record["kind"] == "pod.finished":
            running.discard(record["pod"])
        most = max(most, len(running))
    assert most == 4
    refused = [record["message"] for record in records if record["kind"] == "pod.unschedulable"]
    assert any("cannot allocate all claims" in text for text in refused)


def test_claims_that_pods_name_are_shared_and_let_go(folder: Path) -> None:
    """Two pods share the one claim they name; a third, for all that is left, waits until both have ended."""
    claims = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: ours, namespace: ml}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 3}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: theirs, namespace: ml}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, allocationMode: All}}]}}
"""
    (folder / "job.yaml").write_text(claims)
    for name, claim in (("a", "ours"), ("b", "ours"), ("c", "theirs")):
        pod = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: ml, annotations: {{simulation.dovetail.dev/duration: 1m}}}}
spec:
  restartPolicy: Never
  resourceClaims: [{{name: gpu, resourceClaimName: {claim}}}]
  containers: [{{name: main, image: a:1, resources: {{requests: {{cpu: "1"}}, claims: [{{name: gpu}}]}}}}]
"""
        (folder / f"pod-{name}.yaml").write_text(pod)
    at = {
        (record["kind"], record["pod"]): record["t"]
        for record in played(folder)
        if record["kind"] in ("pod.bound", "pod.finished")
    }
    assert at["pod.bound", "ml/b"] < at["pod.finished", "ml/a"]
    ends = sorted(at["pod.finished", f"ml/{name}"] for name in "ab")
    bound = at["pod.bound", "ml/c"]
    assert bound > ends[1] or bound < min(at["pod.bound", "ml/a"], at["pod.bound", "ml/b"])
    assert ("pod.finished", "ml/c") in at


@pytest.mark.parametrize("missing", ["class", "job"])
def test_pods_whose_claims_cannot_be_met_wait(folder: Path, missing: str) -> None:
    """Without the class nothing is allocated; without the template no claim is made, and no pod is tried."""
    if missing == "class":
        (folder / "class.yaml").write_text(CLASS.partition("---\n")[2])
    else:
        (folder / "class.yaml").write_text(CLASS.partition("---\n")[0])
    kinds = Counter(record["kind"] for record in played(folder))
    assert kinds["pod.created"] == 6
    assert kinds["pod.running"] == 0
    assert (kinds["pod.unschedulable"] > 0) is (missing == "class")


def test_claims_are_left_alone_where_they_are_ignored(folder: Path) -> None:
    (folder / "scenario.yaml").write_text(SCENARIO.replace("ignoreDRARequests: false", ""))
    kinds = Counter(record["kind"] for record in played(folder))
    assert kinds["pod.running"] == 6


POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpus}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.12xlarge]}
  disruption: {consolidateAfter: 1m, budgets: [{nodes: "100%"}]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: simulation}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: simulation}}]
"""
SERVICE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: infer, namespace: ml}
spec:
  replicas: 24
  selector: {matchLabels: {app: infer}}
  template:
    metadata: {labels: {app: infer}}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
      containers:
        - name: main
          image: infer:1
          resources: {requests: {cpu: "3", memory: 8Gi}, claims: [{name: gpu}]}
"""


def test_nodes_are_bought_for_claims_and_go_again_with_their_pods_moved(folder: Path) -> None:
    """24 pods with a GPU each on six nodes of four; nine of them stay, which three nodes have GPUs for."""
    (folder / "job.yaml").write_text(SERVICE)
    (folder / "changes").mkdir()
    (folder / "changes" / "less.yaml").write_text(SERVICE.replace("replicas: 24", "replicas: 9"))
    (folder / "pool.yaml").write_text(POOL)
    scenario = SCENARIO.replace("10m", "30m").partition("nodeGroups")[0]
    (folder / "scenario.yaml").write_text(
        f"{scenario}cluster: {{name: simulation}}\n"
        'changes: [{at: "09:10", file: changes/less.yaml}]\n'
        "settings: {ignoreDRARequests: false, featureGates: {DRANVIDIAGPU: true}}\n"
    )
    run = simulate(load(folder), events=folder / "log.jsonl")
    kinds = Counter(record["kind"] for record in run.records)
    assert kinds["instance.started"] == 6
    assert kinds["instance.terminated"] == 3
    moved = [record for record in run.records if record["kind"] == "disrupted"]
    assert {record["reason"] for record in moved} == {"empty", "underutilized"}
    running = set[str]()
    for record in run.records:
        if record["kind"] == "pod.running":
            running.add(record["pod"])
        elif record["kind"] == "pod.deleted":
            running.discard(record["pod"])
    assert len(running) == 9
    assert not [record for record in run.records if record["kind"] == "violation"]
