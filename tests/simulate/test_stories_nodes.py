"""Acceptance: how pods choose among pools and zones, what pools pass on, and what deleting them takes."""

from __future__ import annotations

from typing import Any

import pytest
from operated import START, Operated, play, pod, pool
from stories import apart, inflate, scale

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import ReplicaSet
from dovetail.base.clock import MINUTE
from dovetail.cloud.inmemory import Limit
from dovetail.model import labels
from dovetail.testing.guests import node_class

pytestmark = pytest.mark.usefixtures("every_cloud")


def lasting(name: str = "general", **template: Any) -> dict[str, Any]:
    """A pool that keeps empty nodes; fields of the template's spec may be given."""
    made = pool(name, disruption={"consolidateAfter": "Never"})
    made["spec"]["template"]["spec"].update(template)
    return made


def spread(when: str) -> list[dict[str, Any]]:
    """One placeholder more per zone than in any other, at most."""
    selector = {"matchLabels": {"app": "inflate"}}
    rule = {"maxSkew": 1, "topologyKey": labels.ZONE, "whenUnsatisfiable": when, "labelSelector": selector}
    return [rule]


def test_scaling_up_buys_one_node_per_pod_that_has_none() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), lasting(), inflate(1, affinity=apart()))
        await world.clock.sleep(2 * MINUTE)
        assert len(world.state.all(Node)) == 1
        await scale(world, 6)
        await world.clock.sleep(2 * MINUTE)

    world = play(script)
    first, second = world.records("batch")
    assert (len(first["pods"]), len(second["pods"])) == (1, 5)
    assert len(world.records("claim.created")) == 6
    bound = {record["node"] for record in world.records("pod.bound")}
    assert len(bound) == len(world.records("node.ready")) == 6


def test_annotations_of_the_template_come_with_the_node() -> None:
    async def script(world: Operated) -> None:
        made = pool(disruption={"consolidateAfter": "0s"})
        made["spec"]["template"]["metadata"] = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}
        world.create(node_class(), made, inflate(1))
        await world.clock.sleep(2 * MINUTE)
        (node,) = world.state.all(Node)
        assert node.metadata.annotations[labels.DO_NOT_DISRUPT] == "true"
        await world.client.delete(ReplicaSet, "inflate", "default")
        await world.clock.sleep(3 * MINUTE)
        assert len(world.state.all(Node)) == 1

    assert play(script).records("disruption") == []


@pytest.mark.parametrize(
    ("weights", "chosen"), [((None, None), "pool-b"), ((10, None), "pool-a"), ((10, 20), "pool-b")]
)
def test_the_heavier_pool_is_chosen_and_the_later_name_among_equals(
    weights: tuple[int | None, ...], chosen: str
) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class())
        for name, weight in zip(("pool-a", "pool-b"), weights, strict=True):
            made = lasting(name)
            if weight is not None:
                made["spec"]["weight"] = weight
            world.create(made)
        world.create(pod("a"))
        await world.clock.sleep(2 * MINUTE)

    assert [record["pool"] for record in play(script).records("claim.created")] == [chosen]


def test_a_taint_keeps_pods_off_that_do_not_tolerate_it() -> None:
    taint = {"key": "application-priority", "value": "critical", "effect": "NoSchedule"}
    toleration = {"key": "application-priority", "operator": "Equal", "value": "critical"}

    async def script(world: Operated) -> None:
        world.create(node_class(), lasting(taints=[taint]), pod("other"))
        world.create(pod("critical", tolerations=[toleration]))
        await world.clock.sleep(2 * MINUTE)

    world = play(script)
    assert [record["pod"] for record in world.records("pod.running")] == ["default/critical"]
    text = "Failed to schedule pod, did not tolerate taint (taint=application-priority=critical:NoSchedule)"
    assert text in world.messages("FailedScheduling")


@pytest.mark.parametrize("when", ["DoNotSchedule", "ScheduleAnyway"])
def test_a_zone_without_capacity_holds_up_pods_that_must_be_even(when: str) -> None:
    async def script(world: Operated) -> None:
        zones = {"key": labels.ZONE, "operator": "In", "values": ["ap-northeast-2a", "ap-northeast-2c"]}
        made = lasting()
        made["spec"]["template"]["spec"]["requirements"].append(zones)
        world.create(node_class(), made, inflate(2, topologySpreadConstraints=spread(when)))
        await world.clock.sleep(2 * MINUTE)
        await scale(world, 9)
        await world.clock.sleep(8 * MINUTE)

    # Each zone has a node by then; after that zone c gives no more.
    short = Limit(since=START + 2 * MINUTE, zones=("ap-northeast-2c",))
    world = play(script, limits=(short,))
    zone_of = {record["node"]: record["zone"] for record in world.records("node.created")}
    by_zone = [zone_of[record["node"]][-1] for record in world.records("pod.bound")]
    if when == "DoNotSchedule":
        assert abs(by_zone.count("a") - by_zone.count("c")) <= 1
        assert 2 < len(by_zone) < 9
    else:
        assert len(by_zone) == 9


def test_deleting_the_pool_takes_its_nodes_along() -> None:
    async def script(world: Operated) -> None:
        held = pod("held", "1500m", annotations={labels.DO_NOT_DISRUPT: "true"})
        world.create(node_class(), lasting(), pod("a", "1500m"), held)
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(NodePool, "general")
        await world.clock.sleep(4 * MINUTE)
        # The pod that must not be disrupted keeps its node until it leaves.
        assert [item.metadata.name for item in world.state.all(Pod)] == ["held"]
        assert all(item.deleting for item in world.state.all(NodeClaim))
        await world.client.delete(Pod, "held", "default")
        await world.clock.sleep(3 * MINUTE)
        assert world.state.all(Node) == world.state.all(NodeClaim) == ()
        assert await world.cloud.list() == []

    play(script)
