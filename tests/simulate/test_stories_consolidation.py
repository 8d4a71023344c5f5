"""Acceptance: twenty pods on three nodes become ten, and what consolidation makes of the nodes then."""

from __future__ import annotations

from typing import Any

import pytest
from operated import Operated, play, pool
from stories import inflate, scale

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE
from dovetail.controllers.disruption import efficiency, metrics
from dovetail.disrupt.pods import DISRUPTED
from dovetail.model import labels
from dovetail.runtime.settings import FeatureGates
from dovetail.testing.guests import node_class

pytestmark = pytest.mark.usefixtures("every_cloud")

ZONES = [f"ap-northeast-2{letter}" for letter in "abc"]
ZONAL = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "inflate"}},
}
SPOT_TO_SPOT_OFF = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"


def express(capacity: str, *cpus: str) -> dict[str, Any]:
    """The post's pool with its mistakes mended: categories c, m, r of generation 3 and later."""
    made = pool(disruption={"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]})
    made["spec"]["template"]["spec"]["requirements"] = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": list(cpus)},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ZONES},
    ]
    return made


async def release(world: Operated) -> None:
    """Make the ReplicaSet choose its ten pods evenly: 7, 7 and 6 on the nodes become 4, 3 and 3."""
    by_node: dict[str, list[Pod]] = {}
    for pod in sorted(world.state.all(Pod), key=lambda pod: pod.key):
        by_node.setdefault(pod.spec.node_name, []).append(pod)
    crowded = sorted(by_node.values(), key=len)
    cheap = {"metadata": {"annotations": {labels.POD_DELETION_COST: "-1"}}}
    for pods, kept in zip(crowded, (3, 3, 4), strict=True):
        for pod in pods[kept:]:
            await world.client.patch(Pod, pod.metadata.name, "default", merge=cheap)


async def halved(world: Operated, made: dict[str, Any]) -> None:
    """Twenty replicas, and ten once they all run; then time to consolidate."""
    pods = inflate(20, topologySpreadConstraints=[ZONAL])
    pods["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "64Mi"
    world.create(node_class(), made, pods)
    await world.clock.sleep(10 * MINUTE)
    assert len(world.state.all(Node)) == 3
    world.log.record("test.halved")
    await release(world)
    await scale(world, 10)
    await world.clock.sleep(20 * MINUTE)
    assert sum(bool(pod.spec.node_name) for pod in world.state.all(Pod)) == 10


def hourly(world: Operated) -> tuple[int, int]:
    """Nano-dollars per hour of all instances before the scale-in, and at the end."""
    running: dict[object, int] = {}
    before = 0
    for record in world.log.records:
        if record["kind"] == "instance.started":
            running[record["instance"]] = record["price"]
        elif record["kind"] == "instance.terminated":
            del running[record["instance"]]
        elif record["kind"] == "test.halved":
            before = sum(running.values())
    return before, sum(running.values())


def test_respecting_the_zones_three_spot_nodes_stay() -> None:
    async def script(world: Operated) -> None:
        await halved(world, express("spot", "4", "8"))
        assert len(world.state.all(Node)) == 3

    world = play(script)
    assert not world.records("disruption")
    assert SPOT_TO_SPOT_OFF in world.messages("Unconsolidatable")


def test_ignoring_the_zones_one_node_is_deleted() -> None:
    async def script(world: Operated) -> None:
        await halved(world, express("spot", "8"))
        assert len(world.state.all(Node)) == 2

    world = play(script, preference_policy="Ignore")
    (command,) = world.records("disruption")
    assert (command["reason"], command["decision"]) == ("Underutilized", "delete")
    before, after = hourly(world)
    # What is saved is the price of the node that went, as the record says.
    assert before - after == command["savings"] > 0


def test_respecting_the_zones_on_demand_nodes_become_smaller() -> None:
    async def script(world: Operated) -> None:
        await halved(world, express("on-demand", "4", "8"))
        assert {node.metadata.labels[labels.ZONE] for node in world.state.all(Node)} == set(ZONES)

    world = play(script)
    assert {record["decision"] for record in world.records("disruption")} == {"replace"}
    before, after = hourly(world)
    assert after < before
    assert before - after == sum(record["savings"] for record in world.records("disruption"))


def test_with_the_gate_on_spot_nodes_become_smaller() -> None:
    async def script(world: Operated) -> None:
        await halved(world, express("spot", "4", "8"))
        assert {node.metadata.labels[labels.ZONE] for node in world.state.all(Node)} == set(ZONES)

    world = play(script, gates=FeatureGates(spot_to_spot_consolidation=True))
    assert {record["decision"] for record in world.records("disruption")} == {"replace"}
    before, after = hourly(world)
    assert after < before


@pytest.mark.parametrize("capacity", ["spot", "on-demand"])
def test_no_pod_leaves_before_its_node_is_tainted(capacity: str) -> None:
    tainted: dict[str, int] = {}

    async def script(world: Operated) -> None:
        def notice(_kind: object, _change: str, _old: object, new: object) -> None:
            if isinstance(new, Node) and any(taint.key == DISRUPTED.key for taint in new.spec.taints):
                tainted.setdefault(new.metadata.name, world.clock.now())

        world.state.subscribe(notice)
        await halved(world, express(capacity, "4", "8"))

    world = play(script, preference_policy="Ignore", gates=FeatureGates(spot_to_spot_consolidation=True))
    evicted = world.records("pod.evicted")
    assert evicted
    assert all(tainted[record["node"]] <= record["t"] for record in evicted)


def test_a_cluster_that_does_not_change_is_left_alone() -> None:
    async def script(world: Operated) -> None:
        await halved(world, express("on-demand", "4", "8"))
        world.log.record("test.settled")
        await world.clock.sleep(60 * MINUTE)
        assert len(world.state.all(NodeClaim)) == len(world.state.all(Node))

    world = play(script)
    (settled,) = world.records("test.settled")
    assert all(record["t"] < settled["t"] for record in world.records("disruption"))


def test_what_is_decided_is_exported() -> None:
    async def script(world: Operated) -> None:
        await halved(world, express("on-demand", "4", "8"))

    world = play(script)
    kinds = [
        metrics.consolidation_type(record["reason"], len(record["nodes"]))
        for record in world.records("disruption")
    ]
    for kind in set(kinds):
        series = {"decision": "replace", "reason": "underutilized", "consolidation_type": kind}
        assert world.metrics.value(metrics.DECISIONS, **series) == kinds.count(kind)
        assert world.metrics.value(metrics.BY_POOL, nodepool="general", **series) == kinds.count(kind)
    series_of_pool = {"decision": "replace", "nodepool": "general", "policy": "WhenEmptyOrUnderutilized"}
    assert world.metrics.value(metrics.MOVES, **series_of_pool) == len(kinds)
    assert len(world.metrics.observed(metrics.SCORE, **series_of_pool)) == len(kinds)
    nodes = len(world.state.all(Node))
    assert world.metrics.value(metrics.ALLOWED, nodepool="general", reason="underutilized") == nodes
    assert world.metrics.value(metrics.CONSUMING, nodepool="general", reason="underutilized") == 0
    assert world.metrics.value(metrics.ELIGIBLE, reason="underutilized") == nodes
    # It fell when half of the pods went, and rose again as far as three zones allow.
    ratio = world.metrics.value(efficiency.RATIO) or 0
    looks = [record["lowerBound"] / record["cost"] for record in world.records("efficiency")]
    assert looks[0] > 0.8
    assert ratio == looks[-1] > min(looks)
    assert world.metrics.observed(metrics.EVALUATION, reason="drifted", consolidation_type="")
