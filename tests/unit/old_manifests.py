"""Manifests as teams wrote them for Karpenter 0.16 to 0.37, a hundred and more, by file."""

from __future__ import annotations

import random
from typing import Any

from dovetail.base.yaml_writing import all_written

Document = dict[str, Any]
ALPHAS, BETAS = 24, 16  # teams of v1alpha5 and of v1beta1: each has a pool, a class and a workload

_TEMPLATES: list[Document] = [
    {"subnetSelector": {"karpenter.sh/discovery": "shop"},
     "securityGroupSelector": {"karpenter.sh/discovery": "shop"}},
    {
        "amiFamily": "Bottlerocket",
        "subnetSelector": {"Name": "shop-private-a, shop-private-b"},
        "securityGroupSelector": {"aws-ids": "sg-0123456789abcdef0,sg-0123456789abcdef1"},
        "blockDeviceMappings": [{"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "40Gi"}}],
        "userData": '[settings.kubernetes]\nimage-gc-high-threshold-percent = "85"\n',
    },
    {
        "amiFamily": "AL2",
        "instanceProfile": "KarpenterNodeInstanceProfile-shop",
        "subnetSelector": {"kubernetes.io/role/internal-elb": "1"},
        "securityGroupSelector": {"aws:eks:cluster-name": "shop"},
        "metadataOptions": {"httpPutResponseHopLimit": 2, "httpTokens": "required"},
        "tags": {"team": "orders", "cost-center": "4711"},
        "userData": "#!/bin/bash\nsysctl -w vm.max_map_count=262144\n",
    },
    {
        "amiFamily": "Custom",
        "amiSelector": {"aws::ids": "ami-0123456789abcdef0,ami-0123456789abcdef1"},
        "subnetSelector": {"aws-ids": "subnet-0123456789abcdef0"},
        "securityGroupSelector": {"Name": "*nodes*"},
        "userData": "#!/bin/bash\n/etc/eks/bootstrap.sh shop\n",
        "detailedMonitoring": True,
    },
    {
        "amiFamily": "AL2",
        "amiSelector": {"aws::name": "my-golden-*", "aws::owners": "self,111122223333", "stage": "prod"},
        "subnetSelector": {"karpenter.sh/discovery": "shop", "Tier": "private"},
        "securityGroupSelector": {"karpenter.sh/discovery": "shop"},
    },
]  # fmt: skip
_SPECS: list[Document] = [
    {"ttlSecondsAfterEmpty": 30},
    {"consolidation": {"enabled": True}, "ttlSecondsUntilExpired": 2592000},
    {"limits": {"resources": {"cpu": "1000", "memory": "1000Gi"}}, "ttlSecondsAfterEmpty": 60},
    {"weight": 50, "consolidation": {"enabled": True}, "limits": {"resources": {"cpu": 500}}},
    {"ttlSecondsUntilExpired": 604800, "ttlSecondsAfterEmpty": 300},
    {"kubeletConfiguration": {"maxPods": 58, "cpuCFSQuota": True}, "consolidation": {"enabled": True}},
    {
        "kubeletConfiguration": {
            "systemReserved": {"cpu": "100m", "memory": "100Mi"},
            "evictionSoft": {"memory.available": "500Mi"},
            "evictionSoftGracePeriod": {"memory.available": "1m"},
            "containerRuntime": "containerd",
        },
        "ttlSecondsAfterEmpty": 30,
    },
    {
        "annotations": {"owner": "platform"},
        "startupTaints": [{"key": "node.cilium.io/agent-not-ready", "value": "true", "effect": "NoExecute"}],
        "consolidation": {"enabled": True},
    },
]  # fmt: skip
_ASKED: list[Document] = [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
    {"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
    {
        "key": "failure-domain.beta.kubernetes.io/zone",
        "operator": "In",
        "values": ["eu-west-1a", "eu-west-1b"],
    },
    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["eu-west-1a", "eu-west-1b"]},
    {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
    {"key": "karpenter.k8s.aws/instance-family", "operator": "NotIn", "values": ["t2", "t3"]},
    {"key": "karpenter.k8s.aws/instance-size", "operator": "NotIn", "values": ["nano", "micro", "small"]},
    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["3"]},
    {"key": "karpenter.k8s.aws/instance-hypervisor", "operator": "In", "values": ["nitro"]},
]
_CLASSES: list[Document] = [
    {"amiFamily": "AL2"},
    {"amiFamily": "AL2023", "kubelet": None},
    {"amiFamily": "Bottlerocket", "metadataOptions": {"httpTokens": "required"}},
    {"amiFamily": "Windows2022"},
    {"amiFamily": "Custom", "amiSelectorTerms": [{"tags": {"image": "golden"}}], "userData": "join\n"},
    {"amiFamily": "Ubuntu", "amiSelectorTerms": [{"name": "ubuntu-eks/*", "owner": "099720109477"}]},
    {"amiFamily": "AL2", "amiSelectorTerms": [{"name": "my-golden-*"}, {"tags": {"stage": "prod"}}]},
    {"amiFamily": "AL2", "instanceStorePolicy": "RAID0", "associatePublicIPAddress": False},
]  # fmt: skip
_DISRUPTIONS: list[Document] = [
    {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"},
    {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
    {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "expireAfter": "Never"},
    {"budgets": [{"nodes": "10%"}, {"nodes": "0", "schedule": "@daily", "duration": "10m"}]},
    {"expireAfter": "168h", "budgets": [{"nodes": "5"}]},
]


def files() -> dict[str, str]:
    """Name -> text: YAML, values of two charts, Terraform."""
    dice = random.Random(25)
    made = {f"alpha-{number:02}.yaml": _alpha(f"alpha-{number}", number, dice) for number in range(ALPHAS)}
    made |= {f"beta-{number:02}.yaml": _beta(f"beta-{number}", number, dice) for number in range(BETAS)}
    found = {name: all_written(documents) for name, documents in made.items()}
    body = found.pop("alpha-00.yaml").split("---\n")
    blocks = ("\n".join(f"    {line}" for line in part.splitlines()) for part in body)
    found["main.tf"] = "\n".join(
        f'resource "kubectl_manifest" "m{index}" {{\n  yaml_body = <<-YAML\n{block}\n  YAML\n}}\n'
        for index, block in enumerate(blocks)
    )
    return found | VALUES


def _alpha(name: str, number: int, dice: random.Random) -> list[Document]:
    template = dict(_TEMPLATES[number % len(_TEMPLATES)])
    spec = {**_SPECS[number % len(_SPECS)], **_of_team(name), "requirements": _requirements(dice)}
    pool: Document = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": name},
        "spec": spec,
    }
    if number % 6 == 5:  # the class within the pool, as in 0.16
        inline = {
            key: value
            for key, value in template.items()
            if key not in ("userData", "amiSelector", "detailedMonitoring")
        }
        spec["provider"] = {"instanceProfile": "KarpenterNodeInstanceProfile-shop", **inline}
        if inline.get("amiFamily") == "Custom":
            spec["provider"]["amiFamily"] = "AL2"
        return [pool, _workload(name, number, dice)]
    spec["providerRef"] = {"name": name}
    node_template = {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": name},
        "spec": {"instanceProfile": "KarpenterNodeInstanceProfile-shop", **template},
    }
    return [pool, node_template, _workload(name, number, dice)]


def _beta(name: str, number: int, dice: random.Random) -> list[Document]:
    given = {key: value for key, value in _CLASSES[number % len(_CLASSES)].items() if value is not None}
    windows = str(given["amiFamily"]).startswith("Windows")
    of_team = _of_team(name)
    asked = _requirements(dice, old=False)
    if windows:
        asked = [item for item in asked if item["key"] not in ("kubernetes.io/os", "kubernetes.io/arch")]
        asked.append({"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]})
    inner: Document = {"nodeClassRef": {"name": name}, "taints": of_team["taints"], "requirements": asked}
    if number % 4 == 1:
        inner["nodeClassRef"] |= {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass"}
        inner["kubelet"] = {"maxPods": 110, "cpuCFSQuota": True}
    pool = {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": of_team["labels"]}, "spec": inner},
            "disruption": _DISRUPTIONS[number % len(_DISRUPTIONS)],
            "limits": {"cpu": 1000},
        },
    }
    terms = [{"tags": {"karpenter.sh/discovery": "shop"}}]
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1beta1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": {
            "role": "KarpenterNodeRole-shop",
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
            **given,
        },
    }
    return [pool, node_class, _workload(name, number, dice, beta=True)]


def _of_team(name: str) -> Document:
    return {"labels": {"team": name}, "taints": [{"key": "team", "value": name, "effect": "NoSchedule"}]}


def _requirements(dice: random.Random, *, old: bool = True) -> list[Document]:
    """Some, none twice for a label by whichever of its names."""
    chosen: dict[str, Document] = {}
    for item in dice.sample(_ASKED, k=dice.randrange(2, 6)):
        if old or ".beta." not in f".{item['key']}":
            chosen.setdefault(item["key"].rpartition("/")[2], item)
    return list(chosen.values())


def _workload(name: str, number: int, dice: random.Random, *, beta: bool = False) -> Document:
    label = {"app": name}
    pool = "karpenter.sh/nodepool" if beta else "karpenter.sh/provisioner-name"
    pods: Document = {
        "tolerations": [{"key": "team", "operator": "Exists"}],
        "containers": [
            {"name": "app", "image": "app", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
        ],
    }
    if number % 3 == 0:
        pods["nodeSelector"] = {pool: name}
    elif number % 3 == 1:
        wanted = [{"key": pool, "operator": "In", "values": [name]}]
        terms = {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
        pods["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    else:
        pods["nodeSelector"] = {"team": name}
        spread = {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
        }
        pods["topologySpreadConstraints"] = [{**spread, "labelSelector": {"matchLabels": label}}]
    kind = dice.choice(["Deployment", "StatefulSet", "Job"])
    metadata: Document = {"labels": label}
    spec: Document = {"template": {"metadata": metadata, "spec": pods}}
    if kind == "Job":
        pods["restartPolicy"] = "Never"
        metadata["annotations"] = {
            "karpenter.sh/do-not-disrupt" if beta else "karpenter.sh/do-not-evict": "true"
        }
    else:
        spec |= {"replicas": 3, "selector": {"matchLabels": label}}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


VALUES = {
    "values-0.27.yaml": """\
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::111122223333:role/karpenter-shop"}}
controller: {resources: {requests: {cpu: 1, memory: 1Gi}}}
settings:
  aws:
    clusterName: shop
    clusterEndpoint: https://shop.example.com
    interruptionQueueName: shop
    vmMemoryOverheadPercent: 0.075
    enablePodENI: false
  batchMaxDuration: 10s
""",
    "values-0.35.yaml": """\
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::111122223333:role/karpenter-shop"}}
settings:
  clusterName: shop
  interruptionQueue: shop
  featureGates: {drift: true, spotToSpotConsolidation: false}
webhook: {enabled: false}
""",
}
