"""Drifted nodes are replaced: the replacement first, budgets kept, everything undone when it fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from operated import START, Operated, play, pod, pool, replicas
from stories import apart, inflate

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, condition, is_true
from dovetail.api.workloads import ReplicaSet
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.cloud.inmemory import Limit
from dovetail.disrupt.consolidation.churn import MOVED_PODS
from dovetail.disrupt.pods import DISRUPTED
from dovetail.disrupt.rollout import MOVED
from dovetail.model import labels
from dovetail.testing.guests import node_class


def terminating(claim: NodeClaim) -> bool:
    return is_true(claim.status.conditions, "InstanceTerminating")


def tainted(node: Node) -> bool:
    return any(taint.key == DISRUPTED.key for taint in node.spec.taints)


def budget(nodes: str) -> dict[str, Any]:
    """A merge patch of a pool."""
    return {"spec": {"disruption": {"budgets": [{"nodes": nodes}]}}}


def lasting(nodes: str = "100%", **spec: Any) -> dict[str, Any]:
    """A pool whose nodes go only because they drifted."""
    return pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": nodes}]}, **spec)


async def relabel(world: Operated, value: str = "new") -> None:
    """Make every node drift."""
    merge = {"spec": {"template": {"metadata": {"labels": {"generation": value}}}}}
    await world.client.patch(NodePool, "general", merge=merge)


def test_the_replacement_is_up_before_anything_is_drained() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), lasting(), replicas("web", 2))
        await world.clock.sleep(3 * MINUTE)
        await relabel(world)
        await world.clock.sleep(10 * MINUTE)
        (node,) = world.state.all(Node)
        assert node.metadata.labels["generation"] == "new"
        assert len(world.state.pods_on(node.metadata.name)) == 2

    world = play(script)
    (command,) = world.records("disruption")
    (replacement,) = command["replacements"]
    assert (command["reason"], command["decision"]) == ("Drifted", "replace")
    up = world.records("claim.condition", claim=replacement, type="Initialized", status="True")[0]["t"]
    assert all(record["t"] >= up for record in world.records("pod.evicted"))
    assert len(world.records("instance.started")) == 2
    assert "Launching NodeClaim: Drifted" in world.messages("DisruptionLaunching")
    assert "Waiting on readiness to continue disruption" in world.messages("DisruptionWaitingReadiness")
    assert world.messages("DisruptionTerminating") == [
        "Disrupting NodeClaim: Drifted",
        "Disrupting Node: Drifted",
    ]


@pytest.mark.parametrize("names", ["bcd", "dcb"])
def test_pods_go_where_the_replacement_was_planned_for(names: str, monkeypatch: Any) -> None:
    """By the scheduler's scores, or its order, others would take the little room that there is elsewhere, and
    another node would be bought for the one that fits nowhere then. It comes to new pods within milliseconds.
    """

    async def script(world: Operated) -> None:
        patch = world.client.patch

        async def slow(kind: Any, *names: str, **how: Any) -> Any:
            if kind is Pod:
                await world.clock.sleep(SECOND // 10)
            return await patch(kind, *names, **how)

        monkeypatch.setattr(world.client, "patch", slow)
        sizes = zip(names, ("900m", "1200m", "700m"), strict=True)
        world.create(node_class(), lasting(weight=10), lasting(name="steady"))
        world.create(*(replicas(name, 1, cpu) for name, cpu in sizes))
        await world.clock.sleep(3 * MINUTE)
        world.create(pod("a", "1", nodeSelector={labels.NODEPOOL: "steady"}))
        await world.clock.sleep(3 * MINUTE)
        await relabel(world)
        await world.clock.sleep(10 * MINUTE)
        where = {pod.metadata.name[0]: pod.spec.node_name for pod in world.state.all(Pod)}
        assert where["a"] == where[names[0]] != where[names[1]] == where[names[2]]

    world = play(script)
    assert len(world.records("disruption")) == 1
    assert len(world.records("instance.started")) == 3


def test_what_drift_moves_counts_as_moved() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), lasting(), replicas("web", 2))
        await world.clock.sleep(3 * MINUTE)
        await relabel(world)
        await world.clock.sleep(10 * MINUTE)

    world = play(script)
    (moved,) = json.loads(world.state.all(NodePool)[0].metadata.annotations[MOVED_PODS]).values()
    assert list(moved.values()) == [2]


def test_drift_waits_for_pods_that_were_moved_to_save_money() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(disruption={"consolidateAfter": "0s"}))
        world.create(replicas("big", 1, "2"), replicas("small", 1, "500m"))
        await world.clock.sleep(3 * MINUTE)
        await world.client.delete(ReplicaSet, "big", "default")
        await world.clock.sleep(10 * MINUTE)
        await relabel(world)
        await world.clock.sleep(HOUR + 5 * MINUTE)
        (node,) = world.state.all(Node)
        assert node.metadata.labels["generation"] == "new"

    world = play(script)
    saved, renewed = world.records("disruption")
    assert (saved["reason"], renewed["reason"]) == ("Underutilized", "Drifted")
    first, second = (record["t"] for record in world.records("pod.evicted"))
    assert 0 <= second - first - HOUR < 2 * MINUTE
    assert MOVED in world.messages("DisruptionBlocked")


def test_one_at_a_time_within_the_budget() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), lasting("1"), inflate(4, affinity=apart()))
        await world.clock.sleep(3 * MINUTE)
        await relabel(world)
        for _ in range(120):
            # A node whose pods are gone and whose instance terminates counts no more.
            claims = [world.state.claim_of(node) for node in world.state.all(Node) if tainted(node)]
            assert sum(claim is not None and not terminating(claim) for claim in claims) <= 1
            await world.clock.sleep(10 * SECOND)
        assert {node.metadata.labels.get("generation") for node in world.state.all(Node)} == {"new"}
        assert len(world.state.all(Node)) == 4

    world = play(script)
    assert [len(record["nodes"]) for record in world.records("disruption")] == [1, 1, 1, 1]


def test_pods_with_room_elsewhere_need_no_replacement() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), lasting(), replicas("first", 1, "1500m"))
        await world.clock.sleep(2 * MINUTE)
        await relabel(world)
        # Its budget of none keeps the old node while a new one comes up that has room for both.
        await world.client.patch(NodePool, "general", merge=budget("0"))
        world.create(replicas("second", 1, "2"))
        await world.clock.sleep(3 * MINUTE)
        assert len(world.state.all(Node)) == 2
        await world.client.patch(NodePool, "general", merge=budget("1"))
        await world.clock.sleep(5 * MINUTE)
        assert len(world.state.all(Node)) == 1

    world = play(script)
    (command,) = world.records("disruption")
    assert (command["decision"], command["replacements"]) == ("delete", [])


def test_do_not_disrupt_keeps_a_drifted_node_unless_it_has_a_termination_grace_period() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), lasting(), pod("a", annotations={labels.DO_NOT_DISRUPT: "true"}))
        await world.clock.sleep(2 * MINUTE)
        await relabel(world)
        await world.clock.sleep(10 * MINUTE)
        assert len(world.state.all(NodeClaim)) == 1

    world = play(script)
    assert not world.records("disruption")
    assert 'Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/a)' in world.messages(
        "DisruptionBlocked"
    )

    async def forced(world: Operated) -> None:
        made = lasting()
        made["spec"]["template"]["spec"]["terminationGracePeriod"] = "5m"
        protected = replicas("a", 1)
        protected["spec"]["template"]["metadata"]["annotations"] = {labels.DO_NOT_DISRUPT: "true"}
        world.create(node_class(), made, protected)
        await world.clock.sleep(2 * MINUTE)
        await relabel(world)
        await world.clock.sleep(15 * MINUTE)
        (node,) = world.state.all(Node)
        assert node.metadata.labels["generation"] == "new"

    assert len(play(forced).records("disruption")) == 1


def test_a_replacement_that_the_cloud_refuses_leaves_the_node_as_it_was() -> None:
    marked: list[frozenset[str]] = []

    async def script(world: Operated) -> None:
        def notice(_kind: object, _change: object, old: Object | None, new: Object | None) -> None:
            claim = old if new is None else new
            if isinstance(claim, NodeClaim) and (new is None or claim.deleting):
                marked.append(world.state.marked())

        world.create(node_class(), lasting(), replicas("web", 2))
        await world.clock.sleep(3 * MINUTE)
        world.state.subscribe(notice)
        await relabel(world)
        await world.clock.sleep(10 * MINUTE)
        (node,) = [node for node in world.state.all(Node) if "generation" not in node.metadata.labels]
        assert not tainted(node)
        (claim,) = [claim for claim in world.state.all(NodeClaim) if not claim.deleting]
        assert condition(claim.status.conditions, "DisruptionReason") is None
        assert len(world.state.pods_on(node.metadata.name)) == 2
        assert not world.state.marked()

    world = play(script, limits=(Limit(since=START + 3 * MINUTE),))
    assert world.records("disruption.failed")
    assert not world.records("pod.evicted")
    # From that instant on no plan may buy for the node's pods.
    assert set(marked) == {frozenset()}


def test_a_restart_in_the_middle_starts_over_and_ends_well() -> None:
    for moment in (12, 15, 20, 40, 60):

        async def script(world: Operated, moment: int = moment) -> None:
            world.create(node_class(), lasting(), replicas("web", 2))
            await world.clock.sleep(3 * MINUTE)
            await relabel(world)
            await world.clock.sleep(moment * SECOND)
            await world.restart()
            await world.clock.sleep(15 * MINUTE)
            labelled = [node.metadata.labels.get("generation") for node in world.state.all(Node)]
            assert labelled == ["new"]
            assert sum(bool(item.spec.node_name) for item in world.state.all(Pod)) == 2

        play(script)


def test_old_nodes_are_replaced_first_where_the_pool_asks_for_it() -> None:
    async def script(world: Operated) -> None:
        made = lasting("1")
        made["metadata"]["annotations"] = {labels.EXPIRATION: "replace-first"}
        made["spec"]["template"]["spec"]["expireAfter"] = "20m"
        world.create(node_class(), made, inflate(3, affinity=apart()))
        await world.clock.sleep(19 * MINUTE)
        assert not world.records("disruption")
        for _ in range(10):
            await world.clock.sleep(MINUTE)
            running = [pod for pod in world.state.all(Pod) if pod.spec.node_name and not pod.deleting]
            assert len(running) == 3
            assert sum(claim.deleting for claim in world.state.all(NodeClaim)) <= 1

    world = play(script)
    commands = world.records("disruption")
    assert [(command["reason"], command["decision"]) for command in commands] == [("Expired", "replace")] * 3
