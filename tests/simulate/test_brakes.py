"""Brakes in a running cluster: pauses, limits per interval, backoff, and the guard of the fleet."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from operated import Operated, play, pod, pool, replicas
from stories import apart, inflate

from dovetail.api.apiextensions import CustomResourceDefinition, definition_name
from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.workloads import ReplicaSet
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.controllers.brakes.brakes import BrakeOptions, Rate
from dovetail.controllers.brakes.guard import GUARDED
from dovetail.disrupt.confirmation import token
from dovetail.disrupt.pause import read_pause
from dovetail.model import labels
from dovetail.testing.guests import node_class


async def annotate(world: Operated, key: str, value: str | None, name: str = "general") -> None:
    await world.client.patch(NodePool, name, merge={"metadata": {"annotations": {key: value}}})


@pytest.mark.parametrize("where", ["setting", "annotation"])
def test_while_launches_are_paused_pods_wait_and_events_say_so(where: str) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("web"))
        if where == "annotation":
            await annotate(world, labels.PAUSE, "launches")
        await world.clock.sleep(5 * MINUTE)
        assert not world.state.all(NodeClaim)
        if where == "annotation":
            await annotate(world, labels.PAUSE, None)
            await world.clock.sleep(2 * MINUTE)
            assert world.records("pod.bound")

    brakes = BrakeOptions(pause=read_pause("launches" if where == "setting" else ""))
    messages = play(script, brakes=brakes).messages("FailedScheduling")
    assert any("general: launches are paused" in text for text in messages)


def test_what_a_brake_lets_be_launched_is_for_the_highest_priority() -> None:
    async def script(world: Operated) -> None:
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
        large = {labels.INSTANCE_TYPE: "m5.xlarge"}
        low = [pod(f"a{i}", "1500m", nodeSelector={labels.INSTANCE_TYPE: "m5.large"}) for i in range(4)]
        last = pod("last", "3", priorityClassName="high", nodeSelector=large)
        world.create({**high, "value": 1000}, node_class(), pool(), *low, last)
        await world.clock.sleep(5 * MINUTE)

    world = play(script, brakes=BrakeOptions(launches=Rate(1, HOUR)))
    assert [record["pod"] for record in world.records("pod.bound")] == ["default/last"]


@pytest.mark.parametrize("where", ["setting", "annotation"])
def test_while_disruption_is_paused_empty_nodes_and_old_ones_stay(where: str) -> None:
    async def script(world: Operated) -> None:
        made = pool()
        made["spec"]["template"]["spec"]["expireAfter"] = "30m"
        world.create(node_class(), made, replicas("web", 1))
        if where == "annotation":
            await annotate(world, labels.PAUSE, "disruption")
        await world.clock.sleep(HOUR)
        assert len(world.state.all(Node)) == 1

    world = play(script, brakes=BrakeOptions(pause=read_pause("disruption" if where == "setting" else "")))
    assert "NodeClaim is expired, but disruption is paused" in world.messages("DisruptionBlocked")


def test_so_many_launches_per_interval_and_the_rest_later() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), inflate(6, affinity=apart()))
        await world.clock.sleep(5 * MINUTE)
        assert len(world.state.all(NodeClaim)) == 2
        await world.clock.sleep(11 * MINUTE)
        assert len(world.state.all(NodeClaim)) == 4
        await world.clock.sleep(11 * MINUTE)
        assert len(world.records("pod.bound")) == 6

    world = play(script, brakes=BrakeOptions(launches=Rate(2, 10 * MINUTE)))
    assert any(
        "the limit of launches, 2 per 10m0s, is reached" in text
        for text in world.messages("FailedScheduling")
    )


def test_old_nodes_go_one_after_the_other_where_a_forceful_budget_says_so() -> None:
    most = []

    async def script(world: Operated) -> None:
        made = pool(disruption={"consolidateAfter": "Never"})
        made["spec"]["template"]["spec"]["expireAfter"] = "20m"
        pods = inflate(4, affinity=apart())
        pods["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 60
        world.create(node_class(), made, pods)
        for _ in range(35 * 4):
            await world.clock.sleep(MINUTE // 4)
            most.append(sum(claim.deleting for claim in world.state.all(NodeClaim)))

    play(script, brakes=BrakeOptions(forceful="1"))
    assert max(most) == 1


async def lose_claims(world: Operated, count: int) -> None:
    """As if an etcd without them had been restored."""
    for claim in sorted(world.state.all(NodeClaim), key=lambda claim: claim.metadata.name)[:count]:
        await world.client.patch(NodeClaim, claim.metadata.name, merge={"metadata": {"finalizers": []}})
        await world.client.delete(NodeClaim, claim.metadata.name)


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_fleet_whose_claims_are_gone_is_kept_until_its_end_is_confirmed(confirmed: bool) -> None:
    async def script(world: Operated) -> None:
        world.create(
            node_class(), pool(disruption={"consolidateAfter": "Never"}), inflate(8, affinity=apart())
        )
        await world.clock.sleep(3 * MINUTE)
        old = [instance.provider_id for instance in await world.cloud.list()]
        assert len(old) == 8
        await lose_claims(world, 7)
        await world.clock.sleep(10 * MINUTE)
        assert {item.provider_id for item in await world.cloud.list()} >= set(old)
        assert world.metrics.value(GUARDED) == 7
        if confirmed:
            kept = {claim.status.provider_id for claim in world.state.all(NodeClaim)}
            await annotate(world, labels.CONFIRM_TERMINATION, token(set(old) - kept))
            await world.clock.sleep(10 * MINUTE)
            assert len({item.provider_id for item in await world.cloud.list()} & set(old)) == 1
            assert world.metrics.value(GUARDED) == 0

    messages = play(script).messages("MassTerminationGuarded")
    assert "7 of 8 instances have no NodeClaim and are kept" in messages[0]


def test_nodes_that_no_claim_ever_knew_are_no_fleet() -> None:
    async def script(world: Operated) -> None:
        world.create(
            node_class(), pool(disruption={"consolidateAfter": "Never"}), inflate(8, affinity=apart())
        )
        await world.clock.sleep(20 * SECOND)
        await world.stop()
        await world.clock.sleep(MINUTE)  # they come up, and no controller registers them
        old = {instance.provider_id for instance in await world.cloud.list()}
        assert len(old) == len(world.server.list(Node)) == 8
        await lose_claims(world, 8)
        await world.restart()
        await world.clock.sleep(5 * MINUTE)
        assert not {item.provider_id for item in await world.cloud.list()} & old

    assert not play(script).messages("MassTerminationGuarded")


def test_a_pool_whose_nodes_never_join_is_tried_less_and_less_often() -> None:
    async def script(world: Operated) -> None:
        world.kubelets.switch_on = lambda _: None  # type: ignore[method-assign]  # nothing ever boots
        world.create(node_class(), pool(), pod("web"))
        await world.clock.sleep(3 * HOUR)

    world = play(script)
    begun = [record["t"] for record in world.records("instance.started")]
    gaps = [(later - earlier) // MINUTE for earlier, later in pairwise(begun)]
    assert gaps == sorted(gaps)
    assert gaps[-1] >= 35
    assert world.messages("LaunchBackoff")


@pytest.mark.long
def test_a_limit_of_moved_pods_slows_a_rollout_down() -> None:
    async def script(world: Operated) -> None:
        drifting = pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
        world.create(node_class(), drifting, inflate(4, affinity=apart()))
        await world.clock.sleep(3 * MINUTE)
        marks = {"spec": {"template": {"metadata": {"labels": {"team": "blue"}}}}}
        await world.client.patch(NodePool, "general", merge=marks)
        await world.clock.sleep(59 * MINUTE)
        assert len(world.records("disruption")) == 2
        await world.clock.sleep(2 * HOUR)
        assert len(world.records("disruption")) == 4

    world = play(script, brakes=BrakeOptions(moves=Rate(2, HOUR)))
    assert "the limit of moved pods, 2 per 1h0m0s, is reached" in str(
        world.records("disruption.held")[0]["message"]
    )


async def fleet_of(world: Operated, count: int) -> set[str]:
    """So many nodes with a pod each; answers the ids of their instances."""
    world.create(
        node_class(), pool(disruption={"consolidateAfter": "Never"}), inflate(count, affinity=apart())
    )
    await world.clock.sleep(3 * MINUTE)
    found = {instance.provider_id for instance in await world.cloud.list()}
    assert len(found) == len(world.server.list(Node)) == count
    return found


async def ids(world: Operated) -> set[str]:
    return {item.provider_id for item in await world.cloud.list() if not item.terminating}


def untouched(world: Operated) -> bool:
    """No node of the cluster is deleted or tainted."""
    nodes = [record.view for record in world.server.list(Node)]
    return not any(node.deleting or node.spec.taints for node in nodes)


@pytest.mark.parametrize("lost", [NodeClaim, NodePool])
def test_a_deleted_definition_ends_no_fleet_until_it_is_confirmed(lost: type[Object]) -> None:
    async def script(world: Operated) -> None:
        old = await fleet_of(world, 8)
        await world.client.delete(CustomResourceDefinition, definition_name(lost))
        await world.clock.sleep(20 * MINUTE)
        assert all(claim.deleting for claim in world.state.all(NodeClaim))
        assert await ids(world) == old  # nothing ended, and nothing bought for pods that stay
        assert untouched(world)
        assert b"\ndovetail_guarded_nodeclaims 8\n" in b"".join(await world.operator.figures.text())
        await world.restart()
        await world.clock.sleep(5 * MINUTE)
        assert await ids(world) == old
        assert untouched(world)

        given = re.findall(r"--confirm-termination (\w+)", world.messages("MassTerminationGuarded")[-1])
        await world.restart(brakes=BrakeOptions(confirmed=given[0]))
        await world.clock.sleep(10 * MINUTE)
        assert not await ids(world)
        assert not world.server.list(NodeClaim)
        assert not world.server.list(
            CustomResourceDefinition, fields=f"metadata.name={definition_name(lost)}"
        )

    messages = play(script).messages("MassTerminationGuarded")
    assert f"because the CustomResourceDefinition {definition_name(lost)} is" in messages[0]


def test_pools_of_a_definition_that_was_made_anew_move_one_node_after_the_other() -> None:
    """The way back that the guide describes: new nodes for those of the lost pools, at the user's pace."""

    async def script(world: Operated) -> None:
        old = await fleet_of(world, 8)
        await world.client.delete(CustomResourceDefinition, definition_name(NodePool))
        await world.clock.sleep(MINUTE)
        world.server.definitions.add(NodePool)
        world.create(pool(disruption={"consolidateAfter": "Never"}))
        await world.clock.sleep(10 * MINUTE)
        assert await ids(world) == old
        for record in world.server.list(Node):
            await world.client.delete(Node, record.view.metadata.name)
            await world.clock.sleep(5 * MINUTE)
        assert not await ids(world) & old
        assert len(world.state.all(NodeClaim)) == len(world.state.all(Node)) == 8
        assert not any(claim.deleting for claim in world.state.all(NodeClaim))

    messages = play(script).messages("MassTerminationGuarded")
    assert any("nodepools.karpenter.sh was deleted and made anew" in text for text in messages)


