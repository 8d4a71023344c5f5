"""A pool at its limit: its pods get events again and again, but a new plan only when something changed."""

from __future__ import annotations

from operated import Operated, play, pod, pool

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import MINUTE, SECOND
from dovetail.testing.guests import node_class

FULL = {"limits": {"cpu": "2"}}
CROWD = tuple(pod(f"p{number}", "1500m") for number in range(3))


def test_pods_that_stay_unschedulable_are_reported_but_not_planned_for_again() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**FULL), *CROWD)
        await world.clock.sleep(3 * MINUTE)
        world.log.record("test.settled")
        await world.clock.sleep(20 * MINUTE)

    world = play(script)
    settled = world.records("test.settled")[0]["t"]
    assert [item for kind in ("batch", "solve") for item in world.records(kind) if item["t"] > settled] == []
    events = [item for item in world.records("event", reason="FailedScheduling") if item["t"] > settled]
    karpenters = [item for item in events if "Failed to schedule pod" in str(item["message"])]
    # Two pods, once per five minutes.
    assert len(karpenters) == 8
    assert len(world.records("pod.running")) == 1


def test_a_raised_limit_is_seen_within_one_round() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**FULL), *CROWD)
        await world.clock.sleep(5 * MINUTE)
        world.log.record("test.raised")
        await world.client.patch(NodePool, "general", merge={"spec": {"limits": {"cpu": "100"}}})
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    raised = world.records("test.raised")[0]["t"]
    after = [item["t"] for item in world.records("claim.created") if item["t"] > raised]
    assert after
    assert after[0] - raised <= 12 * SECOND
    assert len(world.records("pod.running")) == 3


def test_room_that_comes_free_is_seen_within_one_round() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**FULL), *CROWD)
        await world.clock.sleep(5 * MINUTE)
        await world.client.delete(Pod, world.records("pod.running")[0]["pod"].partition("/")[2], "default")
        await world.clock.sleep(2 * MINUTE)

    world = play(script)
    assert len(world.records("pod.running")) == 2
