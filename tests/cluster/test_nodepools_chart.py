"""charts/dovetail-nodepools: a short values file becomes NodePools and classes that admission takes."""

from __future__ import annotations

import pytest

from dovetail.api.admission import admit
from tests.cluster.helm import Document, HelmError, render

CLASS = """
ec2NodeClass:
  default:
    amiFamily: AL2023
    role: nodes
    subnetSelectorTermsTags: {karpenter.sh/discovery: demo}
    securityGroupSelectorTermsTags: {karpenter.sh/discovery: demo}
"""
# As the values of the chart that people wrote for v1beta1.
OLD = """
globalLabels: {company: example}
globalAnnotations: {owner: infra}
nodePool:
  app:
    labels: {role: app}
    nodeClassRef: default
    requirements:
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["5"]}
    taints: [{key: app, value: "yes", effect: NoSchedule}]
    startupTaints: []
    disruption:
      consolidationPolicy: WhenEmpty
      consolidateAfter: 600s
      expireAfter: 720h
      budgets: [{nodes: 10%}, {nodes: "0", schedule: "@daily", duration: 10m}]
    limits: {cpu: 1000, memory: 1000Gi}
    weight: 10
  cheap:
    disruption: {consolidationPolicy: WhenUnderutilized}
ec2NodeClass:
  default:
    amiFamily: AL2
    role: nodes
    amiSelectorTerms: {ids: [ami-1, ami-2]}
    subnetSelectorTermsTags: {discovery: demo}
    securityGroupSelectorTermsTags: {discovery: demo}
    tags: {managed: true, account: 123456789012}
    detailedMonitoring: true
    blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 100Gi, volumeType: gp3}}]
"""


def made(values: str) -> dict[tuple[str, str], Document]:
    """The objects, after our own admission."""
    return {key: admit(document) for key, document in render("dovetail-nodepools", values).items()}


def test_nothing_is_made_of_nothing() -> None:
    assert render("dovetail-nodepools") == {}


def test_values_of_old_become_v1() -> None:
    found = made(OLD)
    assert sorted(found) == [("EC2NodeClass", "default"), ("NodePool", "app"), ("NodePool", "cheap")]
    app = found["NodePool", "app"]["spec"]
    template = app["template"]
    assert template["metadata"] == {
        "labels": {"role": "app", "company": "example"},
        "annotations": {"owner": "infra"},
    }
    assert template["spec"]["nodeClassRef"] == {
        "group": "karpenter.k8s.aws",
        "kind": "EC2NodeClass",
        "name": "default",
    }
    assert template["spec"]["expireAfter"] == "720h"
    assert len(template["spec"]["requirements"]) == 3
    assert template["spec"]["taints"] == [{"key": "app", "value": "yes", "effect": "NoSchedule"}]
    assert app["disruption"] == {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "600s",
        "budgets": [{"nodes": "10%"}, {"nodes": "0", "schedule": "@daily", "duration": "10m"}],
    }
    assert (app["limits"], app["weight"]) == ({"cpu": "1000", "memory": "1000Gi"}, 10)
    cheap = found["NodePool", "cheap"]["spec"]
    assert cheap["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
    assert cheap["template"]["spec"]["requirements"] == []
    node_class = found["EC2NodeClass", "default"]["spec"]
    assert node_class["amiSelectorTerms"] == [{"id": "ami-1"}, {"id": "ami-2"}]
    assert node_class["subnetSelectorTerms"] == [{"tags": {"discovery": "demo"}}]
    assert node_class["tags"] == {"managed": "true", "account": "123456789012"}


def test_short_requirements() -> None:
    found = made(
        CLASS
        + """
nodePool:
  default:
    requirements:
      karpenter.sh/capacity-type: [spot, on-demand]
      kubernetes.io/arch: amd64
      karpenter.k8s.aws/instance-generation: {Gt: 5}
      node.kubernetes.io/instance-type: {In: [m7i.large, m7a.large], minValues: 2}
      karpenter.k8s.aws/instance-gpu-count: {DoesNotExist: true}
"""
    )
    assert found["NodePool", "default"]["spec"]["template"]["spec"]["requirements"] == [
        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["5"]},
        {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {
            "key": "node.kubernetes.io/instance-type",
            "operator": "In",
            "values": ["m7i.large", "m7a.large"],
            "minValues": 2,
        },
    ]
    assert found["EC2NodeClass", "default"]["spec"]["amiSelectorTerms"] == [{"alias": "al2023@latest"}]


def test_kwok_classes_and_classes_made_elsewhere() -> None:
    found = made(
        """
nodePool:
  fake: {nodeClassRef: fake}
  other: {nodeClassRef: elsewhere}
  whole: {nodeClassRef: {group: example.com, kind: Own, name: mine}}
kwokNodeClass: {fake: {nodeRegistrationDelay: 5s}}
externalNodeClasses: [elsewhere]
"""
    )
    refs = {
        name: document["spec"]["template"]["spec"]["nodeClassRef"]
        for (kind, name), document in found.items()
        if kind == "NodePool"
    }
    assert refs == {
        "fake": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "fake"},
        "other": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "elsewhere"},
        "whole": {"group": "example.com", "kind": "Own", "name": "mine"},
    }


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            CLASS + "nodePool: {a: {nodeClassRef: defualt}}",
            'there is no class "defualt"; the values have default',
        ),
        ("nodePool: {a: {}}", 'there is no class "default"; the values have none'),
        (CLASS + "nodePool: {a: {kubelet: {maxPods: 9}}}", "kubelet settings belong to the class"),
        (CLASS + "nodePool: {a: {requirement: []}}", "requirement"),
        (CLASS + "nodePool: {a: {requirements: {x/y: {in: [a]}}}}", "requirements"),
        (CLASS + "nodePool: {a: {disruption: {consolidationPolicy: Always}}}", "consolidationPolicy"),
        (CLASS + "nodePool: {Big_Pool: {}}", "Big_Pool"),
        ("nodePools: {a: {}}", "did you mean nodePool?"),
        ("ec2NodeClass: {a: {role: r}}", "give amiSelectorTerms"),
        ("ec2NodeClass: {a: {role: r, amiFamily: AL2023}}", "give subnetSelectorTermsTags"),
        ("ec2NodeClass: {a: {rolle: r}}", "rolle"),
    ],
)
def test_mistakes_are_reported(values: str, said: str) -> None:
    with pytest.raises(HelmError) as refused:
        render("dovetail-nodepools", values)
    assert said in str(refused.value)
