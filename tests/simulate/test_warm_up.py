"""A controller that waits for the lease may watch meanwhile: when it leads it acts on what it has seen."""

from __future__ import annotations

import asyncio

from operated import Operated, node_class, play, pod, pool

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND


def test_what_came_while_it_waited_is_acted_on() -> None:
    async def script(world: Operated) -> None:
        await world.stop()
        world.operator = world._operator()
        watching = asyncio.get_running_loop().create_task(world.operator.watch())
        world.create(node_class(), pool(), pod("a"), pod("b"))
        await world.clock.sleep(MINUTE)
        assert world.state.watch_synced()
        assert len(world.state.pods_on("")) == 2
        assert not world.records("claim.created")
        acting = asyncio.get_running_loop().create_task(world.operator.act())
        await world.clock.sleep(2 * MINUTE)
        assert [record["pod"] for record in world.records("pod.running")] == ["default/a", "default/b"]
        assert all(claim.metadata.finalizers for claim in world.state.all(NodeClaim))
        for task in (acting, watching):
            task.cancel()
        await world.clock.sleep(SECOND)

    assert len(play(script).records("claim.created")) == 1
