"""Two pools beside each other, spot by default and a team's own on demand: a hands-on guide, in v1 form."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.controlplane.start import StartError
from tests.cluster.running import eventually
from tests.cluster.world import World, apart, deployment, node_class, node_pool, tainted

CAPACITY, ARCH = "karpenter.sh/capacity-type", "kubernetes.io/arch"
TYPE = "node.kubernetes.io/instance-type"
TEAM = {"key": "team", "operator": "In", "values": ["team1"]}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    """Required node affinity to the team's nodes."""
    required = {"nodeSelectorTerms": [{"matchExpressions": list(terms)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def pool(world: World, name: str, capacity: str, archs: list[str], **labels: str) -> dict[str, Any]:
    """Empty nodes go after 30 s; both pools name the class `default`, as in the guide."""
    quiet = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "10%"}]}
    made = node_pool(world, name, disruption=quiet)
    template = made["spec"]["template"]
    template["spec"]["nodeClassRef"]["name"] = f"{world.name}-default"
    template["spec"]["requirements"] = [
        {"key": CAPACITY, "operator": "In", "values": [capacity]},
        {"key": ARCH, "operator": "In", "values": archs},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
    ]
    template["metadata"]["labels"] |= labels
    made["spec"]["limits"] = {"cpu": 1000}
    return made


def seen(world: World) -> set[tuple[str, str]]:
    """Pool and capacity type of all nodes."""
    labels = [node["metadata"]["labels"] for node in world.nodes()]
    return {(one["karpenter.sh/nodepool"], one[CAPACITY]) for one in labels}


def pools(world: World) -> tuple[str, str]:
    """Two pools and two classes, of which no pool names one."""
    usual, team = f"{world.name}-default", f"{world.name}-team1"
    world.apply(
        node_class(usual),
        node_class(team),
        pool(world, usual, "spot", ["amd64"]),
        pool(world, team, "on-demand", ["amd64", "arm64"], team="team1"),
    )
    return usual, team


def test_the_pool_that_pods_ask_for(world: World) -> None:
    """Without a wish the cheaper one; by affinity, by selector and through a taint the team's."""
    usual, team = pools(world)
    private = pool(world, f"{world.name}-private", "on-demand", ["amd64"], team="private")
    taint = {"key": "team", "value": "private", "effect": "NoSchedule"}
    private["spec"]["template"]["spec"]["taints"] = [taint]
    tolerating = {"tolerations": [{**taint, "operator": "Equal"}], "nodeSelector": {"team": "private"}}
    world.apply(private, deployment(world, "inflate", 0))
    with world.controller() as controller:
        world.kubectl("scale", "deployment/inflate", "--replicas=5")
        world.settled(pods=5)
        assert seen(world) == {(usual, "spot")}
        world.apply(
            deployment(world, "affine", 5, affinity=affinity(TEAM)),
            deployment(world, "selecting", 1, nodeSelector={"team": "team1"}),
            deployment(world, "tolerating", 1, **tolerating),
        )
        world.settled(pods=12)
        assert seen(world) == {
            (usual, "spot"),
            (team, "on-demand"),
            (private["metadata"]["name"], "on-demand"),
        }
        teams = {node["metadata"]["name"] for node in world.nodes() if own(node) == team}
        assert {pod["spec"]["nodeName"] for pod in (*world.pods("affine"), *world.pods("selecting"))} <= teams
        assert controller.stop() == 0


def own(node: dict[str, Any]) -> str:
    return str(node["metadata"]["labels"]["karpenter.sh/nodepool"])


def test_a_node_for_each_replica_and_back(world: World) -> None:
    """The smallest type each; empty nodes go after their time, one by one as the budget says."""
    _, team = pools(world)
    world.apply(deployment(world, "inflate", 0, affinity={**affinity(TEAM), **apart("inflate")}))
    with world.controller() as controller:
        world.kubectl("scale", "deployment/inflate", "--replicas=5")
        nodes = world.settled(pods=5, nodes=5)
        assert seen(world) == {(team, "on-demand")}
        assert {node["metadata"]["labels"][TYPE].rsplit("-", 2)[0] for node in nodes} == {"c-1x"}
        world.kubectl("scale", "deployment/inflate", "--replicas=3")
        most = 0

        def left() -> int:
            nonlocal most
            there = world.nodes()
            most = max(most, len([node for node in there if tainted(node)]))
            return len(there)

        eventually(left, lambda found: found == 3, seconds=300)
        assert most == 1
        done = [(line["reason"], line["decision"]) for line in controller.lines("disrupting node(s)")]
        assert done == [("Empty", "delete")] * 2
        assert controller.stop() == 0


def test_an_affinity_in_the_wrong_place_is_refused(world: World) -> None:
    wrong = deployment(world, "inflate", 5)
    wrong["spec"]["affinity"] = affinity(TEAM)
    with pytest.raises(StartError, match=r'unknown field "(spec\.)?affinity"'):
        world.apply(wrong)
