"""Dumps of clusters, as kubectl writes them, of any size: what questions about a real cluster are asked of.

`python -m benchmarks.clusters FOLDER --size 1` writes cluster.json.gz, of 1,340 nodes, 18,300 pods and six
NodePools that cost $40,200 a day, and new/pool.yaml, a change of one of them.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import yaml

from dovetail.cloud import catalog
from dovetail.model.offering import InstanceType
from dovetail.testing.guests import node_class

Document = dict[str, Any]
REGION = "us-east-1"
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
_MADE = "2026-02-02T09:00:00Z"
_AGENTS = {"logs": ("100m", 200), "metrics": ("100m", 150), "network": ("50m", 100), "csi": ("30m", 60)}
_READY = {"type": "Ready", "status": "True", "lastTransitionTime": _MADE}


@dataclass(frozen=True, slots=True)
class Kind:
    """A NodePool: `nodes` at full size, what they are, how full (of CPU), and its pods: (name, CPU, MiB)."""

    name: str
    nodes: int
    types: tuple[str, ...]
    spot: bool
    full: tuple[float, float]
    apps: tuple[tuple[str, float, int], ...]


POOLS = (
    Kind(
        "general",
        380,
        ("m5.8xlarge", "m5.4xlarge", "m5.12xlarge"),
        False,
        (0.35, 0.7),
        (("api", 2, 6144), ("orders", 1.5, 4096), ("cart", 1, 3072), ("mail", 0.5, 2048)),
    ),
    Kind(
        "web",
        300,
        ("m5.8xlarge", "m5a.8xlarge", "m6i.8xlarge", "c5.9xlarge"),
        True,
        (0.4, 0.75),
        (("front", 1.5, 2048), ("assets", 1, 1024), ("search", 3, 8192)),
    ),
    Kind(
        "memory",
        180,
        ("r5.8xlarge", "r5.4xlarge"),
        False,
        (0.35, 0.65),
        (("cache", 1, 14336), ("sessions", 1, 7168), ("index", 2, 20480)),
    ),
    Kind(
        "compute",
        220,
        ("c5.9xlarge", "c5.12xlarge"),
        False,
        (0.4, 0.8),
        (("render", 4, 6144), ("encode", 3, 4096), ("score", 2, 2048)),
    ),
    Kind(
        "batch",
        160,
        ("m5.12xlarge", "c5.9xlarge"),
        True,
        (0.3, 0.6),
        (("etl", 3, 12288), ("reports", 1.5, 6144)),
    ),
    Kind(
        "brokers",
        100,
        ("r5.8xlarge", "r5.4xlarge"),
        False,
        (0.5, 0.8),
        (("kafka", 3, 24576),),
    ),
)


def pool(kind: Kind) -> Document:
    bought = ["spot", "on-demand"] if kind.spot else ["on-demand"]
    families = sorted({name.partition(".")[0] for name in kind.types})
    wanted = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": bought},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": families},
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {
            "name": kind.name,
            "uid": f"uid-{kind.name}",
            "annotations": {"karpenter.sh/nodepool-hash": "11", "karpenter.sh/nodepool-hash-version": "v3"},
        },
        "spec": {
            "template": {
                "metadata": {"labels": {"team": kind.name}},
                "spec": {
                    "nodeClassRef": reference,
                    "requirements": wanted,
                    "taints": [{"key": "team", "value": kind.name, "effect": "NoSchedule"}],
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "5m",
                "budgets": [{"nodes": "10%"}],
            },
        },
    }


def cluster(size: float = 1.0) -> list[Document]:
    """All objects. The same size gives the same cluster."""
    dice = random.Random(1340)
    known = {one.name: one for one in catalog.instance_types(REGION)}
    made = node_class(image="al2023@v20250403")
    made["metadata"] |= {
        "uid": "uid-class",
        "annotations": {
            "karpenter.k8s.aws/ec2nodeclass-hash": "22",
            "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4",
        },
    }
    made["status"] = {
        "subnets": [{"id": f"subnet-0{zone[-1]}", "zone": zone} for zone in ZONES],
        "securityGroups": [{"id": "sg-01", "name": "nodes"}],
        "amis": [_image("amd64", "x86_64"), _image("arm64", "arm64")],
    }
    objects = [made, *map(pool, POOLS), *(_daemonset(name) for name in _AGENTS)]
    for kind in POOLS:
        objects += _filled(kind, max(2, round(kind.nodes * size)), known, dice)
    return objects


def _image(arch: str, theirs: str) -> Document:
    return {
        "id": f"ami-0{arch}",
        "name": f"amazon-eks-node-al2023-{theirs}-standard-1.33-v20250403",
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": [arch]}],
    }


def _filled(
    kind: Kind, nodes: int, known: dict[str, InstanceType], dice: random.Random
) -> Iterator[Document]:
    """Its nodes, each as full as the dice say, the pods on them, and their workloads with their budgets."""
    count = {name: 0 for name, _, _ in kind.apps}
    for number in range(nodes):
        item = known[dice.choice(kind.types)]
        zone = ZONES[number % 3]
        name = f"ip-10-{POOLS.index(kind)}-{number // 256}-{number % 256}.ec2.internal"
        yield from _node(kind, item, name, zone)
        for agent, (cpu, memory) in _AGENTS.items():
            owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": agent, "uid": f"uid-{agent}"}
            yield _pod(f"{agent}-{name.split('.')[0]}", agent, cpu, memory, name, owner)
        room = item.allocatable()
        cores = room["cpu"] / 1000 * dice.uniform(*kind.full)
        memory_left = room["memory"] / 2**20 * 0.9
        while True:
            app, cpu_each, memory_each = dice.choice(kind.apps)
            if cpu_each > cores or memory_each > memory_left:
                break
            cores, memory_left = cores - cpu_each, memory_left - memory_each
            owner = {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": f"{app}-1",
                "uid": f"uid-{app}-1",
            }
            pod = _pod(
                f"{app}-1-{count[app]:05d}", app, f"{round(cpu_each * 1000)}m", memory_each, name, owner
            )
            pod["spec"]["tolerations"] = _tolerated(kind)
            pod["spec"]["nodeSelector"] = {"team": kind.name}
            count[app] += 1
            yield pod
    for app, cpu_each, memory_each in kind.apps:
        yield from _workload(kind, app, count[app], f"{round(cpu_each * 1000)}m", memory_each)


def _tolerated(kind: Kind) -> list[Document]:
    return [{"key": "team", "operator": "Equal", "value": kind.name, "effect": "NoSchedule"}]


def _node(kind: Kind, item: InstanceType, name: str, zone: str) -> Iterator[Document]:
    capacity = "spot" if kind.spot else "on-demand"
    instance = f"aws:///{zone}/i-{blake2b(name.encode(), digest_size=8).hexdigest()}"
    stamped = {
        "karpenter.sh/nodepool": kind.name,
        "karpenter.sh/capacity-type": capacity,
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
        "node.kubernetes.io/instance-type": item.name,
        "karpenter.k8s.aws/instance-family": item.name.partition(".")[0],
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": zone,
        "team": kind.name,
    }
    room = {key: _amount(key, value) for key, value in item.capacity.items() if value}
    free = {key: _amount(key, value) for key, value in item.allocatable().items() if key in room}
    taint = {"key": "team", "value": kind.name, "effect": "NoSchedule"}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": stamped, "creationTimestamp": _MADE},
        "spec": {"providerID": instance, "taints": [taint]},
        "status": {
            "capacity": room,
            "allocatable": free,
            "conditions": [_READY],
            "nodeInfo": {"kubeletVersion": "v1.33.1-eks-ab12", "architecture": "amd64"},
        },
    }
    claim = f"{kind.name}-{name.split('.')[0][3:]}"
    yield {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": claim,
            "uid": f"uid-{claim}",
            "labels": stamped,
            "creationTimestamp": _MADE,
            "annotations": {
                "karpenter.sh/nodepool-hash": "11",
                "karpenter.sh/nodepool-hash-version": "v3",
                "karpenter.k8s.aws/ec2nodeclass-hash": "22",
                "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4",
            },
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": pool(kind)["spec"]["template"]["spec"]["requirements"],
            "taints": [taint],
        },
        "status": {
            "nodeName": name,
            "providerID": instance,
            "imageID": "ami-0amd64",
            "capacity": room,
            "allocatable": free,
            "conditions": [
                {"type": each, "status": "True", "reason": each, "lastTransitionTime": _MADE}
                for each in ("Launched", "Registered", "Initialized", "Consolidatable")
            ],
        },
    }


def _amount(key: str, amount: int) -> str:
    return f"{amount}m" if key == "cpu" else str(amount)


def _pod(name: str, app: str, cpu: str, memory: int, node: str, owner: Document) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "labels": {"app": app},
            "creationTimestamp": _MADE,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"nodeName": node, "containers": [_container(app, cpu, memory)]},
        "status": {
            "phase": "Running",
            "startTime": _MADE,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _container(app: str, cpu: str, memory: int) -> Document:
    asked = {"cpu": cpu, "memory": f"{memory}Mi"}
    return {"name": "main", "image": f"registry.example/{app}:7", "resources": {"requests": asked}}


def _template(app: str, cpu: str, memory: int, **more: Any) -> Document:
    spec = {"containers": [_container(app, cpu, memory)], **more}
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def _daemonset(name: str) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": _template(name, *_AGENTS[name], tolerations=[{"operator": "Exists"}]),
        },
    }


def _workload(kind: Kind, app: str, replicas: int, cpu: str, memory: int) -> Iterator[Document]:
    where = {"tolerations": _tolerated(kind), "nodeSelector": {"team": kind.name}}
    chosen = {"matchLabels": {"app": app}}
    spec = {"replicas": replicas, "selector": chosen, "template": _template(app, cpu, memory, **where)}
    meta = {"namespace": "shop", "creationTimestamp": _MADE}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": app, "uid": f"uid-{app}", **meta},
        "spec": spec,
    }
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": app,
        "uid": f"uid-{app}",
        "controller": True,
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": f"{app}-1", "uid": f"uid-{app}-1", "ownerReferences": [owner], **meta},
        "spec": spec,
        "status": {"replicas": replicas, "readyReplicas": replicas},
    }
    least = 1 if kind.name == "brokers" else max(1, replicas // 20)
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "shop", "uid": f"uid-pdb-{app}"},
        "spec": {"maxUnavailable": least, "selector": chosen},
        "status": {
            "disruptionsAllowed": least,
            "currentHealthy": replicas,
            "desiredHealthy": replicas - least,
            "expectedPods": replicas,
        },
    }


def changed_pool() -> Document:
    """The general pool with arm64 allowed and a newer label, as somebody would apply it."""
    new = copy.deepcopy(pool(POOLS[0]))
    new["metadata"] = {"name": "general"}
    template = new["spec"]["template"]
    template["metadata"]["labels"]["tier"] = "two"
    for one in template["spec"]["requirements"]:
        if one["key"] == "kubernetes.io/arch":
            one["values"] = ["amd64", "arm64"]
        elif one["key"].endswith("instance-family"):
            one["values"] = ["m5", "m6g", "m6i", "m7g"]
    return new


def write(folder: Path, size: float = 1.0) -> Path:
    """Write the dump and the change into a new folder; answers the dump."""
    (folder / "new").mkdir(parents=True)
    path = folder / "cluster.json.gz"
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster(size)})
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    plain = json.loads(json.dumps(changed_pool()))
    (folder / "new" / "pool.yaml").write_text(yaml.safe_dump(plain, sort_keys=False), "utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=float, default=1.0)
    given = parser.parse_args()
    print(write(given.folder, given.size))


if __name__ == "__main__":
    main()
