"""NodePools that keep a least number of nodes: bought once they are missed, kept when no pod needs them."""

from __future__ import annotations

from typing import Any

import pytest
from operated import Operated, play, pool, replicas

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import ReplicaSet
from dovetail.base.clock import HOUR, MINUTE
from dovetail.base.errors import InsufficientCapacity
from dovetail.model import labels
from dovetail.testing.guests import node_class

MARK = "dovetail.dev/minimum-nodes"


def keeping(text: str, **spec: Any) -> dict[str, Any]:
    quick = {"consolidateAfter": "10s", "budgets": [{"nodes": "100%"}]}
    made = pool(**({"disruption": quick} | spec))
    made["metadata"]["annotations"] = {MARK: text}
    return made


async def keep(world: Operated, text: str | None) -> None:
    await world.client.patch(NodePool, "general", merge={"metadata": {"annotations": {MARK: text}}})


def there(world: Operated) -> int:
    return len([node for node in world.state.all(Node) if not node.deleting])


def test_a_pool_keeps_a_number_of_nodes_that_nothing_needs() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), keeping("3"))
        await world.clock.sleep(HOUR)
        assert there(world) == 3
        await world.client.delete(Node, world.state.all(Node)[0].metadata.name)
        await world.clock.sleep(5 * MINUTE)
        assert there(world) == 3
        await keep(world, "4")
        await world.clock.sleep(5 * MINUTE)
        assert there(world) == 4
        await keep(world, "1")
        await world.clock.sleep(10 * MINUTE)
        assert there(world) == 1
        await keep(world, None)
        await world.clock.sleep(10 * MINUTE)
        assert there(world) == 0

    world = play(script)
    assert f'NodePool "general" keeps its least number of nodes ({MARK})' in world.messages(
        "Unconsolidatable"
    )
    assert len(world.records("claim.created")) == 5


def test_pods_count_for_it_and_leave_it_behind() -> None:
    """Nodes that pods need are of the number; what is bought for pods is of the size that these need."""

    async def script(world: Operated) -> None:
        world.create(node_class(), keeping("2"), replicas("web", 4, "1500m"))
        await world.clock.sleep(10 * MINUTE)
        assert there(world) >= 2
        bought = len(world.state.all(NodeClaim))
        assert len(world.records("static.launched")) == max(0, 2 - bought)
        await world.client.patch(ReplicaSet, "web", "default", merge={"spec": {"replicas": 0}})
        await world.clock.sleep(HOUR)
        assert there(world) == 2

    play(script)


@pytest.mark.parametrize(("mark", "left"), [("", 1), ("2", 2), ("3", 3)])
def test_consolidation_deletes_no_more_than_what_is_spare(mark: str, left: int) -> None:
    """Small pods on several nodes fit on one."""

    async def script(world: Operated) -> None:
        world.create(node_class(), keeping(mark), replicas("large", 10, "1500m"))
        await world.clock.sleep(3 * MINUTE)
        assert there(world) > 3
        world.create(replicas("small", 12, "50m"))
        await world.clock.sleep(MINUTE)
        await world.client.patch(ReplicaSet, "large", "default", merge={"spec": {"replicas": 0}})
        await world.clock.sleep(2 * HOUR)
        assert there(world) == left

    world = play(script)
    assert [record for record in world.records("disruption") if record["reason"] == "Underutilized"]


def test_consolidation_replaces_nodes_of_a_pool_that_has_none_to_spare() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), keeping("1"), replicas("large", 1, "3500m"), replicas("small", 1, "50m"))
        await world.clock.sleep(3 * MINUTE)
        assert _types(world) == ["m5.xlarge"]
        await world.client.patch(ReplicaSet, "large", "default", merge={"spec": {"replicas": 0}})
        await world.clock.sleep(2 * HOUR)
        assert _types(world) == ["m5.large"]

    play(script)


def _types(world: Operated) -> list[str]:
    return [node.metadata.labels[labels.INSTANCE_TYPE] for node in world.state.all(Node) if not node.deleting]


@pytest.mark.parametrize(
    ("text", "spec", "why"),
    [
        ("three", {}, "'three' is not a whole number of nodes from 0 to 10000"),
        ("1000000000", {}, "'1000000000' is not a whole number of nodes from 0 to 10000"),
        ("2", {"replicas": 1}, "spec.replicas says already how many nodes it has"),
    ],
)
def test_a_number_that_is_none_is_told_and_buys_nothing(text: str, spec: dict[str, Any], why: str) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), keeping(text, **spec))
        await world.clock.sleep(10 * MINUTE)
        assert there(world) == 0

    told = play(script).messages("InvalidAnnotation")
    assert f"The annotation {MARK} cannot be read, so no node goes without another: {why}" in told


def test_a_limit_holds() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), keeping("5", limits={"nodes": "2"}))
        await world.clock.sleep(10 * MINUTE)
        assert there(world) == 2

    play(script)


def test_a_restart_buys_nothing_twice() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), keeping("2"))
        await world.clock.sleep(35 * 1_000_000_000)
        await world.restart()
        await world.clock.sleep(10 * MINUTE)
        assert there(world) == 2

    assert len(play(script).records("claim.created")) == 2


def test_what_the_cloud_refuses_is_asked_for_again_but_not_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(world: Operated) -> None:
        async def refuses(*_: object) -> object:
            raise InsufficientCapacity("nothing is left")

        with monkeypatch.context() as patched:
            patched.setattr(world.cloud.provider, "create", refuses)
            world.create(node_class(), keeping("2"))
            await world.clock.sleep(10 * MINUTE)
        assert 4 <= len(world.records("static.launched")) <= 2 * 21  # every 30 s
        await world.clock.sleep(5 * MINUTE)
        assert there(world) == 2

    play(script)