def test_five_nodes_are_no_fleet_and_a_deleted_pool_is_meant() -> None:
    async def script(world: Operated) -> None:
        await fleet_of(world, 5)
        await world.client.delete(CustomResourceDefinition, definition_name(NodePool))
        await world.clock.sleep(10 * MINUTE)
        assert not await ids(world)
        world.server.definitions.add(NodePool)
        world.create(pool(disruption={"consolidateAfter": "Never"}))
        world.server.patch(ReplicaSet, "inflate", "default", merge_patch={"spec": {"replicas": 8}})
        await world.clock.sleep(5 * MINUTE)
        assert len(await ids(world)) == 8
        await world.client.delete(NodePool, "general")
        await world.clock.sleep(10 * MINUTE)
        assert not await ids(world)

    assert not play(script).messages("MassTerminationGuarded")


def test_nodes_that_lost_their_claims_stay_until_all_of_them_are_confirmed_at_once() -> None:
    """The other way back of the guide: claims without finalizers, and a new definition."""

    async def script(world: Operated) -> None:
        old = await fleet_of(world, 8)
        await world.stop()
        await world.client.delete(CustomResourceDefinition, definition_name(NodeClaim))
        for record in world.server.list(NodeClaim):
            await world.client.patch(
                NodeClaim, record.view.metadata.name, merge={"metadata": {"finalizers": []}}
            )
        world.server.definitions.add(NodeClaim)
        await world.restart()
        await world.clock.sleep(10 * MINUTE)
        assert all(record.view.deleting for record in world.server.list(Node))
        assert await ids(world) == old  # nothing is ended, and nothing bought for pods that stay

        await annotate(world, labels.CONFIRM_TERMINATION, token(old))
        await world.clock.sleep(15 * MINUTE)
        assert not await ids(world) & old
        assert len(await ids(world)) == len(world.state.all(NodeClaim)) == 8

    assert len(set(play(script).messages("MassTerminationGuarded"))) == 1
