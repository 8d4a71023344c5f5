"""A chart's rights, and a life of nodes in which each of them is needed."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

from tests.cluster.controlplane.processes import write
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import eventually

SPACE = "rights"
CHANGED = {
    "template": {"metadata": {"labels": {"generation": "new"}}},
    "disruption": {"budgets": [{"nodes": "100%"}]},
}
# Two pods on two nodes; the marked one must be deleted, as it may not be evicted. The third goes soon.
# Each waits to be told that it stays off spot.
POD = """
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: rights
  labels: {{app: rights}}
  annotations: {{karpenter.sh/do-not-disrupt: "{marked}", dovetail.dev/on-demand: "1"}}
spec:
  schedulingGates: [{{name: dovetail.dev/on-demand}}]
  terminationGracePeriodSeconds: 0
  nodeSelector: {{karpenter.sh/nodepool: rights}}
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: rights}}}}}}
  containers: [{{name: main, image: pause, resources: {{requests: {{cpu: "1"}}}}}}]
---
"""


def granted(plane: ControlPlane, name: str, *others: tuple[str, ...]) -> set[tuple[str, str]]:
    """Verbs and resources that roles allow: the release's, by its full name, and `others`."""
    found: set[tuple[str, str]] = set()
    for role in (("clusterrole", name), ("role", name, "--namespace", SPACE), *others):
        for rule in json.loads(plane.run("kubectl", "get", *role, "-o", "json"))["rules"]:
            named = [
                f"{group}/{kind}".lstrip("/") for group in rule["apiGroups"] for kind in rule["resources"]
            ]
            found |= set(product(rule["verbs"], named))
    return found


def as_the_charts_account(plane: ControlPlane, folder: Path, name: str) -> Path:
    """The kubeconfig of the account that the chart made under that name."""
    token = plane.run("kubectl", "--namespace", SPACE, "create", "token", name).strip()
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    return write(folder / "account.kubeconfig", config)


def live_through_everything(plane: ControlPlane) -> None:
    """Nodes come; one is empty and may not go, which is reported more than once; all are replaced, and go."""
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


def leave(plane: ControlPlane, *releases: str) -> None:
    """Uninstall, and leave no lease and no event from which another life would go on."""
    for release in releases:
        plane.run("helm", "uninstall", release, "--namespace", SPACE)
    plane.run("kubectl", "delete", "namespace", SPACE)
    chosen = ("--field-selector", "involvedObject.name=rights")
    plane.run("kubectl", "--namespace", "default", "delete", "events", *chosen)
