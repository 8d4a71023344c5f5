"""The controller with nothing but the rights that the chart gives: a node comes, and goes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.controlplane.processes import write
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.helm import CHARTS
from tests.cluster.running import Controller, eventually

SPACE = "rights"
POOLS = "nodePool: {rights: {nodeClassRef: rights}}\nkwokNodeClass: {rights: {}}\n"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: rights}
spec:
  nodeSelector: {karpenter.sh/nodepool: rights}
  containers: [{name: main, image: pause, resources: {requests: {cpu: "1"}}}]
"""


def _as_the_charts_account(plane: ControlPlane, folder: Path) -> Path:
    token = plane.run("kubectl", "--namespace", SPACE, "create", "token", "dovetail").strip()
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    return write(folder / "account.kubeconfig", config)


def test_the_charts_rights_are_enough(cluster: ControlPlane, tmp_path: Path) -> None:
    where = ("--namespace", SPACE, "--create-namespace")
    settings = ("--set", "settings.provider=kwok", "--set", "replicas=0")
    cluster.run("helm", "install", "dovetail", str(CHARTS / "dovetail"), *where, *settings)
    cluster.run(
        "helm", "install", "pools", str(CHARTS / "dovetail-nodepools"), *where, "--values", "-", stdin=POOLS
    )
    config = _as_the_charts_account(cluster, tmp_path)
    flags = ("--provider", "kwok", "--kubeconfig", str(config))
    with Controller(cluster, tmp_path, *flags, SYSTEM_NAMESPACE=SPACE) as controller:
        cluster.run("kubectl", "apply", "-f", "-", stdin=POD)
        cluster.run("kubectl", "wait", "pod/rights", "--for=condition=Ready", "--timeout=90s")
        cluster.run("kubectl", "delete", "nodepool", "rights")
        left = ("kubectl", "get", "nodes,nodeclaims", "-l", "karpenter.sh/nodepool=rights", "-o", "name")
        eventually(lambda: cluster.run(*left), lambda found: found == "")
        assert controller.stop() == 0
        assert "forbidden" not in controller.log.read_text().lower()
    cluster.run("kubectl", "delete", "pod", "rights", "--ignore-not-found", "--now")
    for release in ("pools", "dovetail"):
        cluster.run("helm", "uninstall", release, "--namespace", SPACE)
