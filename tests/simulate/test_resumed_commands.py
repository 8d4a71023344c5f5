"""A restart in the middle of a replacement: the next process carries on with it and buys nothing twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from operated import Operated, play, pod, pool, replicas
from test_consolidation import only, scale, sizes, types_of

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import MINUTE, SECOND
from dovetail.disrupt.command import REPLACES
from dovetail.disrupt.consolidation.churn import MOVED_PODS
from dovetail.testing.guests import node_class

# Seconds from the purchase: the instance starts after a few, the node is up after some 40.
MOMENTS = (0, 1, 2, 5, 13, 30, 38, 40, 42, 44, 46, 60)


async def bought(world: Operated, claims: int) -> None:
    """Wait until so many claims have been created since the start."""
    while len(world.records("claim.created")) < claims:
        await world.clock.sleep(SECOND)


async def replacing(world: Operated) -> None:
    """A node of six pods is too large for the one that is left: a smaller one has just been bought."""
    world.create(node_class(), sizes("m5.xlarge"), replicas("a", 6))
    await world.clock.sleep(3 * MINUTE)
    await only(world, "m5.xlarge", "m5.large")
    await scale(world, "a", 1)
    await bought(world, 2)


async def stopped(world: Operated) -> tuple[NodeClaim, dict[str, Any]]:
    """The controller ends; the new claim, and what stands in it about the replacement."""
    await world.stop()
    (new,) = [claim for claim in world.state.all(NodeClaim) if REPLACES in claim.metadata.annotations]
    mark: dict[str, Any] = json.loads(new.metadata.annotations[REPLACES])
    return new, mark


async def undone(world: Operated, mark: dict[str, Any]) -> None:
    """The next controller starts; it leaves the old node alone."""
    await world.restart()
    await world.clock.sleep(SECOND * 30)
    (left,) = [item for item in world.state.all(NodeClaim) if item.metadata.name in mark["claims"]]
    assert not left.deleting


@pytest.mark.parametrize("moment", MOMENTS)
def test_consolidation_goes_on_after_a_restart(moment: int) -> None:
    async def script(world: Operated) -> None:
        await replacing(world)
        await world.clock.sleep(moment * SECOND)
        await world.restart()
        await world.clock.sleep(10 * MINUTE)

    world = play(script)
    assert types_of(world) == ["m5.large"]
    assert len(world.records("claim.created")) == len(world.records("instance.started")) == 2
    assert len(world.records("pod.evicted")) == len(world.records("disrupted")) == 1
    assert world.records("disruption.failed") == []
    moved = json.loads(world.state.all(NodePool)[0].metadata.annotations[MOVED_PODS])
    assert [sum(moves.values()) for moves in moved.values()] == [1]  # the move counts, and counts once


@pytest.mark.parametrize("moment", (0, 10, 40, 43, 46, 60))
def test_drifted_nodes_are_replaced_once_whoever_leads(moment: int) -> None:
    async def script(world: Operated) -> None:
        still = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
        world.create(node_class(), pool(disruption=still), *(pod(f"p{i}", "1200m") for i in range(4)))
        await world.clock.sleep(3 * MINUTE)
        before = len(world.state.all(NodeClaim))
        world.log.record("test.before", claims=before)
        merge = {"spec": {"template": {"metadata": {"labels": {"generation": "new"}}}}}
        await world.client.patch(NodePool, "general", merge=merge)
        await bought(world, before + 1)
        await world.clock.sleep(moment * SECOND)
        await world.restart()
        await world.clock.sleep(SECOND * 20)
        await world.restart()
        await world.clock.sleep(20 * MINUTE)
        assert all(node.metadata.labels["generation"] == "new" for node in world.state.all(Node))

    world = play(script)
    replaced = world.records("test.before")[0]["claims"]
    assert len(world.records("claim.created")) <= 2 * replaced
    assert len(world.records("disrupted")) == replaced


def test_without_its_replacement_a_command_is_undone() -> None:
    async def script(world: Operated) -> None:
        await replacing(world)
        new, mark = await stopped(world)
        assert (mark["reason"], mark["of"]) == ("Underutilized", 1)
        assert mark["claims"] == [claim.metadata.name for claim in world.state.all(NodeClaim) if claim != new]
        await world.client.delete(NodeClaim, new.metadata.name)
        await undone(world, mark)
        await world.clock.sleep(10 * MINUTE)

    world = play(script)
    assert world.records("disruption.resumed") == []
    assert types_of(world) == ["m5.large"]  # decided anew
    assert len(world.records("claim.created")) == 3


def test_a_command_that_ended_between_two_launches_is_undone() -> None:
    """The one node that was bought says that there should be two."""

    async def script(world: Operated) -> None:
        await replacing(world)
        new, mark = await stopped(world)
        half = {"metadata": {"annotations": {REPLACES: json.dumps({**mark, "of": 2})}}}
        await world.client.patch(NodeClaim, new.metadata.name, merge=half)
        await undone(world, mark)
        await world.clock.sleep(20 * MINUTE)

    world = play(script)
    assert world.records("disruption.resumed") == []
    assert types_of(world) == ["m5.large"]  # where the pod goes is decided anew, and nothing is left behind


@pytest.mark.parametrize("text", ("", "yes", "{}", '{"at":"today","reason":"Drifted","claims":["a"]}'))
def test_an_annotation_of_another_client_is_ignored(text: str) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.large"), replicas("a", 1))
        await world.clock.sleep(2 * MINUTE)
        (claim,) = world.state.all(NodeClaim)
        await world.client.patch(
            NodeClaim, claim.metadata.name, merge={"metadata": {"annotations": {REPLACES: text}}}
        )
        await world.restart()
        await world.clock.sleep(5 * MINUTE)
        assert [item.spec.node_name for item in world.state.all(Pod)] != [""]

    world = play(script)
    assert world.records("disruption.resumed") == []
    assert len(world.records("claim.created")) == 1
