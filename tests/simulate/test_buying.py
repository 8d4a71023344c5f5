"""Claims of one plan are created many at once, each for itself, and none is forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from operated import START, Operated, play, pod, pool

from dovetail.api.core import Event, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import Forbidden, TimedOut, Unavailable
from dovetail.controllers.brakes.brakes import BrakeOptions, Brakes, Rate
from dovetail.controllers.context import Context
from dovetail.controllers.panics import Panics
from dovetail.controllers.provisioning.buy import AT_ONCE, Buyer
from dovetail.controllers.provisioning.claims import node_claim
from dovetail.controllers.provisioning.metrics import ProvisioningMetrics
from dovetail.kube.memory.client import MemoryClient
from dovetail.kube.recorder import Recorder
from dovetail.model.plan import PlannedClaim
from dovetail.model.requirement import Requirements
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.guests import node_class

Create = Callable[[MemoryClient, Object], Awaitable[Object]]
_create: Create = MemoryClient.create


def planned(count: int) -> list[PlannedClaim]:
    """Claims without pods for the pool of tests."""
    what = {"instance_types": ("m5.large",), "instance_type": "m5.large", "requests": {"cpu": 1}}
    where = {"pool": "general", "zone": "a", "capacity_type": "on-demand", "pods": ()}
    rest: dict[str, Any] = {
        **what,
        **where,
        "requirements": Requirements.from_labels({"kubernetes.io/os": "linux"}),
        "price": 1,
        "worst": 1,
    }
    return [PlannedClaim(name=f"general-{index}", **rest) for index in range(count)]


def on_create(monkeypatch: pytest.MonkeyPatch, create: Callable[..., Awaitable[object]]) -> None:
    """What clients do instead of creating a claim."""

    async def either(client: MemoryClient, obj: Object) -> object:
        return await (create if isinstance(obj, NodeClaim) else _create)(client, obj)

    monkeypatch.setattr(MemoryClient, "create", either)


def tools(world: Operated, limit: str = "") -> Context:
    """What a controller works with, on a cluster whose operator does not run."""
    clock, provider = world.clock, world.cloud.provider
    brakes = Brakes(BrakeOptions(launches=Rate.parse(limit) if limit else None), clock, world.state)
    recorder = Recorder(world.client, clock)
    panics = Panics(world.log, world.metrics, recorder, strict=True)
    log, state, metrics = world.log, world.state, world.metrics
    return Context(world.client, provider, clock, log, state, recorder, metrics, brakes, panics)


async def bought(
    clock: VirtualClock, count: int, *, limit: str = ""
) -> tuple[Operated, list[str], Exception | None]:
    """Names of the claims that a buyer without watches made, after it looked for others; what it raised."""
    world = Operated(clock)
    context = tools(world, limit)
    world.create(node_class(), pool())
    world.state.apply("ADDED", await world.client.get(NodePool, "general"))
    buyer, made, raised = Buyer(context, ProvisioningMetrics(world.metrics, context.waits)), [], None
    try:
        await buyer.buy(planned(count), made)
    except (Unavailable, TimedOut, Forbidden) as error:
        raised = error
    await buyer.look()
    return world, [name for name, _ in made], raised


def test_a_burst_waits_for_the_server_once_not_for_every_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(clock: VirtualClock) -> None:
        async def slow(client: MemoryClient, obj: NodeClaim) -> object:
            await clock.sleep(SECOND)
            return await _create(client, obj)

        on_create(monkeypatch, slow)
        begun = clock.now()
        world, names, _ = await bought(clock, 2 * AT_ONCE)
        assert clock.now() - begun == 2 * SECOND
        made = sorted(world.server.list(NodeClaim), key=lambda one: int(one.view.metadata.resource_version))
        assert names == [one.view.metadata.name for one in made]

    run_virtual(main, start=START)


def test_claims_that_are_under_way_count_as_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(clock: VirtualClock) -> None:
        asked = 0

        async def slow(client: MemoryClient, obj: NodeClaim) -> object:
            nonlocal asked
            asked += 1
            await clock.sleep(SECOND)
            return await _create(client, obj)

        on_create(monkeypatch, slow)
        _, names, raised = await bought(clock, 20, limit="10/1h")
        assert (asked, len(names), raised) == (10, 10, None)

    run_virtual(main, start=START)


@pytest.mark.parametrize("error", [Unavailable, TimedOut])
def test_a_claim_whose_answer_was_lost_is_found(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    async def main(clock: VirtualClock) -> None:
        asked = 0

        async def lost(client: MemoryClient, obj: NodeClaim) -> object:
            nonlocal asked
            asked += 1
            made = await _create(client, obj)
            await clock.sleep(SECOND)
            if asked == AT_ONCE:
                raise error("gone")
            return made

        on_create(monkeypatch, lost)
        world, names, raised = await bought(clock, 3 * AT_ONCE)
        assert isinstance(raised, error)
        known = [claim.metadata.name for claim in world.state.all(NodeClaim)]
        assert known == sorted(one.view.metadata.name for one in world.server.list(NodeClaim))
        assert len(known) == asked == AT_ONCE
        assert not names

    run_virtual(main, start=START)


def test_claims_of_others_are_not_taken_for_own_ones_after_a_lost_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(clock: VirtualClock) -> None:
        world = Operated(clock)
        context = tools(world)
        world.create(node_class(), pool())
        general = await world.client.get(NodePool, "general")
        world.state.apply("ADDED", general)
        other = await world.client.create(node_claim(planned(1)[0], general))

        async def lost(_: MemoryClient, __: NodeClaim) -> object:
            raise TimedOut("gone")

        on_create(monkeypatch, lost)
        buyer = Buyer(context, ProvisioningMetrics(world.metrics, context.waits))
        with pytest.raises(TimedOut):
            await buyer.buy(planned(1), [])
        await buyer.look()
        assert [claim.key for claim in world.state.all(NodeClaim)] == [other.key]
        assert other not in context.made

    run_virtual(main, start=START)


def test_a_claim_that_is_refused_keeps_no_other_from_being_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(client: MemoryClient, obj: NodeClaim) -> object:
        if obj.metadata.generate_name == "a-":
            raise Forbidden('admission webhook "policy" denied the request')
        return await _create(client, obj)

    on_create(monkeypatch, refuse)

    async def script(world: Operated) -> None:
        world.create(node_class(), pool("a"), pool("b"))
        for name in ("a", "b"):
            world.create(pod(name, nodeSelector={"karpenter.sh/nodepool": name}))
        await world.clock.sleep(3 * MINUTE)
        assert [pod.key for pod in world.state.all(Pod) if pod.spec.node_name] == ["default/b"]

    play(script)


def test_events_that_cannot_be_written_keep_nothing_from_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(client: MemoryClient, obj: Object) -> object:
        if isinstance(obj, Event):
            raise Forbidden("the namespace has no room for more events")
        return await _create(client, obj)

    monkeypatch.setattr(MemoryClient, "create", full)

    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), *(pod(f"web-{index}", "3") for index in range(3)))
        await world.clock.sleep(3 * MINUTE)
        assert all(pod.spec.node_name for pod in world.state.all(Pod))
        assert len(world.state.all(NodeClaim)) == 3

    play(script)
