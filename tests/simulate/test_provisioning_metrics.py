"""What the provisioner exports while it works on an embedded cluster."""

from __future__ import annotations

import pytest
from operated import Operated, play, pod, pool

from dovetail.base.clock import MINUTE, SECOND
from dovetail.controllers.provisioning.metrics import (
    BOUND,
    CONTROLLER,
    COST,
    CREATED,
    DECISION,
    DURATION,
    GAP,
    IGNORED,
    PLANNED_BOUND,
    PLANNED_COST,
    QUEUE_DEPTH,
    UNSCHEDULABLE,
    WORK,
)
from dovetail.testing.guests import node_class


def test_a_plan_is_measured() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(limits={"cpu": "4"}), pod("a"), pod("huge", "64"))
        await world.clock.sleep(2 * MINUTE)

    world = play(script)
    metrics, (first, *_) = world.metrics, world.plans
    assert metrics.value(UNSCHEDULABLE, controller=CONTROLLER) == 1
    assert metrics.value(IGNORED) == 0
    assert metrics.value(QUEUE_DEPTH, controller=CONTROLLER, scheduling_id="1") is None
    relaxed = {"min_values_relaxed": "false"}
    assert metrics.value(CREATED, reason="provisioned", nodepool="general", **relaxed) == 1
    cost = first.cost
    assert cost.hourly > 0
    assert metrics.value(COST, controller=CONTROLLER) == pytest.approx(cost.hourly / 1e9)
    assert metrics.value(BOUND, controller=CONTROLLER) == pytest.approx(cost.lower_bound / 1e9)
    assert metrics.value(GAP, controller=CONTROLLER) == pytest.approx(cost.gap)
    assert metrics.value(PLANNED_COST, controller=CONTROLLER) == pytest.approx(cost.hourly / 1e9)
    assert metrics.value(PLANNED_BOUND, controller=CONTROLLER) == pytest.approx(cost.lower_bound / 1e9)
    assert metrics.value(WORK, controller=CONTROLLER) == sum(plan.work for plan in world.plans)
    batch, solved = world.records("batch")[0], world.records("solve")[0]
    waited = metrics.observed(DECISION)
    assert len(waited) == 2
    assert max(waited) == pytest.approx((solved["t"] - batch["opened"]) / SECOND)
    solves = world.records("solve")
    assert metrics.observed(DURATION, controller=CONTROLLER) == tuple(item["seconds"] for item in solves)


def test_pods_that_are_ignored_are_counted() -> None:
    never = {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [never]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("elsewhere", affinity=affinity))
        await world.clock.sleep(30 * SECOND)

    metrics = play(script).metrics
    assert metrics.value(IGNORED) == 1
    assert metrics.value(UNSCHEDULABLE, controller=CONTROLLER) == 0
    assert metrics.observed(DURATION, controller=CONTROLLER) == ()
