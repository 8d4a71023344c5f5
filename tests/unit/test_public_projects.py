"""Manifests in the forms that well-known projects publish: read, planned, explained, other kinds counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.cli.main import run

TEMPLATE = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]},
}
POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "expireAfter": "720h",
            }
        },
        "limits": {"cpu": 1000},
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"},
    },
}
CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "one"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "one"}}],
    },
}


def one(version: str, kind: str, spec: Any = None, name: str = "x", **rest: Any) -> dict[str, Any]:
    found = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}
    return found if spec is None else {**found, "spec": spec}


def workload(kind: str, replicas: int = 1, name: str = "x", **rest: Any) -> dict[str, Any]:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE, **rest}
    if kind == "DaemonSet":
        del spec["replicas"]
    return one("apps/v1", kind, spec, name)


SERVICE = one("v1", "Service", {"selector": {"app": "x"}, "ports": [{"port": 80}]})

# What a project's files hold, how many pods are planned for, and the notes about what is of other groups.
_MADE = ": what its operator makes ({}) is not here (kubectl get pods -A -o yaml)"
_SAID = ", by the requests in it; what its operator adds is not known"
PROJECTS: dict[str, tuple[list[dict[str, Any]], int, list[str]]] = {
    "a shop of microservices": (
        [workload("Deployment", 1, f"service-{n}") for n in range(10)]
        + [SERVICE, one("v1", "ServiceAccount")],
        10,
        [],
    ),
    "Prometheus on Kubernetes": (
        [
            workload("Deployment", 2, "adapter"),
            workload("DaemonSet", name="exporter"),
            *(one("monitoring.coreos.com/v1", "ServiceMonitor", {}, f"m{n}") for n in range(12)),
            one("monitoring.coreos.com/v1", "PrometheusRule", {"groups": []}),
            one("monitoring.coreos.com/v1", "Prometheus", {"replicas": 2}),
        ],
        2,
        [
            f"1 Prometheus of monitoring.coreos.com ignored{_MADE.format('spec.replicas')}",
            "1 PrometheusRule of monitoring.coreos.com ignored",
            "12 ServiceMonitor of monitoring.coreos.com ignored",
        ],
    ),
    "Argo CD and Rollouts": (
        [
            workload("StatefulSet", 1, "controller", serviceName="controller"),
            one("argoproj.io/v1alpha1", "Application", {"project": "default"}),
            one(
                "argoproj.io/v1alpha1",
                "Rollout",
                {"replicas": 5, "selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE},
                "canary",
            ),
        ],
        6,
        [
            "1 Rollout of argoproj.io counted as workload: 5 pods",
            "1 Application of argoproj.io ignored: what it installs is not here (argocd app manifests NAME)",
        ],
    ),
    "cert-manager": (
        [
            workload("Deployment", 1, "webhook"),
            one("cert-manager.io/v1", "ClusterIssuer", {"selfSigned": {}}),
            one("cert-manager.io/v1", "Certificate", {"secretName": "x"}),
        ],
        1,
        ["1 Certificate of cert-manager.io ignored", "1 ClusterIssuer of cert-manager.io ignored"],
    ),
    "ingress-nginx": ([workload("Deployment", 2, "controller"), SERVICE], 2, []),
    "a Kafka operator": (
        [
            workload("Deployment", 1, "operator"),
            one("kafka.strimzi.io/v1beta2", "Kafka", {"kafka": {"replicas": 3}}),
            *(one("kafka.strimzi.io/v1beta2", "KafkaTopic", {"partitions": 3}, f"t{n}") for n in range(3)),
        ],
        4,
        [
            f"1 Kafka of kafka.strimzi.io counted as workload: 3 pods{_SAID}",
            "3 KafkaTopic of kafka.strimzi.io ignored",
        ],
    ),
    "the Airflow chart": (
        [
            workload("StatefulSet", 1, "worker", serviceName="worker"),
            workload("Deployment", 1, "scheduler"),
            one("batch/v1", "Job", {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}),
        ],
        3,
        [],
    ),
    "a Spark operator": (
        [
            workload("Deployment", 1, "operator"),
            one("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"executor": {"instances": 2}}),
        ],
        4,
        [f"1 SparkApplication of sparkoperator.k8s.io counted as workload: 3 pods{_SAID}"],
    ),
    "Knative": (
        [one("serving.knative.dev/v1", "Service", {"template": {"spec": TEMPLATE["spec"]}}, "hello")],
        1,
        ["1 Service of serving.knative.dev counted as workload: 1 pod"],
    ),
    "Karpenter's examples": ([workload("Deployment", 5, "inflate")], 5, []),
}


@pytest.mark.parametrize("project", PROJECTS)
def test_planned_and_explained(project: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects, pods, notes = PROJECTS[project]
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([POOL, CLASS, *objects]))
    given = ["-f", str(file), "--region", "us-east-1", "--work", "1000"]
    assert run(["plan", *given, "-o", "json"]) == 0
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert answer["pods"] == {
        "pending": pods,
        "onNewNodes": pods,
        "onExistingNodes": 0,
        "unschedulable": 0,
        "notLookedAt": 0,
    }
    said = [json.loads(line)["message"] for line in printed.err.splitlines()]
    assert [line for line in said if " ignored" in line or "counted as" in line] == notes
    pod = answer["nodeClaims"][0]["pods"][0]
    assert run(["explain", "pod", pod, *given]) == 0, capsys.readouterr().err
