"""Shares of on-demand capacity hold: through scaling, rollouts, reclaims of spot, restarts and moves."""

from __future__ import annotations

from typing import Any

import pytest
from operated import Operated, play, pod, pool

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import Deployment
from dovetail.base.clock import MINUTE, SECOND
from dovetail.cloud.interruption import InterruptionKind
from dovetail.model import labels
from dovetail.model.on_demand import Share, held
from dovetail.simulate.violations import Watchdog
from dovetail.testing.guests import node_class

GATE = [{"name": labels.ON_DEMAND_SHARE}]
ON: dict[str, Any] = {"on_demand_shares": True}


def mixed(**spec: Any) -> dict[str, Any]:
    """A pool that buys spot and on-demand."""
    document = pool(**spec)
    document["spec"]["template"]["spec"]["requirements"][0]["values"] = ["spot", "on-demand"]
    return document


def deployment(
    name: str, count: int, share: str | None = "2 + 30%", cpu: str = "700m", **pods: Any
) -> dict[str, Any]:
    marks = {} if share is None else {labels.ON_DEMAND_SHARE: share}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": marks},
                "spec": {**pod(name, cpu)["spec"], "schedulingGates": GATE, **pods},
            },
        },
    }


class Watched:
    """A world and a watchdog over it."""

    def __init__(self, world: Operated) -> None:
        self.dog = Watchdog(world.clock.now)
        world.server.observe(self.dog.change)

    def check(self) -> None:
        found = [item for item in self.dog.finish() if "share" in item.rule or "taint" in item.rule]
        assert found == []


async def pods_of(world: Operated, app: str = "web") -> list[Pod]:
    """Those that stay."""
    found = (await world.client.list(Pod)).items
    return [one for one in found if one.metadata.labels.get("app") == app and not one.deleting]


async def check(world: Operated, count: int, off: int) -> None:
    """All pods run, exactly so many are held, and these are on nodes off spot: others may be there too."""
    nodes = {node.metadata.name: node for node in (await world.client.list(Node)).items}
    pods = await pods_of(world)
    assert (len(pods), sum(map(held, pods))) == (count, off)
    paid = [labels.capacity_type(nodes[one.spec.node_name].metadata.labels) for one in pods if held(one)]
    assert paid == [labels.ON_DEMAND] * off
    assert all(one.spec.node_name for one in pods)


async def scale(world: Operated, count: int, name: str = "web") -> None:
    await world.client.patch(Deployment, name, "default", merge={"spec": {"replicas": count}})


@pytest.mark.parametrize("nominates", [True, False])
def test_the_share_holds_at_each_size(nominates: bool) -> None:
    async def script(world: Operated) -> None:
        watched = Watched(world)
        world.create(node_class(), mixed(), deployment("web", 3))
        for count in (3, 10, 4, 1, 6):
            await scale(world, count)
            await world.clock.sleep(4 * MINUTE)
            await check(world, count, Share(2, 30).of(count))
        watched.check()

    world = play(script, **ON, nominate_pods=nominates)
    assert world.records("share.mended") == []


def test_a_rollout_ends_with_the_share() -> None:
    async def script(world: Operated) -> None:
        watched = Watched(world)
        world.create(node_class(), mixed(), deployment("web", 8))
        await world.clock.sleep(3 * MINUTE)
        container = pod("web", "900m")["spec"]["containers"][0]
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        await world.client.patch(Deployment, "web", "default", merge=patch)
        await world.clock.sleep(10 * MINUTE)
        await check(world, 8, 4)
        watched.check()

    world = play(script, **ON)
    assert world.records("share.mended") == []


def test_reclaims_of_all_spot_nodes_leave_the_held_pods_alone() -> None:
    async def script(world: Operated) -> None:
        watched = Watched(world)
        world.create(node_class(), mixed(), deployment("web", 10))
        await world.clock.sleep(3 * MINUTE)
        before = {one.metadata.uid for one in await pods_of(world) if held(one)}
        for node in (await world.client.list(Node)).items:
            if labels.capacity_type(node.metadata.labels) == labels.SPOT:
                world.cloud.interrupt(node.spec.provider_id, InterruptionKind.SPOT)
        await world.clock.sleep(8 * MINUTE)
        await check(world, 10, 5)
        after = {one.metadata.uid for one in await pods_of(world) if held(one)}
        assert before == after
        watched.check()

    play(script, **ON)


