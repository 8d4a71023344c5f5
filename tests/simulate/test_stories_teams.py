"""Acceptance: two teams, two pools; placeholder pods that ask for one of them."""

from __future__ import annotations

from typing import Any

import pytest
from operated import Operated, play, pool
from stories import apart, condition_of, inflate, on_team, price, scale, sold, travel_class

from dovetail.api.core import Node
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.clock import MINUTE, SECOND
from dovetail.model import labels

pytestmark = pytest.mark.usefixtures("every_cloud")

GIB = 1024**3


def teams() -> tuple[dict[str, Any], ...]:
    """Two pools on one class: spot instances, and on-demand ones of either architecture for team1.

    Both are held to the categories and generations that the oldest API version chose by default.
    """
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spot = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]}
    on_demand = {**spot, "values": ["on-demand"]}
    either = {"key": labels.ARCH, "operator": "In", "values": ["amd64", "arm64"]}
    usual = [
        {"key": labels.AWS + "instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": labels.AWS + "instance-generation", "operator": "Gt", "values": ["2"]},
    ]
    common = pool("default", template={"spec": {"nodeClassRef": reference, "requirements": [spot, *usual]}})
    template = {
        "metadata": {"labels": {"team": "team1"}},
        "spec": {"nodeClassRef": reference, "requirements": [on_demand, either, *usual]},
    }
    return common, pool("team1", template=template, limits={"cpu": "1000"})


def small_class(**spec: Any) -> dict[str, Any]:
    made = travel_class(**spec)
    made["metadata"] = {"name": "default"}
    return made


def cheapest_for(pods: int) -> int:
    """The price of the cheapest type of those categories that holds so many placeholders."""
    return min(
        price(item)
        for item in sold().values()
        if item.name[0] in "cmr"
        and item.allocatable()["cpu"] >= pods * 1_000
        and item.allocatable()["memory"] >= pods * GIB
    )


def test_a_team_s_pods_get_the_team_s_node() -> None:
    async def script(world: Operated) -> None:
        tagged = small_class(tags={"KarpenerProvisionerName": "team1"})
        world.create(tagged, *teams(), inflate(0, affinity=on_team("team1")))
        await world.clock.sleep(30 * SECOND)
        assert world.records("claim.created") == []
        await scale(world, 5)
        await world.clock.sleep(2 * MINUTE)

    world = play(script)
    assert {record["capacityType"] for record in world.records("instance.started")} == {"on-demand"}
    for node in world.state.all(Node):
        assert node.metadata.labels["team"] == node.metadata.labels[labels.NODEPOOL] == "team1"
    paid = sum(record["price"] - record["volumes"] for record in world.records("instance.started"))
    assert paid <= cheapest_for(5)
    assert len(world.records("instance.started")) == 1  # two smaller nodes would cost the same
    assert len(world.records("pod.running")) == 5


def test_a_label_that_no_pool_defines_is_named() -> None:
    async def script(world: Operated) -> None:
        world.create(small_class(), teams()[0], inflate(1, affinity=on_team("team1")))
        await world.clock.sleep(30 * SECOND)

    text = 'Failed to schedule pod, incompatible requirements, label "team" does not have known values'
    assert text in play(script).messages("FailedScheduling")


def test_a_variable_that_was_not_expanded_finds_no_subnets() -> None:
    async def script(world: Operated) -> None:
        terms = [{"tags": {"karpenter.sh/discovery": "${CLUSTER_NAME}"}}]
        world.create(small_class(subnetSelectorTerms=terms), *teams(), inflate(1, affinity=on_team("team1")))
        await world.clock.sleep(30 * SECOND)
        assert (
            condition_of(world.state.get(EC2NodeClass, "default"), "SubnetsReady").reason == "SubnetsNotFound"
        )

    assert play(script).records("claim.created") == []


def test_five_pods_that_keep_apart_get_five_small_nodes() -> None:
    async def script(world: Operated) -> None:
        world.create(small_class(), *teams(), inflate(5, affinity={**on_team("team1"), **apart()}))
        await world.clock.sleep(2 * MINUTE)

    world = play(script)
    bound = {record["pod"]: record["node"] for record in world.records("pod.bound")}
    assert len(bound) == len(set(bound.values())) == 5
    started = world.records("instance.started")
    assert [(record["capacityType"], record["price"] - record["volumes"]) for record in started] == [
        ("on-demand", cheapest_for(1))
    ] * 5
