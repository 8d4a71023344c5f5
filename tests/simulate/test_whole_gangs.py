"""Pods that need each other: nodes are bought for enough of them, or for none."""

from __future__ import annotations

from typing import Any

import pytest
from operated import START, Operated, play, pod, pool

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import MINUTE
from dovetail.cloud.inmemory import Limit
from dovetail.testing.guests import node_class

LABEL = "scheduling.x-k8s.io/pod-group"


def member(name: str, gang: str = "train", cpu: str = "1500m") -> dict[str, Any]:
    """A pod of a gang, one of which fits on an m5.large."""
    document = pod(name, cpu)
    document["metadata"]["labels"] = {LABEL: gang}
    return document


def group(minimum: int, name: str = "train") -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": minimum},
    }


def small(**spec: Any) -> dict[str, Any]:
    """A pool of m5.large."""
    document = pool(**spec)
    document["spec"]["template"]["spec"]["requirements"][1]["values"] = ["m5.large"]
    return document


def members(number: int, gang: str = "train") -> list[dict[str, Any]]:
    return [member(f"{gang}-{index}", gang) for index in range(number)]


def bought(world: Operated) -> int:
    return len(world.records("claim.created"))


@pytest.mark.parametrize(("limit", "nodes"), [("12", 0), ("16", 8)], ids=["six fit", "eight fit"])
def test_a_limit_lets_all_have_nodes_or_none(limit: str, nodes: int) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), small(limits={"cpu": limit}), group(8), *members(8))
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    assert (bought(world), len(world.records("pod.running"))) == (nodes, nodes)
    texts = [text for text in world.messages("FailedScheduling") if "gang default/train" in text]
    assert any(
        "6 of 8 pods can be placed (it needs 8); nothing is bought for it" in one for one in texts
    ) == (not nodes)


def test_without_them_six_nodes_are_bought_that_nothing_can_use() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), small(limits={"cpu": "12"}), group(8), *members(8))
        await world.clock.sleep(5 * MINUTE)

    assert bought(play(script, gangs=False)) == 6


def test_others_get_the_room_that_a_broken_gang_leaves() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), small(limits={"cpu": "6"}), group(4))
        world.create(*(pod(f"web-{index}", "1500m") for index in range(3)), *members(4))
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    running = {str(record["pod"]) for record in world.records("pod.running")}
    assert running == {f"default/web-{index}" for index in range(3)}


def test_a_gang_waits_until_enough_of_its_pods_are_there() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), small(), group(4), *members(3))
        await world.clock.sleep(3 * MINUTE)
        assert bought(world) == 0
        world.create(member("train-3"))
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    assert len(world.records("pod.running")) == 4
    assert any("3 of the 4 pods that it needs are there" in one for one in world.messages("FailedScheduling"))


def test_a_pod_that_is_made_anew_joins_those_that_run() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), small(), group(4), *members(4))
        await world.clock.sleep(3 * MINUTE)
        world.server.delete(Pod, "train-0", "default")
        await world.clock.sleep(MINUTE)
        world.create(member("again"))
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    assert "default/again" in {str(record["pod"]) for record in world.records("pod.running")}


def test_what_the_cloud_does_not_have_for_all_is_tried_more_and_more_seldom() -> None:
    async def script(world: Operated) -> None:
        document = small()
        document["spec"]["template"]["spec"]["requirements"].append(
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["ap-northeast-2a"]}
        )
        world.create(node_class(), document, group(4), *members(4))
        await world.clock.sleep(30 * MINUTE)
        assert not world.records("pod.running")
        await world.clock.sleep(30 * MINUTE)

    world = play(script, limits=(Limit(capacity=3, until=START + 30 * MINUTE),))
    times = sorted({record["t"] for record in world.records("claim.created")})
    assert [round((one - START) / MINUTE) for one in times] == [0, 6, 17, 38]
    assert len(world.records("pod.running")) == 4
    assert any("not all of its pods had one" in text for text in world.messages("FailedScheduling"))


MAY_STOP = "dovetail.dev/gang-may-stop"


@pytest.mark.parametrize("whose", ["a gang", "a gang that may stop", "no gang", "gangs off"])
def test_a_gang_that_runs_is_not_stopped_to_save_money(whose: str) -> None:
    """Four nodes of two cores have a pod of 400m each once others are gone: one would be enough."""

    async def script(world: Operated) -> None:
        world.create(node_class(), small())
        if whose != "no gang":
            world.create(group(4))
        for index in range(4):
            document = member(f"train-{index}", cpu="400m")
            document["metadata"]["annotations"] = {MAY_STOP: str(whose == "a gang that may stop").lower()}
            world.create(document, pod(f"filler-{index}", "1200m"))
        await world.clock.sleep(4 * MINUTE)
        for index in range(4):
            world.server.delete(Pod, f"filler-{index}", "default")
        await world.clock.sleep(10 * MINUTE)

    world = play(script, gangs=whose != "gangs off")
    stays = whose == "a gang"
    assert bool(world.records("disrupted")) is not stays
    texts = [text for text in world.messages("DisruptionBlocked") if "train" in text]
    assert any("Gang default/train needs 4 of its pods, of which 4 run" in text for text in texts) is stays


@pytest.mark.parametrize("limited", [False, True])
def test_a_drifted_node_of_a_gang_that_runs_goes_where_its_time_is_limited(limited: bool) -> None:
    async def script(world: Operated) -> None:
        document = small()
        if limited:
            document["spec"]["template"]["spec"]["terminationGracePeriod"] = "1h"
        world.create(node_class(), document, group(2), *members(2))
        await world.clock.sleep(4 * MINUTE)
        changed = {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
        world.server.patch(NodePool, "general", merge_patch=changed)
        await world.clock.sleep(20 * MINUTE)

    assert bool(play(script).records("disrupted")) is limited
