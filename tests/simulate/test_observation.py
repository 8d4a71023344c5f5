"""An observer beside a controller that acts: it writes nothing, and reports what it would have done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from operated import WORK_PER_SECOND, Operated, play, pod, pool, replicas
from stories import falls_ill, six_nodes
from test_capacity_buffers import buffer, template

from dovetail.api.codec import encode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.workloads import ReplicaSet
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import Forbidden
from dovetail.kube.readonly import ReadOnlyClient
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.runtime.observation import Observation
from dovetail.runtime.operator import Ports
from dovetail.runtime.planning.inline import InlinePlanner
from dovetail.runtime.settings import FeatureGates, Settings
from dovetail.testing.guests import node_class

STAMP = "2026-03-02T00:10:00Z"
QUIET = {"consolidateAfter": "Never", "consolidationPolicy": "WhenEmpty", "budgets": [{"nodes": "100%"}]}
EAGER = {
    "consolidateAfter": "30s",
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "budgets": [{"nodes": "100%"}],
}


class Watched:
    """An observer beside the world's own controller; `reports` counts what it reports."""

    def __init__(self, world: Operated, settings: Settings) -> None:
        self.metrics = MemoryMetrics()
        self.reports = 0
        planner = InlinePlanner(world.clock, WORK_PER_SECOND)
        ports = Ports(world.client, world.cloud.provider, world.clock, world.log, planner, self.metrics)
        self.observation = Observation(ports, settings, self._count, 10 * MINUTE)
        self._task = asyncio.get_running_loop().create_task(self.observation.run())

    def _count(self) -> None:
        self.reports += 1

    def check(self) -> None:
        assert not self._task.done(), self._task
        self.observation.state.check()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def observed(
    script: Callable[[Operated, Watched], Coroutine[Any, Any, None]],
    seen: FeatureGates | None = None,
    **options: Any,
) -> tuple[Operated, Watched]:
    """Run the script on a world with both; the observer has the gates `seen`."""
    found: list[Watched] = []

    async def main(world: Operated) -> None:
        found.append(Watched(world, Settings(gates=seen or FeatureGates())))
        await script(world, found[0])
        found[0].check()
        await found[0].stop()

    return play(main, **options), found[0]


def test_both_buy_the_same_for_the_same_pods() -> None:
    async def script(world: Operated, _: Watched) -> None:
        world.create(node_class(), pool(disruption=QUIET))
        for index in range(3):
            world.create(*(pod(f"wave-{index}-{item}") for item in range(4)))
            await world.clock.sleep(30 * SECOND)
        await world.clock.sleep(3 * MINUTE)

    world, seen = observed(script)
    acting, here = seen.observation.tally.acting, seen.observation.tally.here
    assert acting.launches == len(world.records("claim.created"))
    assert here.launches == acting.launches
    assert here.hourly == pytest.approx(acting.hourly)
    assert 0 < seen.observation.tally.bound <= here.hourly
    assert acting.replacements == acting.removals == here.removals == 0


def test_pods_for_which_no_node_is_bought_are_counted_once() -> None:
    async def script(world: Operated, _: Watched) -> None:
        world.create(node_class(), pool(disruption=QUIET))
        await world.clock.sleep(10 * SECOND)
        await world.stop()  # the class and the pool are ready, and no controller acts any more
        world.create(pod("a"), pod("b"), pod("huge", cpu="500"))
        await world.clock.sleep(5 * MINUTE)

    world, seen = observed(script)
    reports = world.records("observed.launch")
    assert len(reports) == 1
    assert seen.observation.tally.here.launches == len(reports[0]["nodes"]) == 1
    assert seen.observation.tally.left_over == 1
    assert not world.records("claim.created")
    assert [record["pods"] for record in world.records("observed.unplaced")] == [["default/huge"]]


def test_pods_that_get_a_node_after_all_are_planned_for_again() -> None:
    """The pool becomes ready between two looks at its pods, of which there is one every ten seconds."""

    async def script(world: Operated, _: Watched) -> None:
        await world.stop()
        world.create(node_class(), pool(disruption=QUIET), pod("a"))
        await world.clock.sleep(15 * SECOND)
        await world.restart()
        await world.clock.sleep(5 * MINUTE)

    world, seen = observed(script)
    tally = seen.observation.tally
    assert world.records("observed.unplaced")
    assert tally.here.launches == tally.acting.launches == 1


def test_an_underused_node_is_reported_and_left_alone() -> None:
    async def script(world: Operated, _: Watched) -> None:
        world.create(node_class(), pool(disruption=EAGER), replicas("web", 6, "900m"))
        await world.clock.sleep(3 * MINUTE)
        await world.stop()  # what comes now stays
        await world.client.patch(ReplicaSet, "web", "default", merge={"spec": {"replicas": 1}})
        await world.clock.sleep(20 * MINUTE)

    world, seen = observed(script)
    tally = seen.observation.tally
    assert tally.commands
    assert tally.saving > 0
    assert 0 < tally.saved <= tally.saving // 2
    assert tally.here.removals >= 1
    assert len(world.records("observed.disruption")) <= 3
    assert seen.reports == 2
    text = seen.observation.table()
    assert "Nothing was written to the cluster" in text
    assert tally.commands[0] in text