def test_a_share_that_was_broken_is_mended_one_pod_at_a_time() -> None:
    """Whoever deletes held pods while none can be made leaves too few of them."""

    async def script(world: Operated) -> None:
        watched = Watched(world)
        still = {"consolidateAfter": "Never"}  # else it may move pods, which mends the share by the way
        world.create(node_class(), mixed(disruption=still), deployment("web", 8))
        await world.clock.sleep(3 * MINUTE)
        owned = [one for one in await pods_of(world) if held(one)]
        # A ReplicaSet takes pods that are not ready first, whatever it costs.
        for one in owned[:2]:
            ready = [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}]
            merge = {"status": {"conditions": ready}}
            await world.client.patch(Pod, one.metadata.name, "default", merge=merge, status=True)
        await scale(world, 6)
        await world.clock.sleep(30 * SECOND)
        assert sum(map(held, await pods_of(world))) == 2
        await world.clock.sleep(10 * MINUTE)
        await check(world, 6, 4)
        watched.check()

    world = play(script, **ON)
    mended = [int(record["t"]) for record in world.records("share.mended")]
    assert len(mended) == 2
    assert mended[1] - mended[0] >= MINUTE


def test_a_controller_that_starts_anew_goes_on_from_what_is_written() -> None:
    async def script(world: Operated) -> None:
        watched = Watched(world)
        world.create(node_class(), mixed(), deployment("web", 4))
        await world.clock.sleep(3 * MINUTE)
        await world.stop()
        await scale(world, 12)
        await world.clock.sleep(MINUTE)
        waiting = [one for one in await pods_of(world) if one.spec.scheduling_gates]
        assert len(waiting) == 8
        await world.restart()
        await world.clock.sleep(4 * MINUTE)
        await check(world, 12, 5)
        watched.check()

    play(script, **ON)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        ("200%", "'200%' is too much"),
        ("9999999", "'9999999' is too much"),
        ("-1", "'-1' is no share"),
        ("2 + 30% + 4", "is no share"),
        ("٣", "is no share"),
        ("9" * 100_000, "is no share of on-demand pods: valid are a number of pods"),
        (None, "The pod has no annotation dovetail.dev/on-demand: valid are"),
    ],
)
def test_a_share_that_is_not_valid_costs_its_pods_only(share: str | None, text: str) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), mixed(), deployment("bad", 2, share), deployment("web", 4))
        await world.clock.sleep(4 * MINUTE)
        await check(world, 4, 3)
        assert all(one.spec.scheduling_gates for one in await pods_of(world, "bad"))

    world = play(script, **ON)
    found = world.messages("InvalidOnDemandShare")
    assert len(found) == 2
    assert all(text in one and "waits at its scheduling gate" in one and len(one) < 400 for one in found)


def test_where_it_is_off_pods_at_the_gate_hear_of_it() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), mixed(), deployment("web", 1))
        await world.clock.sleep(MINUTE)
        assert all(one.spec.scheduling_gates for one in await pods_of(world))

    assert "settings.onDemandShares" in play(script).messages("OnDemandShareOff")[0]


def test_consolidation_moves_free_pods_to_spot_and_leaves_the_share() -> None:
    """Spot is out while the pods come, and there again afterwards."""

    async def script(world: Operated) -> None:
        watched = Watched(world)
        world.create(node_class(), pool(), deployment("web", 10, cpu="1500m"))
        await world.clock.sleep(4 * MINUTE)
        nodes = (await world.client.list(Node)).items
        assert {labels.capacity_type(node.metadata.labels) for node in nodes} == {labels.ON_DEMAND}
        values = mixed()["spec"]["template"]["spec"]["requirements"]
        merge = {"spec": {"template": {"spec": {"requirements": values}}}}
        await world.client.patch(NodePool, "general", merge=merge)
        await world.clock.sleep(60 * MINUTE)
        await check(world, 10, 5)
        nodes = (await world.client.list(Node)).items
        kinds = [labels.capacity_type(node.metadata.labels) for node in nodes]
        assert kinds.count(labels.SPOT) > 0
        watched.check()

    play(script, **ON)
