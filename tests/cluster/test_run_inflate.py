"""The controller on a whole cluster with kwok nodes: a Deployment of one pod a node grows and shrinks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.processes import free_ports, write
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import Controller, eventually

LEASE = ("get", "lease", "-n", "kube-system", "karpenter-leader-election", "-o", "json")

POOL = """
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: 2s
    budgets: [{nodes: "100%"}]
"""

INFLATE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: inflate}
spec:
  replicas: 1
  selector: {matchLabels: {app: inflate}}
  template:
    metadata: {labels: {app: inflate}}
    spec:
      terminationGracePeriodSeconds: 0
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: inflate}}}
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions: [{key: karpenter.sh/nodepool, operator: In, values: [default]}]
      containers:
      - {name: inflate, image: "registry.k8s.io/pause:3.7", resources: {requests: {cpu: "1"}}}
"""

# Stands for a metrics server: the API server itself answers what pods use.
METERS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: pods.metrics.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, of a test"}
spec:
  group: metrics.k8s.io
  scope: Namespaced
  names: {kind: PodMetrics, plural: pods}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
METER = """
apiVersion: metrics.k8s.io/v1beta1
kind: PodMetrics
metadata: {name: NAME}
containers: [{name: inflate, usage: {cpu: 250000000n, memory: 65536Ki}}]
"""


@pytest.fixture(scope="module")
def prepared() -> Iterator[ControlPlane]:
    """A cluster of its own: what these tests leave, as a newcomer would, is in no other test's way."""
    with ControlPlane(build()) as plane:
        define(plane)
        yield plane


def kubectl(plane: ControlPlane, *arguments: str, stdin: str = "") -> Any:
    printed = plane.run("kubectl", *arguments, stdin=stdin)
    return json.loads(printed) if arguments[-1] == "json" else printed


def nodes(plane: ControlPlane) -> tuple[int, int, int]:
    """Claims that are Ready, their nodes, and pods that run."""
    claims = kubectl(plane, "get", "nodeclaims", "-o", "json")["items"]
    ready = [
        claim
        for claim in claims
        for item in claim.get("status", {}).get("conditions", ())
        if (item["type"], item["status"]) == ("Ready", "True")
    ]
    pods = kubectl(plane, "get", "pods", "-l", "app=inflate", "-o", "json")["items"]
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    there = kubectl(plane, "get", "nodes", "-l", "karpenter.sh/nodepool", "-o", "json")["items"]
    return len(ready), len(there), len(running)


def scaled(plane: ControlPlane, count: int) -> None:
    plane.run("kubectl", "scale", "deployment/inflate", f"--replicas={count}")
    eventually(lambda: nodes(plane), lambda found: found == (count, count, count))


def test_one_six_one(prepared: ControlPlane, tmp_path: Path) -> None:
    kubectl(prepared, "apply", "-f", "-", stdin=POOL + "---" + METERS)
    (port,) = free_ports(1)
    costs = ("--cost-store", str(tmp_path / "cost.db"), "--cost-api-port", str(port))
    with Controller(prepared, tmp_path, "--batch-idle-duration", "500ms", *costs) as controller:
        kubectl(prepared, "apply", "-f", "-", stdin=INFLATE)
        for count in (1, 6, 1):
            scaled(prepared, count)
            measured(prepared)
        check_endpoints(controller)
        check_page(port)
        check_use(port)
        check_log(controller)
        check_secrets(prepared, controller)
        assert kubectl(prepared, *LEASE)["spec"]["holderIdentity"]
        assert controller.stop() == 0
        assert not kubectl(prepared, *LEASE)["spec"].get("holderIdentity")
    check_objects(prepared)


def check_endpoints(controller: Controller) -> None:
    assert controller.asked("/readyz") == (200, "ok")
    assert controller.asked("/healthz") == (200, "ok")
    status, metrics = controller.asked("/metrics")
    assert status == 200
    assert 'leader_election_master_status{name="karpenter-leader-election"} 1.0' in metrics
    assert re.search(r'client_go_request_total\{code="20[01]",method="\w+"\} ', metrics)
    assert 'nodepool="default",reason="provisioned"} 6.0' in metrics


def check_page(port: int) -> None:
    """What is so now, and the decisions that led to it."""

    def shown() -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/present.json", timeout=30) as answer:
            return json.load(answer)

    now = eventually(shown, lambda found: len(found["nodes"]) == 1 and not found["pending"])
    (node,) = now["nodes"]
    assert (node["pool"], node["pods"], node["ready"]) == ("default", 1, "Ready")
    launches = [row for row in now["decisions"] if row["what"] == "launch"]
    assert sum(row["pods"] for row in launches) == 6
    assert any(node["claim"] in row["claims"] for row in launches)
    assert {"launch", "disruption"} <= {row["what"] for row in now["decisions"]}
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/data.json", timeout=60) as answer:
        assert node["name"] in answer.read().decode()


