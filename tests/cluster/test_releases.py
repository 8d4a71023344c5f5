"""Releases of the charts on a real cluster: install, upgrade, uninstall, and what stays."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cluster.controlplane.start import ControlPlane, StartError
from tests.cluster.helm import CHARTS, VALUES

SPACE = "karpenter"
_NODE = """
apiVersion: v1
kind: Node
metadata:
  name: base-{zone}
  annotations: {{kwok.x-k8s.io/node: fake}}
  labels:
    kubernetes.io/hostname: base-{zone}
    kubernetes.io/os: linux
    topology.kubernetes.io/zone: zone-{zone}
status:
  capacity: {{cpu: "8", memory: 16Gi, pods: "110"}}
  allocatable: {{cpu: "8", memory: 16Gi, pods: "110"}}
---
"""


@pytest.fixture
def base(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster with two nodes in two zones: the controller's replicas need that many."""
    cluster.run("kubectl", "apply", "-f", "-", stdin="".join(_NODE.format(zone=zone) for zone in "ab"))
    yield cluster
    cluster.run("kubectl", "delete", "node", "base-a", "base-b")


def _objects(plane: ControlPlane, kinds: str) -> list[str]:
    listed = plane.run(
        "kubectl", "get", kinds, "-A", "-l", "app.kubernetes.io/instance=dovetail", "-o", "name"
    )
    return sorted(listed.split())


def _may(plane: ControlPlane, *action: str) -> bool:
    account = f"--as=system:serviceaccount:{SPACE}:dovetail"
    try:
        return plane.run("kubectl", "auth", "can-i", *action, account).strip() == "yes"
    except StartError:  # kubectl says "no" with an exit code as well
        return False


def test_the_controller_is_installed_upgraded_and_uninstalled(base: ControlPlane) -> None:
    chart = str(CHARTS / "dovetail")
    common = ("--namespace", SPACE, "--values", str(VALUES / "karpenter.yaml"), "--wait", "--timeout", "120s")
    said = base.run("helm", "install", "dovetail", chart, "--create-namespace", *common)
    assert "Helm installs CRDs once and never upgrades them" in said
    assert "dovetail:0.1.0" in said, "it says that Karpenter's image is not used"
    in_space = ("kubectl", "-n", SPACE, "get")
    ready = (*in_space, "deployment", "dovetail", "-o", "jsonpath={.status.readyReplicas}")
    assert base.run(*ready) == "2"
    on = base.run(*in_space, "pods", "-o", "jsonpath={range .items[*]}{.spec.nodeName}{' '}{end}")
    assert sorted(on.split()) == ["base-a", "base-b"]
    _rights_are_narrow(base)

    changed = ("--set", "settings.batchIdleDuration=2s", "--set", "replicas=1")
    base.run("helm", "upgrade", "dovetail", chart, *common, *changed)
    assert base.run(*ready) == "1"
    deployment = json.loads(base.run(*in_space, "deployment", "dovetail", "-o", "json"))
    variables = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "BATCH_IDLE_DURATION", "value": "2s"} in variables

    base.run("helm", "uninstall", "dovetail", "--namespace", SPACE, "--wait")
    kinds = "deployments,services,serviceaccounts,poddisruptionbudgets,roles,rolebindings"
    assert _objects(base, f"{kinds},clusterroles,clusterrolebindings") == []
    assert "nodepools.karpenter.sh" in base.run("kubectl", "get", "crds", "-o", "name")


def _rights_are_narrow(plane: ControlPlane) -> None:
    assert all(_may(plane, verb, "pods", "-A") for verb in ("list", "watch", "delete"))
    assert _may(plane, "create", "pods", "-A", "--subresource=eviction")
    assert _may(plane, "create", "nodeclaims.karpenter.sh") and _may(plane, "delete", "nodes")
    assert _may(plane, "patch", "nodeclaims.karpenter.sh", "--subresource=status")
    lease = "leases.coordination.k8s.io/karpenter-leader-election"
    assert _may(plane, "get", lease, "-n", SPACE) and _may(plane, "patch", lease, "-n", SPACE)
    assert not _may(plane, "patch", lease, "-n", "default")
    assert not _may(plane, "patch", "leases.coordination.k8s.io/another", "-n", SPACE)
    for action in ("get secrets", "list configmaps", "create pods", "create nodes", "patch pods"):
        assert not _may(plane, *action.split(), "-A"), action
    assert not _may(plane, "delete", "nodepools.karpenter.sh")
    assert not _may(plane, "create", "clusterroles.rbac.authorization.k8s.io")


def test_definitions_are_upgraded_and_outlive_their_release(cluster: ControlPlane) -> None:
    chart = str(CHARTS / "dovetail-crds")
    # Those that the other chart brought are taken over, as those of Karpenter's charts would be.
    where = ("--namespace", SPACE, "--create-namespace")
    cluster.run("helm", "install", "crds", chart, *where, "--take-ownership", "--wait")
    cluster.run("kubectl", "label", "crd", "nodepools.karpenter.sh", "app.kubernetes.io/part-of=test")
    cluster.run("helm", "upgrade", "crds", chart, *where)
    cluster.run("helm", "uninstall", "crds", "--namespace", SPACE)
    names = cluster.run("kubectl", "get", "crds", "-o", "name").split()
    assert sum("karpenter" in name or "autoscaling.x-k8s.io" in name for name in names) == 6


def test_pools_are_installed_changed_and_removed(cluster: ControlPlane) -> None:
    definitions = sorted((CHARTS / "dovetail-crds" / "definitions").iterdir())
    files = [f"--filename={path}" for path in definitions]
    cluster.run("kubectl", "apply", "--server-side", "--force-conflicts", *files)
    listed = ("kubectl", "get", "nodepools,ec2nodeclasses,kwoknodeclasses", "-o", "name")
    chart, values = str(CHARTS / "dovetail-nodepools"), str(VALUES / "nodepools.yaml")
    cluster.run("helm", "install", "pools", chart, "--values", values)
    assert cluster.run(*listed).split() == [
        "nodepool.karpenter.sh/default",
        "nodepool.karpenter.sh/trial",
        "ec2nodeclass.karpenter.k8s.aws/default",
        "kwoknodeclass.karpenter.kwok.sh/trial",
    ]
    cluster.run("helm", "upgrade", "pools", chart, "--values", values, "--set", "nodePool.trial.weight=7")
    weight = ("kubectl", "get", "nodepool", "trial", "-o", "jsonpath={.spec.weight}")
    assert cluster.run(*weight) == "7"
    with pytest.raises(StartError, match="label domain"):
        cluster.run(
            *("helm", "upgrade", "pools", chart, "--values", values),
            *("--set", r"nodePool.trial.labels.karpenter\.sh/own=x"),
        )
    cluster.run("helm", "uninstall", "pools", "--wait")
    assert cluster.run(*listed) == ""
