"""What of a cluster's objects leaves it: nothing secret, and with hashes no name of its owner's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dovetail.api.redact import hashing, redacted

SECRET = "hunter2"


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "db-3",
            "namespace": "shop",
            "labels": {"team": "payments", "app.kubernetes.io/name": "pay"},
            "annotations": {"note": SECRET, "karpenter.sh/do-not-disrupt": "true"},
            "managedFields": [{"manager": SECRET}],
            "ownerReferences": [{"kind": "StatefulSet", "name": "db", "uid": "u1", "controller": True}],
        },
        "spec": {"containers": [{"name": "main", "image": "r/pay:1"}], **spec},
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "a", "env": [{"name": "T", "value": SECRET}]}]},
        {"containers": [{"name": "a", "envFrom": [{"secretRef": {"name": SECRET}}]}]},
        {"containers": [{"name": "a", "command": ["run", SECRET], "args": [SECRET]}]},
        {"initContainers": [{"name": "a", "env": [{"name": "T", "value": SECRET}]}]},
        {"containers": [{"name": "a", "livenessProbe": {"httpGet": {"path": SECRET}}}]},
        {"containers": [{"name": "a", "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}}}]},
        {"volumes": [{"name": "v", "secret": {"secretName": SECRET}}]},
        {"volumes": [{"name": "v", "configMap": {"name": SECRET}}]},
        {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": SECRET}}]}}]},
        {"volumes": [{"name": "v", "hostPath": {"path": SECRET}}]},
        {"imagePullSecrets": [{"name": SECRET}]},
        {"serviceAccountName": SECRET},
        {"hostAliases": [{"ip": "10.0.0.1", "hostnames": [SECRET]}]},
        {"userData": SECRET},
    ],
)
def test_what_is_secret_is_left_out(spec: dict[str, Any]) -> None:
    given = pod(**spec)
    before = json.dumps(given)
    assert SECRET not in json.dumps(redacted(given))
    assert json.dumps(given) == before


def test_what_plans_need_stays() -> None:
    kept = redacted(
        pod(
            containers=[
                {"name": "a", "resources": {"requests": {"cpu": "1", "env": "2"}}, "ports": [{"hostPort": 1}]}
            ],
            volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
            nodeSelector={"command": "x"},
        )
    )
    assert kept["metadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true"}
    assert kept["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1", "env": "2"}}
    assert kept["spec"]["containers"][0]["ports"] == [{"hostPort": 1}]
    assert kept["spec"]["volumes"] == [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    assert kept["spec"]["nodeSelector"] == {"command": "x"}


def test_names_become_hashes_that_still_belong_together() -> None:
    clean = hashing(b"salt")
    node = clean(
        {
            "kind": "Node",
            "metadata": {
                "name": "ip-10-0-0-7",
                "labels": {
                    "kubernetes.io/hostname": "ip-10-0-0-7",
                    "topology.kubernetes.io/zone": "eu-west-1a",
                    "node.kubernetes.io/instance-type": "m5.large",
                    "karpenter.sh/nodepool": "payments",
                    "team": "payments",
                },
            },
            "spec": {
                "providerID": "aws:///eu-west-1a/i-0123",
                "taints": [{"key": "team", "value": "payments", "effect": "NoSchedule"}],
            },
            "status": {"capacity": {"cpu": "2", "vendor.example/gpu": "1"}},
        }
    )
    pool = clean({"kind": "NodePool", "metadata": {"name": "payments"}})
    owner = clean({"kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"}})
    wanted = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "team", "operator": "In", "values": ["payments"]}]}
            ]
        }
    }
    one = clean(
        pod(
            nodeName="ip-10-0-0-7",
            nodeSelector={"team": "payments"},
            affinity={"nodeAffinity": wanted},
            tolerations=[{"key": "team", "operator": "Equal", "value": "payments"}],
            topologySpreadConstraints=[
                {
                    "topologyKey": "topology.kubernetes.io/zone",
                    "labelSelector": {"matchLabels": {"team": "payments"}},
                }
            ],
        )
    )
    text = json.dumps([node, pool, owner, one])
    for name in ("payments", "team", "ip-10-0-0-7", "shop", '"db', "r/pay", "i-0123"):
        assert name not in text
    labels = node["metadata"]["labels"]
    (team,) = set(one["spec"]["nodeSelector"])
    assert one["spec"]["nodeName"] == node["metadata"]["name"] == labels["kubernetes.io/hostname"]
    assert labels["karpenter.sh/nodepool"] == pool["metadata"]["name"]
    assert labels[team] == one["spec"]["nodeSelector"][team] == node["spec"]["taints"][0]["value"]
    assert node["spec"]["taints"][0]["key"] == team == one["spec"]["tolerations"][0]["key"]
    term = one["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["nodeSelectorTerms"][0]["matchExpressions"][0]["key"] == team
    spread = one["spec"]["topologySpreadConstraints"][0]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"
    assert spread["labelSelector"]["matchLabels"] == {team: labels[team]}
    assert one["metadata"]["name"] == f"{owner['metadata']['name']}-3"
    assert one["metadata"]["ownerReferences"][0]["name"] == owner["metadata"]["name"]
    assert (labels["topology.kubernetes.io/zone"], labels["node.kubernetes.io/instance-type"]) == (
        "eu-west-1a",
        "m5.large",
    )
    assert node["spec"]["providerID"].startswith("aws:///eu-west-1a/i-")
    assert node["status"]["capacity"] == {"cpu": "2", "vendor.example/gpu": "1"}
    assert json.dumps(hashing(b"other")(pod())) != json.dumps(clean(pod()))
