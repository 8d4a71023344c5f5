"""Controllers act on what they have seen: once all of it was listed, or at once where it had been before."""

from __future__ import annotations

import asyncio
from typing import Any

from operated import Operated, play, pod, pool

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Meta, Object
from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.kube.client import Client
from dovetail.testing.guests import node_class


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


def test_what_the_leader_before_asked_for_is_not_bought_again() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        (claim,) = world.state.all(NodeClaim)
        found = await world.client.get(EC2NodeClass, claim.spec.node_class_ref.name)
        await world.stop()
        world.operator = world._operator()
        watching = asyncio.get_running_loop().create_task(world.operator.watch())
        await world.clock.sleep(MINUTE)
        meta = Meta(name="interrupted", labels=claim.metadata.labels)
        made = await world.client.create(NodeClaim(metadata=meta, spec=claim.spec))
        instance = await world.cloud.provider.create(made, found)
        await world.clock.sleep(MINUTE)
        acting = asyncio.get_running_loop().create_task(world.operator.act())
        await world.clock.sleep(10 * SECOND)
        adopted = await world.client.get(NodeClaim, "interrupted")
        assert adopted.status.provider_id == instance.provider_id
        assert len(await world.cloud.list()) == 2
        for task in (acting, watching):
            task.cancel()
        await world.clock.sleep(SECOND)

    play(script)


class LateClasses:
    """A client whose lists of node classes take their time."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def list(self, kind: type[Object], *where: Any, **options: Any) -> Any:
        if kind is EC2NodeClass:
            await self._clock.sleep(5 * SECOND)
        return await self._client.list(kind, *where, **options)


def test_a_pool_is_not_judged_before_its_class_is_known() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool())
        await world.clock.sleep(MINUTE)
        await world.stop()
        world.client = LateClasses(world.client, world.clock)  # type: ignore[assignment]
        world.operator = world._operator()
        world.create(pod("a"))
        acting = asyncio.get_running_loop().create_task(world.operator.run())
        await world.clock.sleep(2 * MINUTE)
        acting.cancel()
        await world.clock.sleep(SECOND)

    world = play(script)
    ready = [text for text in world.messages("Ready") if "Type: Ready, Status: True -> False" in text]
    assert not ready
    assert [record["pod"] for record in world.records("pod.running")] == ["default/a"]
