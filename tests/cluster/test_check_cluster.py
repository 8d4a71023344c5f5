"""`dovetail check cluster` asks a real API server, which stores an older generation beside today's."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.cluster.controlplane.start import ControlPlane

OLD = ("provisioners", "Provisioner", "karpenter.sh", "v1alpha5")


def _definition(plural: str, kind: str, group: str, version: str) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
            ],
        },
    }


def _checked(plane: ControlPlane) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "dovetail", "check", "cluster", "-o", "json"]
    done = subprocess.run(
        [*command, "--kubeconfig", str(plane.kubeconfig)], capture_output=True, text=True, check=False
    )
    return done.returncode, json.loads(done.stdout)


def test_an_old_definition_its_objects_and_who_names_them_are_found(api_server: ControlPlane) -> None:
    code, answer = _checked(api_server)
    assert (code, answer["leftovers"]) == (0, [])
    pods = {"metadata": {"labels": {"app": "web"}}, "spec": {}}
    pods["spec"] = {
        "nodeSelector": {"karpenter.sh/provisioner-name": "default"},
        "containers": [{"name": "app", "image": "pause"}],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": pods},
    }
    provisioner = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "default"},
    }
    definition = _definition(*OLD)
    try:
        for document in (definition, deployment):
            api_server.run("kubectl", "apply", "-f", "-", stdin=json.dumps(document))
        name = f"crd/{definition['metadata']['name']}"
        api_server.run("kubectl", "wait", "--for=condition=Established", "--timeout=30s", name)
        api_server.run("kubectl", "apply", "-f", "-", stdin=json.dumps(provisioner))
        code, answer = _checked(api_server)
        assert code == 1
        assert [(item["step"], item["objects"]) for item in answer["leftovers"]] == [
            (2, ["CustomResourceDefinition provisioners.karpenter.sh"]),
            (1, ["Provisioner default"]),
            (1, ["Deployment default/web"]),
        ]
        assert answer["steps"][0]["state"] == "next"
    finally:
        api_server.run("kubectl", "delete", "crd", definition["metadata"]["name"], "--ignore-not-found")
        api_server.run("kubectl", "-n", "default", "delete", "deployment", "web", "--ignore-not-found")
