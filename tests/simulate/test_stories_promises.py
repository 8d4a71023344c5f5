"""Acceptance: what "never" and "at once" mean: who takes a held node after all, and how rotations go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from operated import Operated, play, pool
from stories import apart, inflate, scale

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.cloud.interruption import InterruptionKind
from dovetail.model import labels
from dovetail.runtime.settings import FeatureGates
from dovetail.testing.guests import node_class
from dovetail.units.timestamp import to_rfc3339

pytestmark = pytest.mark.usefixtures("every_cloud")

Taker = Callable[[Operated, Node, NodeClaim], Awaitable[None]]


def held_pool(**template: Any) -> dict[str, Any]:
    """Nodes that carry do-not-disrupt from their template."""
    made = pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
    made["spec"]["template"]["metadata"] = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}
    made["spec"]["template"]["spec"].update(template)
    return made


async def do_nothing(world: Operated, _node: Node, _claim: NodeClaim) -> None:
    await scale(world, 0)


async def drift(world: Operated, _node: Node, _claim: NodeClaim) -> None:
    merge = {"spec": {"template": {"metadata": {"labels": {"generation": "new"}}}}}
    await world.client.patch(NodePool, "general", merge=merge)


async def age(world: Operated, _node: Node, _claim: NodeClaim) -> None:
    await world.clock.sleep(15 * MINUTE)


async def interruption(world: Operated, _node: Node, claim: NodeClaim) -> None:
    world.cloud.interrupt(claim.status.provider_id, InterruptionKind.SPOT)


async def sickness(world: Operated, node: Node, _claim: NodeClaim) -> None:
    stamp = to_rfc3339(world.clock.now() - HOUR)
    sick = {"type": "KernelReady", "status": "False", "reason": "Broken", "lastTransitionTime": stamp}
    await world.client.patch(Node, node.metadata.name, merge={"status": {"conditions": [sick]}}, status=True)
    await world.clock.sleep(25 * MINUTE)  # half an hour since it was made


async def hand(world: Operated, node: Node, _claim: NodeClaim) -> None:
    await world.client.delete(Node, node.metadata.name)


async def no_pool(world: Operated, _node: Node, _claim: NodeClaim) -> None:
    await world.client.delete(NodePool, "general")


@pytest.mark.parametrize(
    ("taker", "goes"),
    [
        (do_nothing, False),
        (drift, False),
        (age, True),
        (interruption, True),
        (sickness, True),
        (hand, True),
        (no_pool, True),
    ],
)
def test_a_held_node_is_not_out_of_reach_of_everything(taker: Taker, goes: bool) -> None:
    async def script(world: Operated) -> None:
        expiry = {"expireAfter": "10m"} if taker is age else {}
        world.create(node_class(), held_pool(**expiry), inflate(1))
        await world.clock.sleep(2 * MINUTE)
        (node,), (claim,) = world.state.all(Node), world.state.all(NodeClaim)
        await taker(world, node, claim)
        await world.clock.sleep(10 * MINUTE)
        there = {item.metadata.name for item in world.state.all(Node)}
        assert (node.metadata.name not in there) == goes

    play(script, gates=FeatureGates(node_repair=True))


def test_every_node_has_the_finalizer_and_a_deleted_one_drains_first() -> None:
    async def script(world: Operated) -> None:
        pods = inflate(2)
        pods["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30
        world.create(node_class(), pool(), pods)
        await world.clock.sleep(2 * MINUTE)
        (node,) = world.state.all(Node)
        assert labels.TERMINATION_FINALIZER in node.metadata.finalizers
        await world.client.delete(Node, node.metadata.name)
        await world.clock.sleep(1)
        assert (await world.client.get(Node, node.metadata.name)).deleting
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    gone = world.records("node.deleted")[0]["t"]
    assert [record["t"] < gone for record in world.records("pod.evicted")] == [True, True]


def test_empty_nodes_go_before_drifted_ones_and_before_consolidation() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), inflate(3, affinity=apart()))
        await world.clock.sleep(2 * MINUTE)
        await scale(world, 1)
        await world.clock.sleep(SECOND)
        marks = {"spec": {"template": {"metadata": {"labels": {"generation": "new"}}}}}
        await world.client.patch(NodePool, "general", merge=marks)
        await world.clock.sleep(20 * MINUTE)

    reasons = [record["reason"] for record in play(script).records("disruption")]
    assert reasons[0] in ("Empty", "Drifted")
    assert reasons == sorted(reasons, key=["Empty", "Drifted", "Underutilized"].index)


def test_age_takes_nodes_that_are_used_and_not_those_that_are_unused() -> None:
    """Expiry is about age only; what is unused goes because it is empty."""

    async def script(world: Operated) -> None:
        made = pool(disruption={"consolidateAfter": "Never"})
        made["spec"]["template"]["spec"]["expireAfter"] = "30m"
        world.create(node_class(), made, inflate(1))
        await world.clock.sleep(2 * MINUTE)
        await scale(world, 0)
        await world.clock.sleep(20 * MINUTE)
        assert len(world.state.all(Node)) == 1
        await world.clock.sleep(15 * MINUTE)
        assert not world.state.all(Node)

    assert not play(script).records("disruption")


def test_a_new_image_family_replaces_all_nodes_one_after_the_other() -> None:
    async def script(world: Operated) -> None:
        made = pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]})
        world.create(node_class(), made, inflate(3, affinity=apart()))
        await world.clock.sleep(2 * MINUTE)
        old = {node.metadata.name for node in world.state.all(Node)}
        merge = {"spec": {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}}
        await world.client.patch(EC2NodeClass, "default", merge=merge)
        for _ in range(30):
            await world.clock.sleep(MINUTE)
            assert sum(claim.deleting for claim in world.state.all(NodeClaim)) <= 1
        assert not old & {node.metadata.name for node in world.state.all(Node)}
        assert sum(bool(pod.spec.node_name) for pod in world.state.all(Pod)) == 3

    commands = play(script).records("disruption")
    assert [(one["reason"], one["decision"]) for one in commands] == [("Drifted", "replace")] * 3


def test_deleting_the_pool_ends_the_instances_only_while_a_controller_runs_the_finalizers() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), inflate(2, affinity=apart()))
        await world.clock.sleep(2 * MINUTE)
        await world.stop()
        await world.client.delete(NodePool, "general")
        await world.clock.sleep(10 * MINUTE)
        # No controller takes the finalizers off: everything hangs, and the instances are paid for.
        assert all(node.metadata.finalizers for node in world.state.all(Node))
        assert len(await world.cloud.list()) == 2
        await world.restart()
        await world.clock.sleep(5 * MINUTE)
        assert not await world.cloud.list()
        assert not world.state.all(Node)

    play(script)


@pytest.mark.parametrize(("budget", "together"), [("100%", 5), ("10%", 1)])
def test_after_the_window_of_a_campaign_empty_nodes_go(budget: str, together: int) -> None:
    async def script(world: Operated) -> None:
        made = pool(disruption={"consolidateAfter": "30s", "budgets": [{"nodes": budget}]})
        world.create(node_class(), made, inflate(5, affinity=apart()))
        await world.clock.sleep(2 * MINUTE)
        assert len(world.state.all(Node)) == 5
        await scale(world, 0)
        await world.clock.sleep(15 * MINUTE)
        assert not world.state.all(Node)

    commands = play(script).records("disruption")
    assert {record["reason"] for record in commands} == {"Empty"}
    assert max(len(record["nodes"]) for record in commands) == together