def measured(plane: ControlPlane) -> None:
    pods = kubectl(plane, "get", "pods", "-l", "app=inflate", "-o", "json")["items"]
    meters = [METER.replace("NAME", pod["metadata"]["name"]) for pod in pods]
    eventually(lambda: plane.run("kubectl", "apply", "-f", "-", stdin="---".join(meters)), bool)


def check_use(port: int) -> None:
    """A quarter of the core that each pod asks for, as the meters say."""
    question = "/allocation?window=1h&aggregate=pod&filter=controllerName:%22inflate%22"

    def shown() -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{question}", timeout=30) as answer:
            return json.load(answer)["data"][0].values()

    found = eventually(shown, lambda pods: any(pod["cpuCoreUsageAverage"] for pod in pods), seconds=90)
    used = next(pod for pod in found if pod["cpuCoreUsageAverage"])
    assert (used["cpuCoreRequestAverage"], used["cpuCoreUsageAverage"], used["cpuEfficiency"]) == (
        1,
        0.25,
        0.25,
    )
    assert used["ramByteUsageAverage"] == 64 * 2**20


def check_log(controller: Controller) -> None:
    """The lines of a scale-up and of a scale-down, in their order."""
    messages = [line["message"] for line in controller.lines()]
    wanted = [
        "leading",
        "found provisionable pod(s)",
        "computed new nodeclaim(s) to fit pod(s)",
        "created nodeclaim",
        "launched nodeclaim",
        "registered nodeclaim",
        "initialized nodeclaim",
        "disrupting node(s)",
        "tainted node",
        "deleted node",
        "deleted nodeclaim",
    ]
    places = [messages.index(message) for message in wanted]
    assert places == sorted(places)
    assert [len(controller.lines(f"{verb} nodeclaim")) for verb in ("created", "deleted")] == [6, 5]
    assert not [line for line in controller.lines() if line["level"] == "ERROR"]


def check_secrets(plane: ControlPlane, controller: Controller) -> None:
    text = controller.log.read_text()
    assert not [user for user, token in plane.tokens.items() if token in text]


def check_objects(plane: ControlPlane) -> None:
    (node,) = kubectl(plane, "get", "nodes", "-l", "karpenter.sh/nodepool=default", "-o", "json")["items"]
    labels = node["metadata"]["labels"]
    assert node["spec"]["providerID"].startswith("kwok://")
    assert labels["node.kubernetes.io/instance-type"] == "c-1x-amd64-linux"
    assert labels["karpenter.sh/initialized"] == "true"
    assert labels["eks-node-viewer/instance-price"] == "0.027147484"
    assert not [taint for taint in node["spec"].get("taints", ()) if "karpenter" in taint["key"]]
    reasons = plane.run("kubectl", "get", "events", "-A", "-o", "jsonpath={.items[*].reason}").split()
    assert {"Nominated", "Launched", "Registered", "Initialized", "DisruptionTerminating"} <= set(reasons)


def test_another_leader_is_waited_for(prepared: ControlPlane, tmp_path: Path) -> None:
    with Controller(prepared, tmp_path, "--leader-election-name", "test-lease") as first:
        eventually(lambda: first.lines("leading"), bool, seconds=30)
        with Controller(prepared, tmp_path, LEADER_ELECTION_NAME="test-lease") as second:
            message = "another controller leads, waiting for its lease"
            (line,) = eventually(lambda: second.lines(message), bool, seconds=30)
            assert line["lease"] == "kube-system/test-lease"
            assert second.asked("/readyz") == (200, "ok")
            assert first.stop() == 0
            eventually(lambda: second.lines("leading"), bool, seconds=20)
            assert second.stop() == 0


def test_one_that_waits_may_keep_its_lists(prepared: ControlPlane, tmp_path: Path) -> None:
    lease = ("--leader-election-name", "warm-lease")
    with Controller(prepared, tmp_path, *lease) as first:
        eventually(lambda: first.lines("leading"), bool, seconds=30)
        with Controller(prepared, tmp_path, *lease, DISABLE_CONTROLLER_WARMUP="false") as second:
            eventually(lambda: second.asked("/readyz"), lambda found: found == (200, "ok"), seconds=30)
            eventually(lambda: second.lines("another controller leads, waiting for its lease"), bool)
            assert first.stop() == 0
            kubectl(prepared, "apply", "-f", "-", stdin=POOL)
            kubectl(prepared, "apply", "-f", "-", stdin=INFLATE)
            eventually(lambda: nodes(prepared), lambda found: found == (1, 1, 1))
            scaled(prepared, 0)
            assert second.stop() == 0


def test_a_stranger_is_sent_away(prepared: ControlPlane, tmp_path: Path) -> None:
    config = json.loads(prepared.kubeconfig.read_text())
    config["users"][0]["user"]["token"] = "expired"
    path = write(tmp_path / "config", config)
    command = (sys.executable, "-m", "dovetail", "run", "--kubeconfig", str(path))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "does not take these credentials: unknown, or expired" in done.stderr
    assert "Traceback" not in done.stderr
