"""The API server fails just as the nodes of a command are to go."""

from __future__ import annotations

from typing import Any

import pytest
from operated import Operated, play, pod, pool, replicas
from test_consolidation import only, scale, sizes, types_of

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, Conflict, Forbidden, TimedOut, Unavailable
from dovetail.model import labels
from dovetail.testing.guests import node_class

STILL = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}


def failing(world: Operated, monkeypatch: pytest.MonkeyPatch, error: ApiError) -> None:
    """The next two deletions of claims fail; one that times out is made all the same."""
    left = 2
    delete = world.client.delete

    async def sometimes(kind: type[Any], *args: Any, **named: Any) -> None:
        nonlocal left
        fails = kind is NodeClaim and left > 0
        left -= fails
        if not fails or isinstance(error, TimedOut):
            await delete(kind, *args, **named)
        if fails:
            raise error

    monkeypatch.setattr(world.client, "delete", sometimes)


ERRORS = (
    Unavailable("the server cannot handle the request now"),
    Conflict("modified"),
    TimedOut("no answer"),
)


@pytest.mark.parametrize("error", ERRORS)
def test_empty_nodes_go_all_the_same(monkeypatch: pytest.MonkeyPatch, error: ApiError) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), replicas("a", 12))
        await world.clock.sleep(3 * MINUTE)
        failing(world, monkeypatch, error)
        await scale(world, "a", 0)
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    assert world.state.all(Node) == ()
    assert len(world.records("disrupted")) == len(world.records("claim.created"))


@pytest.mark.parametrize("error", ERRORS)
def test_replaced_nodes_go_all_the_same(monkeypatch: pytest.MonkeyPatch, error: ApiError) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.xlarge"), replicas("a", 6))
        await world.clock.sleep(3 * MINUTE)
        await only(world, "m5.xlarge", "m5.large")
        failing(world, monkeypatch, error)
        await scale(world, "a", 1)
        await world.clock.sleep(6 * MINUTE)

    world = play(script)
    assert types_of(world) == ["m5.large"]
    assert len(world.records("disrupted")) == len(world.records("pod.evicted")) == 1


@pytest.mark.parametrize("error", ERRORS)
def test_an_old_node_goes_and_counts_once(monkeypatch: pytest.MonkeyPatch, error: ApiError) -> None:
    async def script(world: Operated) -> None:
        made = pool(disruption=STILL)
        made["spec"]["template"]["spec"]["expireAfter"] = "10m"
        world.create(node_class(), made, replicas("a", 1))
        await world.clock.sleep(3 * MINUTE)
        failing(world, monkeypatch, error)
        await world.clock.sleep(12 * MINUTE)

    world = play(script)
    assert len(world.records("claim.deleted")) == 1
    assert [record["reason"] for record in world.records("disrupted")] == ["expired"]


def test_a_node_that_cannot_be_untainted_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command is undone on all its nodes but the one that the API server refuses to change."""

    async def script(world: Operated) -> None:
        world.create(node_class(), pool(disruption=STILL), *(pod(f"p{i}", "1200m") for i in range(6)))
        await world.clock.sleep(3 * MINUTE)
        first = world.state.node_of(world.state.all(NodeClaim)[0])
        assert first is not None
        taint = {"key": labels.DISRUPTED_TAINT, "effect": "NoSchedule"}
        for node in world.state.all(Node):
            await world.client.patch(Node, node.metadata.name, merge={"spec": {"taints": [taint]}})
        patch = world.client.patch

        async def refused(kind: type[Any], name: str, *args: Any, **named: Any) -> Any:
            if kind is Node and name == first.metadata.name and "spec" in named["merge"]:
                raise Forbidden("a webhook does not allow it")
            return await patch(kind, name, *args, **named)

        monkeypatch.setattr(world.client, "patch", refused)
        await world.clock.sleep(30 * SECOND)

    world = play(script)
    assert sorted(len(node.spec.taints) for node in world.state.all(Node)) == [0, 1]
    (event, *_) = world.records("reconcile.failed", controller="disruption")
    assert event["message"] == "a webhook does not allow it"
