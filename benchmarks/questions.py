"""Worked examples of what operators ask, of any size: `python -m benchmarks.questions NAME FOLDER`.

`--size 0.1` makes a tenth of it. Each is a scenario folder; the guides say which command answers it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from dovetail.testing.guests import node_class

Document = dict[str, Any]
OLD_IMAGE, NEW_IMAGE = "al2023@v20250403", "al2023@v20250505"
TYPES = ["m5.xlarge", "m5.2xlarge", "c5.2xlarge", "c5.4xlarge", "r5.xlarge", "r5.2xlarge"]


def pool(name: str = "general", *, spot: bool = False, **disruption: Any) -> Document:
    types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": TYPES}
    bought = ["spot", "on-demand"] if spot else ["on-demand"]
    capacity = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": bought}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    kept = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30m", **disruption}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": [capacity, types]}},
            "disruption": kept,
        },
    }


def workload(
    name: str, replicas: int, cpu: str, memory: str, kind: str = "Deployment", **spec: Any
) -> Document:
    chosen = {"app": name}
    main = {"name": "main", "image": f"{name}:1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    notes = spec.pop("annotations", {})
    more = spec.pop("more", {})
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": chosen},
            "template": {
                "metadata": {"labels": chosen, "annotations": notes},
                "spec": {"containers": [main], **spec},
            },
            **({"serviceName": name} if kind == "StatefulSet" else {}),
            **more,
        },
    }


def budget(app: str, **limits: Any) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **limits},
    }


def spread(app: str, key: str = "topology.kubernetes.io/zone") -> list[Document]:
    selector = {"matchLabels": {"app": app}}
    rule = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
    }
    return [rule]


def headroom(size: float) -> tuple[Document, list[Document]]:
    """Question 7: a shop of 400 replicas that will be 1,600 within three minutes."""
    objects = [pool(), node_class(image=OLD_IMAGE), workload("web", max(4, round(400 * size)), "500m", "1Gi")]
    return {"duration": "30m"}, objects


def outage(size: float) -> tuple[Document, list[Document]]:
    """Question 5: 900 replicas and some databases on zonal volumes; one zone loses its machines."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "gp3",
            "resources": {"requests": {"storage": "100Gi"}},
        },
    }
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    more = {"volumeClaimTemplates": [claim], "podManagementPolicy": "Parallel"}
    replicas = max(6, round(870 * size))
    return {"duration": "30m"}, [
        storage,
        pool(spot=True),
        node_class(image=OLD_IMAGE),
        workload("web", replicas, "500m", "1Gi", topologySpreadConstraints=spread("web")),
        workload(
            "database",
            max(3, round(30 * size)),
            "1",
            "4Gi",
            kind="StatefulSet",
            topologySpreadConstraints=spread("database"),
            more=more,
        ),
    ]


def rollout(size: float) -> tuple[Document, list[Document]]:
    """Question 2: 600 nodes, a budget of 10 %, no moves from 9 to 18 h in Seoul, slow brokers."""
    frozen = {"nodes": "0", "schedule": "0 0 * * mon-fri", "duration": "9h"}
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "kafka"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    slow = {"simulation.dovetail.dev/startup": "12m"}
    objects = [
        pool(budgets=[{"nodes": "10%"}, frozen]),
        node_class(image=OLD_IMAGE),
        workload("web", max(6, round(2250 * size)), "1500m", "3Gi"),
        budget("web", maxUnavailable="10%"),
        workload("kafka", max(3, round(30 * size)), "3", "12Gi", affinity=affinity, annotations=slow),
        budget("kafka", maxUnavailable=1),
    ]
    return {"duration": "30m", "start": "2026-03-02T19:00", "timezone": "Asia/Seoul"}, objects


def waiting(size: float) -> tuple[Document, list[Document]]:
    """Question 3: a service grows at 21:14, while no spot is to be had and its pool buys nothing else."""
    scenario = {
        "duration": "50m",
        "shortages": [{"from": "21:10", "until": "21:17", "capacityTypes": ["spot"]}],
        "changes": [{"at": "21:14", "file": "later/web.yaml"}],
    }
    bought = pool(spot=True)
    bought["spec"]["template"]["spec"]["requirements"][0]["values"] = ["spot"]
    return scenario, [
        bought,
        node_class(image=OLD_IMAGE),
        workload("web", max(4, round(40 * size)), "1", "2Gi"),
    ]


def week(size: float) -> tuple[Document, list[Document]]:
    """Question 9: seven days of a service that breathes, with daemons, and jobs in between."""
    daemons = workload("agent", 1, "100m", "200Mi", kind="DaemonSet")
    del daemons["spec"]["replicas"]
    replicas = max(6, round(60 * size))
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": max(2, replicas // 3),
            "maxReplicas": replicas,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
                }
            ],
        },
    }
    day = [{"from": f"{hour}:00", "until": f"{hour + 4}:00", "add": 5 * replicas} for hour in (10, 16)]
    traffic = {"service": "web", "deployment": "shop/web", "base": 5 * replicas, "costPerRequest": "50m"}
    scenario = {"duration": "168h", "traffic": [{**traffic, "noise": 0.05, "peaks": day}]}
    kept = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "5m"}
    objects = [pool(**kept), node_class(image=OLD_IMAGE), daemons, workload("web", replicas, "500m", "1Gi")]
    return {**scenario, "settings": {"efficiencyPeriod": "1h"}}, [*objects, autoscaler]


Example = Callable[[float], tuple[Document, list[Document]]]
EXAMPLES: dict[str, Example] = {
    "headroom": headroom,
    "outage": outage,
    "rollout": rollout,
    "waiting": waiting,
    "week": week,
}


def write(name: str, folder: Path, size: float = 1.0) -> Path:
    """Write the example into a new folder."""
    scenario, objects = EXAMPLES[name](size)
    head = {
        "apiVersion": "simulation.dovetail.dev/v1alpha1",
        "kind": "Scenario",
        "name": name,
        "region": "us-east-1",
        "start": "2026-03-02T20:40",
        "cluster": {"name": "demo", "instanceTypes": [*TYPES, "m5.large"]},
        "nodeGroups": [
            {
                "name": "system",
                "instanceType": "m5.large",
                "count": 1,
                "zones": ["us-east-1a"],
                "taints": [{"key": "system", "effect": "NoSchedule"}],
            }
        ],
        **scenario,
    }
    folder.mkdir(parents=True)
    (folder / "scenario.yaml").write_text(yaml.safe_dump(head, sort_keys=False), "utf-8")
    if name == "rollout":  # what changes
        (folder / "new").mkdir()
        (folder / "new" / "image.yaml").write_text(yaml.safe_dump(node_class(image=NEW_IMAGE)), "utf-8")
    if name == "waiting":
        replicas = objects[-1]["spec"]["replicas"]
        grown = {**objects[-1], "spec": {**objects[-1]["spec"], "replicas": 2 * replicas}}
        (folder / "later").mkdir()
        (folder / "later" / "web.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(grown))), "utf-8")
    plain = json.loads(json.dumps(objects))  # what is shared is written out
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all(plain, sort_keys=False), "utf-8")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=EXAMPLES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=float, default=1.0)
    given = parser.parse_args()
    print(write(given.name, given.folder, given.size))


if __name__ == "__main__":
    main()
