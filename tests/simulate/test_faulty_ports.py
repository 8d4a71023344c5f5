"""What stands on a port that fails: informers end up right, launches are not repeated, old reads refused."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from operated import START, Operated, play, pod, pool

from dovetail.api.core import Node
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Meta
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import Conflict, CreateFailed
from dovetail.cloud.inmemory import Limit
from dovetail.cloud.provider import Instance, Overlay
from dovetail.kube.informer import Informer
from dovetail.kube.memory import MemoryServer
from dovetail.simulate.analysis.log import JsonlLog
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.actors import Actors
from dovetail.simulate.faults.client import FaultyClient, Past
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.epoch import Epoch, Skew
from dovetail.simulate.faults.plan import Fault, Faults
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.guests import node_class

WATCHES = (
    *(kinds.WATCH_DROP, kinds.WATCH_GONE, kinds.WATCH_LAG, kinds.WATCH_DUPLICATE, kinds.WATCH_REORDER),
    *(kinds.STALE_READ, kinds.API_ERROR, kinds.API_TIMEOUT, kinds.API_THROTTLE),
)


def test_stray_instances_start_for_other_claims_where_the_cloud_has_nothing_for_the_drawn_one() -> None:
    """Three claims of a type that is sold out, two of another one: an instance like each of the latter."""
    since = START + 3 * MINUTE
    fault = Fault(0, kinds.STRAY_INSTANCE, since, since + 20 * SECOND, times=2)

    async def script(world: Operated) -> None:
        world.create(node_class(), _of_type("large"), _of_type("xlarge"))
        for kind, count in (("large", 3), ("xlarge", 2)):
            cpu = "1500m" if kind == "large" else "3"
            selector = {"karpenter.sh/nodepool": kind}
            world.create(*(pod(f"{kind}-{i}", cpu, nodeSelector=selector) for i in range(count)))
        await world.clock.sleep(2 * MINUTE)
        dice = Dice(Faults("", (fault,)), 1, world.clock, world.log)
        actors = Actors(dice, world.ports(), world.cloud, world.kubelets, Skew())
        for _, part in actors.parts("ap-northeast-2"):
            asyncio.get_running_loop().create_task(part)
        await world.clock.sleep(90 * SECOND)

    world = play(script, limits=(Limit(since=START + 2 * MINUTE, instance_types=("m5.large",)),))
    assert len(world.records("fault")) == 2
    lost = {str(item["claim"]) for item in world.records("instance.started") if "-lost" in str(item["claim"])}
    assert len(lost) == 2 and all(name.startswith("xlarge-") for name in lost)


def _of_type(size: str) -> dict[str, Any]:
    found = pool(size)
    found["spec"]["template"]["spec"]["requirements"][1]["values"] = [f"m5.{size}"]
    return found


def trouble(
    server: MemoryServer, clock: VirtualClock, seed: int, faults: Sequence[str] = WATCHES, rate: float = 0.2
) -> FaultyClient:
    """A client on which nearly everything goes wrong for a minute."""
    until = clock.now() + MINUTE
    found = [
        Fault(number, kind, clock.now(), until, rate=rate, lasts=2 * SECOND)
        for number, kind in enumerate(faults)
    ]
    dice = Dice(Faults("", tuple(found)), seed, clock, JsonlLog(clock))
    return FaultyClient(server.client(), dice, Epoch(1), clock, Past(server))


@pytest.mark.parametrize("seed", range(8))
def test_an_informer_is_right_in_the_end_and_its_events_add_up(seed: int) -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        known: dict[str, str] = {}

        def note(change: str, node: Node) -> None:
            assert (change == "ADDED") == (node.key not in known), f"{change} {node.key}"
            if change == "DELETED":
                del known[node.key]
            else:
                known[node.key] = node.metadata.resource_version

        informer = Informer(trouble(server, clock, seed), Node, note)
        task = asyncio.get_running_loop().create_task(informer.run())
        draws = random.Random(seed)
        for _ in range(200):
            await clock.sleep(draws.randrange(SECOND // 2))
            _change(server, draws, f"n{draws.randrange(6)}")
        await clock.sleep(MINUTE)
        there = {record.view.key: record.view.metadata.resource_version for record in server.list(Node)}
        assert known == there
        assert {key: item.metadata.resource_version for key, item in informer.objects.items()} == there
        task.cancel()

    run_virtual(main, start=START)


def _change(server: MemoryServer, draws: random.Random, name: str) -> None:
    there = any(record.view.key == name for record in server.list(Node))
    if not there:
        server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    elif draws.random() < 0.4:
        server.delete(Node, name)
    else:
        server.patch(Node, name, merge_patch={"metadata": {"labels": {"x": str(draws.random())}}})


def test_slow_calls_have_their_effect_late_or_are_answered_late() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        client = trouble(server, clock, 1, [kinds.API_SLOW], rate=1)
        effects: list[int] = []
        server.observe(lambda _: effects.append(clock.now()))
        late = set()
        for number in range(20):
            begun = clock.now()
            await client.create(Node(metadata=Meta(name=f"n{number}")))
            late.add((effects[-1] > begun, clock.now() > effects[-1]))
        assert late == {(True, False), (False, True)}

    run_virtual(main, start=START)


def test_a_launch_that_was_not_answered_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(world: Operated) -> None:
        create, asked = world.cloud.provider.create, []

        async def unanswered(claim: NodeClaim, chosen: EC2NodeClass, overlay: Overlay) -> Instance:
            asked.append(claim.metadata.name)
            await create(claim, chosen, overlay)
            raise CreateFailed("the fleet request was not answered in time")

        monkeypatch.setattr(world.cloud.provider, "create", unanswered)
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(3 * MINUTE)
        assert len(asked) == 1
        assert len(world.records("instance.started")) == 1
        assert world.records("pod.running", pod="default/a")

    play(script)


def test_what_is_older_than_the_watches_have_shown_is_not_acted_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        context = world.operator._context
        claim = world.state.all(NodeClaim)[0]

        async def stale(*_: object) -> NodeClaim:
            return claim

        assert await context.read(NodeClaim, claim.key) == claim
        await world.client.patch(NodeClaim, claim.key, merge={"metadata": {"labels": {"x": "y"}}})
        await world.clock.sleep(SECOND)
        with monkeypatch.context() as patched, pytest.raises(Conflict):
            patched.setattr(world.client, "get", stale)  # a server that lags behind
            await context.read(NodeClaim, claim.key)

    play(script)
