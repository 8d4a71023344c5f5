"""The chart's rights against what the API server was asked: nothing is denied, and no right is unused."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

from tests.cluster.audit import account_of, asked, denied
from tests.cluster.controlplane.processes import write
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.helm import CHARTS
from tests.cluster.running import Controller, eventually

SPACE = "rights"
POOLS = """
nodePool:
  rights:
    nodeClassRef: rights
    terminationGracePeriod: 20s
    disruption: {consolidateAfter: 1s, budgets: [{nodes: "0"}]}
kwokNodeClass: {rights: {}}
"""
CHANGED = {
    "template": {"metadata": {"labels": {"generation": "new"}}},
    "disruption": {"budgets": [{"nodes": "100%"}]},
}
# Two pods on two nodes; the marked one must be deleted, as it may not be evicted. The third goes soon.
POD = """
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: rights
  labels: {{app: rights}}
  annotations: {{karpenter.sh/do-not-disrupt: "{marked}"}}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {{karpenter.sh/nodepool: rights}}
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: rights}}}}}}
  containers: [{{name: main, image: pause, resources: {{requests: {{cpu: "1"}}}}}}]
---
"""


def granted(plane: ControlPlane, name: str) -> set[tuple[str, str]]:
    """Verbs and resources that the chart's roles allow; `name` is the release's."""
    found: set[tuple[str, str]] = set()
    for role in (("clusterrole", name), ("role", name, "--namespace", SPACE)):
        for rule in json.loads(plane.run("kubectl", "get", *role, "-o", "json"))["rules"]:
            named = [
                f"{group}/{kind}".lstrip("/") for group in rule["apiGroups"] for kind in rule["resources"]
            ]
            found |= set(product(rule["verbs"], named))
    return found


def _as_the_charts_account(plane: ControlPlane, folder: Path) -> Path:
    token = plane.run("kubectl", "--namespace", SPACE, "create", "token", "dovetail").strip()
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    return write(folder / "account.kubeconfig", config)


def test_the_charts_rights_are_enough_and_none_is_too_many(cluster: ControlPlane, tmp_path: Path) -> None:
    where = ("--namespace", SPACE, "--create-namespace")
    settings = ("--set", "settings.provider=kwok", "--set", "replicas=0")
    cluster.run("helm", "install", "dovetail", str(CHARTS / "dovetail"), *where, *settings)
    cluster.run(
        "helm", "install", "pools", str(CHARTS / "dovetail-nodepools"), *where, "--values", "-", stdin=POOLS
    )
    config = _as_the_charts_account(cluster, tmp_path)
    flags = ("--provider", "kwok", "--kubeconfig", str(config))
    with Controller(cluster, tmp_path, *flags, SYSTEM_NAMESPACE=SPACE) as controller:
        _live_through_everything(cluster)
        assert controller.stop() == 0
    account = account_of(SPACE, "dovetail")
    assert denied(cluster, account) == []
    used = {(one.verb, one.resource) for one in asked(cluster, account)}
    assert sorted(granted(cluster, "dovetail") - used) == []
    for release in ("pools", "dovetail"):
        cluster.run("helm", "uninstall", release, "--namespace", SPACE)


def _live_through_everything(plane: ControlPlane) -> None:
    """Nodes come; one is empty and may not go, which is told more than once; all are replaced, and go."""
    marks = {"marked": "true", "ordinary": "false", "brief": "false"}
    pods = "".join(POD.format(name=name, marked=mark) for name, mark in marks.items())
    plane.run("kubectl", "apply", "-f", "-", stdin=pods)
    plane.run("kubectl", "-n", SPACE, "wait", "pods", "--all", "--for=condition=Ready", "--timeout=180s")
    plane.run("kubectl", "-n", SPACE, "delete", "pod", "brief")
    events = ("kubectl", "get", "events", "--field-selector=involvedObject.name=rights", "-o", "json")

    def most() -> int:
        found = json.loads(plane.run(*events))["items"]
        return max((one.get("count", 1) for one in found if one["reason"] == "DisruptionBlocked"), default=0)

    eventually(most, lambda found: found > 1, seconds=300)
    left = ("kubectl", "get", "nodes,nodeclaims", "-l", "karpenter.sh/nodepool=rights", "-o", "name")
    old = set(plane.run(*left).split())
    plane.run("kubectl", "patch", "nodepool", "rights", "--type=merge", "-p", json.dumps({"spec": CHANGED}))
    eventually(lambda: old & set(plane.run(*left).split()), lambda found: not found, seconds=300)
    plane.run("kubectl", "delete", "nodepool", "rights", "--wait=false")
    eventually(lambda: plane.run(*left), lambda found: found == "", seconds=180)
