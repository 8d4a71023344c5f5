"""AWS beside a control plane: moto in its place, and the nodes that its instances would have become."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dovetail.cloud.aws.amifamily import images
from tests.cluster.controlplane.start import ControlPlane
from tests.conformance.aws_accounts import CLUSTER, REGION, ROLE, moto_table, put_parameter, served, settle

_LOOK_SECONDS = 0.5
_UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}


def pool(name: str) -> str:
    """Manifests of an EC2NodeClass for the account, and of a NodePool on it."""
    return f"""
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: {name}}}
spec:
  role: {ROLE}
  amiSelectorTerms: [{{alias: al2023@latest}}]
  subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: {CLUSTER}}}}}]
  securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: {CLUSTER}}}}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
  disruption: {{consolidateAfter: 1s, budgets: [{{nodes: "0"}}]}}
  template:
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: {name}}}
      terminationGracePeriod: 20s
      requirements:
      - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
      - {{key: kubernetes.io/arch, operator: In, values: [amd64]}}
"""


@contextmanager
def on_moto(plane: ControlPlane) -> Iterator[dict[str, str]]:
    """The environment of a process that talks to an account with images for that control plane."""
    version = plane.run("kubectl", "version", "-o", "json")
    minor = ".".join(json.loads(version)["serverVersion"]["gitVersion"][1:].split(".")[:2])
    with served() as endpoint:
        settled = settle()
        for item in images.parameters("al2023@latest", minor):
            put_parameter(moto_table("ssm"), item.name, settled.image)
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
        }


@contextmanager
def joining(plane: ControlPlane, pool: str) -> Iterator[None]:
    """Instances of the pool's claims join the cluster while the block lasts: kwok plays their nodes."""
    stop = threading.Event()

    def work() -> None:
        joined: set[str] = set()
        while not stop.wait(_LOOK_SECONDS):
            chosen = ("-l", f"karpenter.sh/nodepool={pool}", "-o", "json")
            for claim in json.loads(plane.run("kubectl", "get", "nodeclaims", *chosen))["items"]:
                name = claim["metadata"]["name"]
                if "providerID" in claim.get("status", {}) and name not in joined:
                    plane.run("kubectl", "create", "-f", "-", stdin=json.dumps(_node(claim)))
                    joined.add(name)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _node(claim: dict[str, Any]) -> dict[str, Any]:
    """What the kubelet of the claim's instance registers."""
    name, status = claim["metadata"]["name"], claim["status"]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"providerID": status["providerID"], "taints": [_UNREGISTERED]},
        "status": {"capacity": status["capacity"], "allocatable": status["allocatable"]},
    }
