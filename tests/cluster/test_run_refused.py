"""What keeps the controller from starting: one line that says what and how to mend it, exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

from dovetail.api.crd import definition
from dovetail.api.karpenter.definitions import DEFINITIONS
from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.processes import free_ports, write
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import Controller, eventually, said


def test_a_cluster_without_the_crds_and_with_old_ones() -> None:
    # One of its own: other tests install them into theirs.
    with ControlPlane(build(), nodes=False, controllers="serviceaccount") as plane:
        code, complaint = said(plane)
        assert code == 2
        assert "the cluster has no nodepools.karpenter.sh (CustomResourceDefinition)" in complaint
        assert "dovetail crds | kubectl apply" in complaint
        # NodePools of an earlier version, among others that are as they should be.
        documents = [definition(kind) for kind in DEFINITIONS]
        for one in documents:
            if one["metadata"]["name"] == "nodepools.karpenter.sh":
                one["spec"]["versions"][0]["name"] = "v1beta1"
        several = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        plane.run("kubectl", "apply", "--server-side", "-f", "-", stdin=several)
        code, complaint = eventually(lambda: said(plane), lambda found: "v1beta1" in found[1])
        assert code == 2
        assert "the cluster serves nodepools.karpenter.sh as v1beta1, not as v1\n" in complaint
        assert "dovetail crds | kubectl apply" in complaint


def test_no_server_answers(api_server: ControlPlane, tmp_path: Path) -> None:
    config = json.loads(api_server.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_ports(1)[0]}"
    code, complaint = said(api_server, "--kubeconfig", str(write(tmp_path / "config", config)))
    assert code == 2
    assert "does not answer" in complaint
    assert "SSLContext" not in complaint
    assert "check the server's address" in complaint


def test_a_server_that_no_authority_vouches_for(api_server: ControlPlane, tmp_path: Path) -> None:
    config = json.loads(api_server.kubeconfig.read_text())
    del config["clusters"][0]["cluster"]["certificate-authority"]
    code, complaint = said(api_server, "--kubeconfig", str(write(tmp_path / "config", config)))
    assert code == 2
    assert "certificate" in complaint.lower()


def test_a_plugin_that_fails(api_server: ControlPlane, tmp_path: Path) -> None:
    config = json.loads(api_server.kubeconfig.read_text())
    version = "client.authentication.k8s.io/v1"
    plugin = {"apiVersion": version, "command": "sh", "args": ["-c", "echo log in first >&2; exit 3"]}
    config["users"][0]["user"] = {"exec": plugin}
    code, complaint = said(api_server, "--kubeconfig", str(write(tmp_path / "config", config)))
    assert code == 2
    assert "the credential plugin sh ended with exit code 3: log in first" in complaint


def test_no_rights(api_server: ControlPlane, tmp_path: Path) -> None:
    path = api_server.write_kubeconfig("system:kube-scheduler", tmp_path / "config")
    code, complaint = said(api_server, "--kubeconfig", str(path))
    assert code == 2
    assert 'cannot list resource "nodepools"' in complaint


def test_a_token_that_ends_while_it_runs(api_server: ControlPlane, tmp_path: Path) -> None:
    define(api_server)
    account, binding = ("serviceaccount", "short-lived"), ("clusterrolebinding", "short-lived")
    api_server.run("kubectl", "create", *account)
    api_server.run(
        "kubectl", "create", *binding, "--clusterrole=cluster-admin", "--serviceaccount=default:short-lived"
    )
    config = json.loads(api_server.kubeconfig.read_text())
    token = api_server.run("kubectl", "create", "token", "short-lived").strip()
    config["users"][0]["user"] = {"token": token}
    variables = {"KUBECONFIG": str(write(tmp_path / "config", config)), "DISABLE_LEADER_ELECTION": "true"}
    try:
        with Controller(api_server, tmp_path, "--provider", "kwok", **variables) as controller:
            eventually(lambda: controller.asked("/readyz"), lambda found: found == (200, "ok"))
            api_server.run("kubectl", "delete", *account)
            code, missing = eventually(lambda: controller.asked("/readyz"), lambda found: found[0] == 503)
            assert code == 503
            assert missing.endswith("does not take these credentials: unknown, or expired")
            told_of = eventually(lambda: [line for line in controller.lines() if line.get("error")], bool)
            assert told_of[0]["error"].endswith("log in again, or renew the token")
    finally:
        api_server.run("kubectl", "delete", *binding)
        api_server.run("kubectl", "delete", *account, "--ignore-not-found")
