"""What a pool's status says of its nodes follows them up and down, and wins over other writers."""

from __future__ import annotations

from operated import Operated, play, pod, pool

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import MINUTE, SECOND
from dovetail.testing.guests import node_class


def nodes(world: Operated) -> int:
    found = world.state.get(NodePool, "general")
    assert found is not None
    return found.status.nodes


def test_usage_follows_the_nodes() -> None:
    seen = []

    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a", "3"), pod("b", "3"))
        for _ in range(2):
            await world.clock.sleep(2 * MINUTE)
            seen.append(nodes(world))
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(5 * MINUTE)
        seen.append(nodes(world))

    play(script)
    assert seen == [2, 2, 1]


def test_a_status_that_another_client_wrote_is_put_right() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.patch(NodePool, "general", merge={"status": {"nodes": 7}}, status=True)
        await world.clock.sleep(SECOND // 10)
        assert nodes(world) == 7
        await world.clock.sleep(6 * SECOND)
        assert nodes(world) == 1

    play(script)