@pytest.mark.parametrize(("reboots", "decision"), [(False, "replace"), (True, "reboot")])
def test_what_node_repair_would_do_is_reported_and_not_done(*, reboots: bool, decision: str) -> None:
    async def script(world: Operated, _: Watched) -> None:
        sick, *_ = await six_nodes(world)
        await falls_ill(world, sick, reason="XID46")
        await world.clock.sleep(30 * MINUTE)
        node = world.state.get(Node, sick.metadata.name)
        assert node is not None and not node.spec.taints

    world, seen = observed(script, FeatureGates(node_repair=True), reboots=reboots)
    (report,) = world.records("observed.disruption")
    assert (report["reason"], report["decision"], report["pods"]) == ("Unhealthy", decision, 1)
    tally = seen.observation.tally
    assert (tally.here.removals, tally.here.replacements) == ((0, 0) if reboots else (1, 1))
    assert tally.saving == 0
    assert not world.records("claim.deleted")
    assert not world.records("instance.rebooted")


@pytest.mark.parametrize(("first", "decision"), [(False, ""), (True, "terminate-first")])
def test_what_would_be_done_about_static_pools_is_reported(*, first: bool, decision: str) -> None:
    async def script(world: Operated, _: Watched) -> None:
        world.create(node_class(), pool(replicas=2, limits={"nodes": 2}))
        await world.clock.sleep(3 * MINUTE)
        await world.stop()
        (claim, _) = world.state.all(NodeClaim)
        drifted = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": STAMP}
        conditions = [*map(encode, claim.status.conditions), drifted]
        merge = {"status": {"conditions": conditions}}
        await world.client.patch(NodeClaim, claim.metadata.name, merge=merge, status=True)
        await world.clock.sleep(10 * MINUTE)

    gates = FeatureGates(static_capacity=True, terminate_first_drift=first)
    world, seen = observed(script, gates, gates=gates)
    assert [one["decision"] for one in world.records("observed.disruption")] == [decision] * first
    assert seen.observation.tally.here.replacements == first
    assert not world.records("claim.deleted")


def test_the_acting_controllers_removals_are_counted() -> None:
    async def script(world: Operated, _: Watched) -> None:
        world.create(node_class(), pool(disruption=EAGER), replicas("web", 4))
        await world.clock.sleep(3 * MINUTE)
        await world.client.patch(ReplicaSet, "web", "default", merge={"spec": {"replicas": 0}})
        await world.clock.sleep(10 * MINUTE)

    _, seen = observed(script)
    tally = seen.observation.tally
    assert tally.acting.removals == tally.acting.launches >= 1
    assert tally.acting.removed == tally.acting.hourly
    assert tally.saving == 0


def test_a_client_that_only_reads_refuses_to_write() -> None:
    async def script(world: Operated) -> None:
        client = ReadOnlyClient(world.client)
        assert (await client.list(Pod)).items == ()
        for write in (
            client.create(Pod()),
            client.patch(Pod, "a", merge={}),
            client.delete(Pod, "a"),
            client.evict("a", "default"),
            client.bind("a", "default", "node"),
        ):
            with pytest.raises(Forbidden, match="an observer may not"):
                await write

    play(script)


def test_room_of_buffers_is_not_taken_for_empty_and_what_they_lack_is_reported() -> None:
    gates = FeatureGates(capacity_buffer=True)

    async def script(world: Operated, _: Watched) -> None:
        world.create(node_class(), pool(disruption=EAGER), template(), buffer())
        await world.clock.sleep(3 * MINUTE)
        assert len(world.state.all(Node)) == 1
        await world.stop()  # what comes now stays
        await world.clock.sleep(20 * MINUTE)
        assert not world.records("observed.room")
        world.create(buffer("more", podTemplateRef={"name": "unit"}, replicas=9))
        await world.clock.sleep(20 * MINUTE)

    world, seen = observed(script, gates, gates=gates)
    assert not world.records("observed.disruption")
    assert len(world.records("observed.room")) == 1
    assert seen.observation.tally.here.launches == 0


def test_without_the_gate_a_node_with_room_of_a_buffer_is_empty() -> None:
    async def script(world: Operated, _: Watched) -> None:
        world.create(node_class(), pool(disruption=EAGER), template(), buffer())
        await world.clock.sleep(10 * MINUTE)

    world, _ = observed(script, gates=FeatureGates(capacity_buffer=True))
    assert world.records("observed.disruption")
