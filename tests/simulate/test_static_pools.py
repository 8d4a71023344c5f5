"""NodePools with `spec.replicas`: so many nodes, whatever pods there are."""

from __future__ import annotations

from typing import Any

import pytest
from operated import Operated, play, pod, pool

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.controllers.nodeclaim.disrupted import CLAIMS
from dovetail.model import labels
from dovetail.runtime.settings import FeatureGates
from dovetail.testing.census import Find, leftovers
from dovetail.testing.guests import node_class

GATE = FeatureGates(static_capacity=True)


def static(replicas: int, limit: int | None = None, **spec: Any) -> dict[str, Any]:
    limits = {} if limit is None else {"limits": {"nodes": str(limit)}}
    return pool(replicas=replicas, **limits, **spec)


async def change(world: Operated, **spec: Any) -> None:
    await world.client.patch(NodePool, "general", merge={"spec": spec})


async def renew(world: Operated) -> None:
    """All nodes drift."""
    await change(world, template={"metadata": {"labels": {"generation": "new"}}})


def kept(world: Operated) -> int:
    return len([node for node in world.state.all(Node) if not node.deleting])


def test_a_pool_has_as_many_nodes_as_it_says_and_keeps_empty_ones() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), static(3))
        await world.clock.sleep(HOUR)
        assert kept(world) == 3
        await change(world, replicas=5)
        await world.clock.sleep(2 * MINUTE)
        assert kept(world) == 5
        await world.client.delete(Node, world.state.all(Node)[0].metadata.name)
        await world.clock.sleep(3 * MINUTE)
        assert kept(world) == 5

    world = play(script, gates=GATE)
    assert world.records("disruption") == []
    assert len(world.records("claim.created")) == len(world.records("instance.started")) == 6
    assert {claim.metadata.labels[labels.INSTANCE_TYPE] for claim in world.state.all(NodeClaim)} == {
        "m5.large"
    }


def test_nothing_is_bought_for_pods_and_nothing_at_all_without_the_gate() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), static(1), *(pod(f"p{i}", "1500m") for i in range(3)))
        await world.clock.sleep(10 * MINUTE)

    assert len(play(script, gates=GATE).state.all(Node)) == 1
    assert play(script).state.all(Node) == ()


def test_nodes_stay_when_the_gate_is_closed() -> None:
    """They may be Karpenter's: who no longer keeps their number must not take them for empty."""

    async def script(world: Operated) -> None:
        world.create(node_class(), static(2))
        await world.clock.sleep(3 * MINUTE)
        world._settings = type(world._settings)(on_plan=world._check)
        await world.restart()
        await world.clock.sleep(HOUR)
        assert kept(world) == 2

    assert play(script, gates=GATE).records("disruption") == []


def test_empty_nodes_go_first_and_those_with_held_pods_last() -> None:
    async def script(world: Operated) -> None:
        held = pod("held", "1500m", annotations={labels.DO_NOT_DISRUPT: "true"})
        world.create(node_class(), static(4), held, pod("a", "1500m"), pod("b", "1500m"))
        await world.clock.sleep(3 * MINUTE)
        await change(world, replicas=3)
        await world.clock.sleep(3 * MINUTE)
        assert len(world.records("pod.evicted")) == 0  # the fourth was empty
        assert kept(world) == 3
        await change(world, replicas=1)
        await world.clock.sleep(3 * MINUTE)
        (left,) = world.state.all(Node)
        assert [item.metadata.name for item in world.state.pods_on(left.metadata.name)] == ["held"]

    world = play(script, gates=GATE)
    series = {"nodepool": "general", "capacity_type": "on-demand", "termination_mode": "graceful"}
    policy = "WhenEmptyOrUnderutilized"
    assert world.metrics.value(CLAIMS, reason="overprovisioned", consolidation_policy=policy, **series) == 3


def test_the_limit_of_nodes_holds_and_is_reported() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), static(4, limit=2))
        await world.clock.sleep(5 * MINUTE)
        assert kept(world) == 2

    world = play(script, gates=GATE)
    assert [record["pool"] for record in world.records("pool.full")] == ["general"]


@pytest.mark.parametrize(("limit", "renewed"), [(3, 0), (4, 3), (None, 3)])
def test_drifted_nodes_are_replaced_first_as_far_as_the_limit_lets(limit: int | None, renewed: int) -> None:
    fewest = []

    async def script(world: Operated) -> None:
        world.create(node_class(), static(3, limit), pod("a", "1500m"))
        await world.clock.sleep(3 * MINUTE)
        await renew(world)
        for _ in range(20 * 6):
            await world.clock.sleep(10 * SECOND)
            fewest.append(kept(world))
        new = [node for node in world.state.all(Node) if node.metadata.labels.get("generation") == "new"]
        assert len(new) == renewed
        assert kept(world) == 3

    world = play(script, gates=GATE)
    assert min(fewest) == 3
    assert max(fewest) <= (limit or 6)
    assert len(world.records("claim.created")) == 3 + renewed


@pytest.mark.parametrize("moment", [0, 1, 3, 20, 45])
def test_a_restart_while_one_is_replaced_leaves_as_many(moment: int) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), static(2))
        await world.clock.sleep(3 * MINUTE)
        await renew(world)
        while len(world.records("claim.created")) < 3:
            await world.clock.sleep(SECOND)
        await world.clock.sleep(moment * SECOND)
        await world.restart()
        await world.clock.sleep(15 * MINUTE)
        assert [node.metadata.labels["generation"] for node in world.state.all(Node)] == ["new", "new"]

    assert len(play(script, gates=GATE).records("claim.created")) == 4


def test_a_paused_pool_neither_grows_nor_shrinks() -> None:
    async def pause(world: Operated, value: str | None) -> None:
        merge = {"metadata": {"annotations": {labels.PAUSE: value}}}
        await world.client.patch(NodePool, "general", merge=merge)

    async def script(world: Operated) -> None:
        world.create(node_class(), static(2))
        await world.clock.sleep(3 * MINUTE)
        await pause(world, "all")
        for replicas in (1, 3):
            await change(world, replicas=replicas)
            await world.clock.sleep(5 * MINUTE)
            assert kept(world) == 2
        await pause(world, None)
        await world.clock.sleep(3 * MINUTE)
        assert kept(world) == 3

    play(script, gates=GATE)


def test_pods_use_the_nodes_that_are_there() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), static(2), pod("a", "1500m"), pod("b", "1500m"))
        await world.clock.sleep(3 * MINUTE)
        assert all(item.spec.node_name for item in world.state.all(Pod))

    play(script, gates=GATE)


def test_nothing_is_kept_of_a_pool_that_is_gone() -> None:
    """Neither that its limit was logged nor whether its nodes joined."""
    found: list[Find] = []

    async def script(world: Operated) -> None:
        world.create(node_class(), static(3, limit=2))
        await world.clock.sleep(HOUR)
        uid = world.state.all(NodePool)[0].metadata.uid
        await world.client.delete(NodePool, "general")
        await world.clock.sleep(HOUR)
        operator = world.operator
        roots = {"controllers": [operator._context.made, operator]}
        found.extend(leftovers(roots, dict.fromkeys(("general", uid), "NodePool")))

    world = play(script, gates=GATE)
    assert len(world.records("pool.full")) == 1
    keepers = ("StaticCapacity.", "RegistrationHealth.", "Remarks.")
    assert [item for item in found if any(name in item.place for name in keepers)] == []
