"""Quiet time, blockers and restarts of emptiness, on an embedded cluster."""

from __future__ import annotations

from typing import Any

from operated import Operated, node_class, play, pod, pool

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND
from dovetail.model import labels


def quiet(seconds: int, **more: Any) -> dict[str, Any]:
    return {"disruption": {"consolidateAfter": f"{seconds}s", "budgets": [{"nodes": "100%"}], **more}}


def test_a_restart_does_not_begin_the_quiet_time_anew() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**quiet(300)), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Pod, "a", "default")
        world.log.record("test.deleted")
        await world.clock.sleep(4 * MINUTE)
        await world.restart()
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    waited = world.records("disruption")[0]["t"] - world.records("test.deleted")[0]["t"]
    assert 315 * SECOND <= waited <= 330 * SECOND


def test_a_restart_buys_nothing_twice() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), *(pod(f"p{i}") for i in range(4)))
        # Claims are created after a batching window of a second, their instances start seconds later.
        for _ in range(3):
            await world.clock.sleep(2 * SECOND)
            await world.restart()
        await world.clock.sleep(4 * MINUTE)

    world = play(script)
    assert len(world.records("pod.running")) == 4
    assert len(world.records("instance.started")) == len(world.state.all(NodeClaim))
    assert len(world.records("claim.created")) == len(world.state.all(NodeClaim))


def test_never_keeps_empty_nodes_and_says_why() -> None:
    async def script(world: Operated) -> None:
        never = {"disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}}
        world.create(node_class(), pool(**never), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    assert world.records("disruption") == []
    assert 'NodePool "general" has consolidation disabled' in world.messages("Unconsolidatable")


def test_budgets_of_zero_are_told_on_the_pool() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**quiet(10, budgets=[{"nodes": "0"}])), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    assert world.records("disruption") == []
    text = "No allowed disruptions for disruption reason Empty due to blocking budget"
    told = world.records("event", message=text)
    assert {record["object"] for record in told} == {"NodePool/general"}
    # At most one a minute.
    assert 2 <= len(told) <= 5


def test_a_taint_that_a_dead_process_left_is_taken_off() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        name = world.state.all(Node)[0].metadata.name
        taint = {"key": labels.DISRUPTED_TAINT, "effect": "NoSchedule"}
        await world.client.patch(Node, name, merge={"spec": {"taints": [taint]}})
        await world.clock.sleep(15 * SECOND)

    world = play(script)
    assert world.state.all(Node)[0].spec.taints == ()


def test_a_pod_that_comes_during_validation_saves_its_node() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**quiet(30)), pod("a", "1500m"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Pod, "a", "default")
        # Quiet for 30 s, proposed within 10 s, validated 15 s later.
        await world.clock.sleep(42 * SECOND)
        world.create(pod("b", "1500m"))
        await world.clock.sleep(4 * MINUTE)

    world = play(script)
    assert world.records("disruption") == []
    assert len(world.records("node.created")) == 1


def test_do_not_disrupt_on_a_node_keeps_it() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**quiet(10)), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        name = world.state.all(Node)[0].metadata.name
        await world.client.patch(
            Node, name, merge={"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}
        )
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    assert world.records("disruption") == []
    text = 'Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation'
    assert text in world.messages("DisruptionBlocked")
