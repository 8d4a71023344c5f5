"""What is said of pods that wait in vain: each mistake of the posts has a cause and a cure of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.simulate.analysis.cures import of_refusal
from dovetail.simulate.faults.plan import load as load_faults
from dovetail.simulate.run import simulate
from dovetail.simulate.scenario.scenario import load

KEY = "karpenter.sh/discovery"
TERMS = [{"tags": {KEY: "demo"}}]
TAGGED = {KEY: "demo"}
MISTYPED = {"karpenter.sh/discovert": "demo"}


def played(
    folder: Path,
    *,
    tags: dict[str, str] = TAGGED,
    faults: list[dict[str, Any]] | None = None,
    duration: str = "5m",
    selector: dict[str, str] | None = None,
    **node_class: Any,
) -> str:
    """What is said of five pods for which there is a NodePool and no node."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]}
    template = {"spec": {"nodeClassRef": reference, "requirements": [types]}}
    spec = {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@v20250403"}],
        "subnetSelectorTerms": TERMS,
        "securityGroupSelectorTerms": TERMS,
        **node_class,
    }
    container = {"name": "a", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
    pods = {"containers": [container], "nodeSelector": selector or {}}
    deployment = {
        "replicas": 5,
        "selector": {"matchLabels": {"app": "express-test"}},
        "template": {"metadata": {"labels": {"app": "express-test"}}, "spec": pods},
    }
    manifests = [
        ("karpenter.sh/v1", "NodePool", {"name": "default"}, {"template": template}),
        ("karpenter.k8s.aws/v1", "EC2NodeClass", {"name": "default"}, spec),
        ("apps/v1", "Deployment", {"name": "express-test", "namespace": "default"}, deployment),
    ]
    documents = [
        {"apiVersion": version, "kind": kind, "metadata": meta, "spec": inner}
        for version, kind, meta, inner in manifests
    ]
    (folder / "manifests.yaml").write_text(yaml.safe_dump_all(documents))
    scenario = {
        "apiVersion": "simulation.dovetail.dev/v1alpha1",
        "kind": "Scenario",
        "name": "in-vain",
        "region": "ap-northeast-2",
        "start": "2026-03-02T09:00",
        "duration": duration,
        "settings": {"provider": "aws"},
        "cluster": {
            "instanceTypes": ["m5.xlarge"],
            "subnets": [{"id": "subnet-1", "zone": "ap-northeast-2a", "tags": tags}],
            "securityGroups": [{"id": "sg-1", "name": "nodes", "tags": tags}],
        },
    }
    (folder / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    path = folder.parent / "faults.yaml"
    document = {"apiVersion": "simulation.dovetail.dev/v1alpha1", "kind": "Faults", "faults": faults or []}
    path.write_text(yaml.safe_dump(document))
    plan = load(folder)
    found = simulate(plan, faults=load_faults(path, plan) if faults else None).summary
    assert found.pods.bound == 0
    (owner,) = found.waiting.by_owner
    return owner.explanation


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (
            {"tags": MISTYPED},
            ["found key 'karpenter.sh/discovert'", "tag the subnets and security groups"],
        ),
        (
            {
                "amiFamily": "AL2023",
                "amiSelectorTerms": [{"name": "amazon-eks-node-al2023-x86_64-standard-1.30-*"}],
            },
            ["AMISelector did not match any AMIs", "no image is found", "amiSelectorTerms"],
        ),
        (
            {"selector": {"karpenter.sh/provisioner-name": "express-test"}},
            ["karpenter.sh/nodepool In [express-test]", "create express-test"],
        ),
        (
            {"selector": {"team": "express"}},
            ['label "team" does not have known values', "no NodePool defines the label team"],
        ),
        (
            {"subnetSelectorTerms": [{"tags": {KEY: "${CLUSTER_NAME}"}}]},
            [
                "'${CLUSTER_NAME}' is a variable that was not expanded",
                "put the value in the place of ${CLUSTER_N",
            ],
        ),
        (
            {"role": "controller", "duration": "40m", "faults": [{"kind": "neverJoins", "rate": 1}]},
            ["went to retries", "never became nodes", "role of the nodes"],
        ),
    ],
    ids=["story-6", "story-54", "story-75", "story-75-label", "story-115", "story-18"],
)
def test_each_mistake_has_its_own_cure(given: dict[str, Any], advice: list[str], tmp_path: Path) -> None:
    (tmp_path / "play").mkdir()
    text = played(tmp_path / "play", **given)
    assert [part for part in advice if part not in text] == [], text
    assert "limits" not in text  # which would not help


@pytest.mark.parametrize(
    ("refusal", "cure"),
    [
        ("unbound pvc must define a storage class", "storageclass.kubernetes.io/is-default-class"),
        ('storageclass.storage.k8s.io "fast" not found', "create the storageclass fast"),
    ],
)
def test_what_keeps_volumes_from_being_made(refusal: str, cure: str) -> None:
    assert cure in of_refusal(refusal)
