"""Pods that make every plan fail cost themselves: those beside them, and those that come later, get nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from operated import START, Operated, pod, pool

from dovetail.api.core import Pod
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import PlannerFailed
from dovetail.controllers.provisioning import intake
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.model.volumes import VolumeIndex
from dovetail.runtime.operator import Ports
from dovetail.runtime.planning.inline import InlinePlanner
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.guests import node_class

BAD = frozenset({"default/bad-0", "default/bad-1"})


class Poisoned(InlinePlanner):
    """Dies of some pods."""

    async def plan(self, problem: Problem, deadline: int) -> Plan:
        if any(item.key in BAD for item in problem.pods):
            raise PlannerFailed("ValueError: poison")
        return await super().plan(problem, deadline)


class World(Operated):
    def ports(self) -> Ports:
        return replace(super().ports(), planner=Poisoned(self.clock))


def test_pods_that_no_plan_can_be_made_for_do_not_keep_others_from_their_nodes() -> None:
    async def main(clock: VirtualClock) -> World:
        world = World(clock)
        world.start()
        ordinary = (pod(f"web-{number}", f"{100 + number}m") for number in range(14))
        # No node of the pool is one for them, so that the scheduler has no place for them either.
        arm = {"nodeSelector": {"kubernetes.io/arch": "arm64"}}
        bad = (pod(f"bad-{number}", f"{200 + number}m", **arm) for number in range(2))
        world.create(node_class(), pool(), *ordinary, *bad)
        await clock.sleep(2 * MINUTE)
        assert len({record["pod"] for record in world.records("pod.bound")}) == 14
        await clock.sleep(60 * MINUTE)
        world.create(*(pod(f"late-{number}", "1") for number in range(5)))
        created = clock.now()
        await clock.sleep(2 * MINUTE)
        late = [record for record in world.records("pod.bound") if "late" in str(record["pod"])]
        assert len(late) == 5
        assert max(record["t"] for record in late) - created <= 90 * SECOND
        return world

    world = run_virtual(main, start=START)
    messages = [text for text in world.messages("FailedScheduling") if "no plan could be made for it" in text]
    assert messages
    assert all("(ValueError: poison)" in text for text in messages)
    # Each of the two is tried alone after 10, 20, 40, ... seconds, then every ten minutes.
    failures = [record["t"] for record in world.records("plan.failed") if record["t"] > START + 10 * MINUTE]
    assert 4 <= len(failures) <= 20


def test_a_pod_that_cannot_be_understood_gets_an_event_and_costs_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged = intake.ignored

    def hostile(item: Pod, volumes: VolumeIndex, *, devices: bool) -> str:
        if item.key in BAD:
            raise OverflowError("too large")
        return judged(item, volumes, devices=devices)

    monkeypatch.setattr(intake, "ignored", hostile)

    async def main(clock: VirtualClock) -> Operated:
        world = Operated(clock)
        world.start()
        arm = {"nodeSelector": {"kubernetes.io/arch": "arm64"}}
        world.create(node_class(), pool(), pod("web", "1"), pod("bad-0", "1", **arm))
        await clock.sleep(12 * MINUTE)
        return world

    world = run_virtual(main, start=START)
    assert {record["pod"] for record in world.records("pod.bound")} == {"default/web"}
    (message,) = world.records("input.left_out")
    assert (message["about"], message["message"]) == ("Pod default/bad-0", "OverflowError: too large")
    wanted = "Failed to schedule pod, it cannot be understood (OverflowError: too large)"
    assert wanted in world.messages("FailedScheduling")
