"""Documents of what comes and goes in a long life. A guest brings objects of every kind that is watched.

It has a namespace, a NodePool and a node class of its own, pods with a volume and a PodDisruptionBudget, a
DaemonSet, a StorageClass and a CSINode. Every name begins with that of the guest, so that whatever is kept of
one that is gone can be found.
"""

from __future__ import annotations

from typing import Any

from dovetail.api.core import Namespace, PersistentVolumeClaim
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.workloads import CSINode, DaemonSet, Deployment, PodDisruptionBudget, StorageClass
from dovetail.base.clock import SECOND

DISCOVERY = "karpenter.sh/discovery"


def node_class(
    cluster: str = "demo", *, tag: str = DISCOVERY, image: str = "al2023@latest"
) -> dict[str, Any]:
    """The EC2NodeClass `default`: subnets and groups with that tag of the cluster, images of that alias."""
    terms = [{"tags": {tag: cluster}}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": image}],
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
        },
    }


RUN = "batch.example/run"
BATCH = "batch"  # a namespace without budgets: the server looks through all pods of one that has some

# What a guest has, and what its name ends with.
KINDS: tuple[tuple[type[Object], str], ...] = (
    (Namespace, ""),
    (EC2NodeClass, "-class"),
    (NodePool, "-pool"),
    (StorageClass, "-disks"),
    (PersistentVolumeClaim, "-data"),
    (PodDisruptionBudget, "-budget"),
    (CSINode, "-machine"),
    (DaemonSet, "-agent"),
    (Deployment, "-web"),
)
Document = dict[str, Any]


def guest(name: str, cluster: str) -> list[Document]:
    """All that the guest brings, in an order in which it can be created."""
    own = {"app": name}
    spec = _spec(f"{name}-pool", "500m", volumes=[{"name": "data", "persistentVolumeClaim": {}}])
    spec["volumes"][0]["persistentVolumeClaim"]["claimName"] = f"{name}-data"
    documents: dict[type[Object], Document] = {
        Namespace: {},
        EC2NodeClass: {"spec": node_class(cluster)["spec"]},
        NodePool: {"spec": pool(f"{name}-pool", "WhenEmpty", [], node_class=f"{name}-class")["spec"]},
        StorageClass: {"provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"},
        PersistentVolumeClaim: {
            "spec": {"storageClassName": f"{name}-disks", "accessModes": ["ReadWriteOnce"]}
        },
        PodDisruptionBudget: {"spec": {"minAvailable": 1, "selector": {"matchLabels": own}}},
        CSINode: {"spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": name}]}},
        DaemonSet: _owner(f"{name}-agent", _spec(f"{name}-pool", "100m")),
        Deployment: _owner(name, spec, replicas=2),
    }
    for kind, ending in KINDS:
        meta = {"name": name + ending}
        if kind.NAMESPACED:
            meta["namespace"] = name
        documents[kind] |= {"apiVersion": kind.API_VERSION, "kind": kind.KIND, "metadata": meta}
    return list(documents.values())


def pool(name: str, policy: str, more: list[Document], *, node_class: str = "default") -> Document:
    """A NodePool whose taint keeps all pods away but its own."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": node_class}
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        *more,
    ]
    template: Document = {"spec": {"nodeClassRef": reference, "requirements": requirements}}
    template["spec"]["taints"] = [{"key": f"example/{name}", "effect": "NoSchedule"}]
    template["spec"]["expireAfter"] = "48h"  # longer than a wave, so that what stands is replaced too
    disruption = {"consolidationPolicy": policy, "consolidateAfter": "1m", "budgets": [{"nodes": "100%"}]}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, "disruption": disruption},
    }


def wave(name: str, pods: int, lasts: int) -> Document:
    """A Job whose pods all run at once, on nodes that are labelled with its name."""
    annotations = {"simulation.dovetail.dev/duration": f"{lasts // SECOND}s"}
    spec = _spec("for-batch", "1", nodeSelector={RUN: name}, restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": BATCH},
        "spec": {
            "completions": pods,
            "parallelism": pods,
            "template": {"metadata": {"annotations": annotations}, "spec": spec},
        },
    }


def website(name: str, replicas: int) -> list[Document]:
    """A Deployment that is spread over zones, with a budget, in a namespace of its own."""
    own = {"app": name}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": own},
    }
    spec = _spec("for-web", "500m", topologySpreadConstraints=[spread])
    meta = {"name": name, "namespace": name}
    budget = {"maxUnavailable": "20%", "selector": {"matchLabels": own}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            **_owner(name, spec, replicas=replicas),
        },
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": budget},
    ]


def agent() -> Document:
    """A DaemonSet on every node."""
    spec = _spec("agent", "100m") | {"tolerations": [{"operator": "Exists"}]}
    meta = {"name": "agent", "namespace": "kube-system"}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, **_owner("agent", spec)}


def _spec(pool: str, cpu: str, **more: Any) -> Document:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    return {
        "containers": [{"name": "main", "image": f"{pool}:1", "resources": resources}],
        "tolerations": [{"key": f"example/{pool}", "operator": "Exists"}],
        **more,
    }


def _owner(app: str, spec: Document, **more: Any) -> Document:
    """The spec of what makes such pods."""
    own = {"app": app}
    template = {"metadata": {"labels": own}, "spec": spec}
    return {"spec": {"selector": {"matchLabels": own}, "template": template, **more}}
