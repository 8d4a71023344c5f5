"""What a runbook for Karpenter does, line by line as docs/guides/switch-from-karpenter.md has it."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.helm import CHARTS
from tests.cluster.running import eventually
from tests.cluster.world import ACCOUNT_SPACE, World, apart, deployment, node_pool

COUNT = 2
# Columns of `kubectl get -o wide`.
WIDE = {
    "nodepools": ["NAME", "NODECLASS", "NODES", "READY", "AGE", "WEIGHT", "CPU", "MEMORY"],
    "nodeclaims": [
        *("NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE"),
        *("IMAGEID", "ID", "NODEPOOL", "NODECLASS", "DRIFTED"),
    ],
    "ec2nodeclasses": ["NAME", "READY", "AGE", "ROLE"],
}
# What dashboards and alerts ask for.
METRICS = (
    "karpenter_build_info",
    "karpenter_cluster_state_node_count",
    "karpenter_nodeclaims_created_total",
    "karpenter_nodeclaims_terminated_total",
    "karpenter_nodepools_allowed_disruptions",
    "karpenter_nodepools_limit",
    "karpenter_nodepools_usage",
    "karpenter_nodes_allocatable",
    "karpenter_nodes_created_total",
    "karpenter_nodes_terminated_total",
    "karpenter_pods_startup_duration_seconds",
    "karpenter_pods_state",
    "karpenter_scheduler_scheduling_duration_seconds",
    "karpenter_voluntary_disruption_eligible_nodes",
)
LINES = [
    "found provisionable pod(s)",
    "created nodeclaim",
    "launched nodeclaim",
    "registered nodeclaim",
    "initialized nodeclaim",
    "deleted node",
    "deleted nodeclaim",
]
TERMS = [{"tags": {"karpenter.sh/discovery": "demo"}}]
EC2 = {
    "role": "nodes",
    "amiSelectorTerms": [{"alias": "al2023@latest"}],
    "subnetSelectorTerms": TERMS,
    "securityGroupSelectorTerms": TERMS,
}


def _named(api_server: ControlPlane, *settings: str) -> list[dict[str, Any]]:
    given = ("--namespace", "karpenter", "--set", "settings.clusterName=demo", *settings)
    text = api_server.run("helm", "template", "karpenter", str(CHARTS / "dovetail"), *given)
    return [document for document in yaml.safe_load_all(text) if document]


def test_the_chart_is_called_as_karpenters_if_set_so(api_server: ControlPlane) -> None:
    documents = _named(api_server, "--set", "nameOverride=karpenter")
    names = {document["kind"]: document["metadata"]["name"] for document in documents}
    for kind in ("Deployment", "Service", "ServiceAccount", "PodDisruptionBudget"):
        assert names[kind] == "karpenter"
    deployment = next(document for document in documents if document["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "karpenter"
    assert [container["name"] for container in template["spec"]["containers"]] == ["controller"]


def test_a_release_called_karpenter_alone_is_not_enough(api_server: ControlPlane) -> None:
    documents = _named(api_server)
    deployment = next(document for document in documents if document["kind"] == "Deployment")
    assert deployment["metadata"]["name"] == "karpenter-dovetail"
    assert deployment["metadata"]["labels"]["app.kubernetes.io/name"] == "dovetail"


def test_what_a_runbook_asks_and_does_is_answered_as_by_karpenter(world: World) -> None:
    world.kubectl("delete", "events", "--all")
    world.apply(_limited(world))
    with world.controller("--provider", "kwok") as controller:
        world.apply(deployment(world, "web", COUNT, affinity=apart("web")))
        names = [node["metadata"]["name"] for node in world.settled(pods=COUNT, nodes=COUNT)]
        _look(world)
        # An annotation by hand, taken away again; a node deleted by hand, whose pod goes elsewhere.
        world.kubectl("annotate", "node", names[0], "karpenter.sh/do-not-disrupt=true")
        world.kubectl("annotate", "node", names[0], "karpenter.sh/do-not-disrupt-")
        world.kubectl("delete", "node", names[1], "--wait=false")
        eventually(
            lambda: names[1] in [node["metadata"]["name"] for node in world.nodes()], lambda it: not it
        )
        world.settled(pods=COUNT, nodes=COUNT)
        metrics = controller.asked("/metrics")[1]
        said = [line["message"] for line in controller.lines() if line["message"] in LINES]
        assert list(dict.fromkeys(said)) == LINES
        assert [name for name in METRICS if f"# TYPE {name} " not in metrics] == []

        # The chart is upgraded, and its Deployment restarted: nothing of it touches a node.
        before = [claim["metadata"]["uid"] for claim in world.claims()]
        release = ("helm", "upgrade", "e2e", str(CHARTS / "dovetail"), "--namespace", ACCOUNT_SPACE)
        assert "has been upgraded" in world.plane.run(*release, "--reuse-values")
        restarted = world.plane.run("kubectl", "-n", ACCOUNT_SPACE, "rollout", "restart", "deployment/e2e")
        assert restarted == "deployment.apps/e2e restarted\n"
        assert controller.stop() == 0
        with world.controller("--provider", "kwok") as after:
            eventually(lambda: after.asked("/readyz")[0], lambda code: code == 200)
            assert [claim["metadata"]["uid"] for claim in world.claims()] == before
            world.kubectl("delete", "nodepool", world.name, "--wait=false")
            eventually(lambda: (world.claims(), world.nodes()), lambda found: found == ([], []))
            assert after.stop() == 0


def _limited(world: World) -> dict[str, Any]:
    pool = node_pool(world)
    pool["spec"]["limits"] = {"cpu": "100"}
    return pool


def _look(world: World) -> None:
    """What is only read."""
    meta = {"name": world.name}
    world.apply({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": meta, "spec": EC2})
    shown = {kind: world.plane.run("kubectl", "get", kind, "-o", "wide").splitlines()[0] for kind in WIDE}
    world.kubectl("delete", "ec2nodeclass", world.name)
    assert {kind: line.split() for kind, line in shown.items()} == WIDE
    row = ("kubectl", "get", "nodepool", world.name, "--no-headers")
    first = [world.name, world.name, str(COUNT)]
    eventually(lambda: world.plane.run(*row).split()[:3], lambda found: found == first)
    chosen = ("--field-selector", "source=karpenter", "-o", "json")
    events = json.loads(world.plane.run("kubectl", "get", "events", "-A", *chosen))["items"]
    assert {"Nominated", "Launched", "Registered", "Initialized"} <= {event["reason"] for event in events}
