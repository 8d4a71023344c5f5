"""The cloud announces that it takes machines away, or that they are broken: nodes are replaced in time."""

from __future__ import annotations

import pytest
from operated import Operated, play, pool
from stories import apart, inflate

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND
from dovetail.cloud.aws.fake.gate import GateOptions
from dovetail.cloud.eventbridge import write
from dovetail.cloud.interruption import InterruptionKind, instance_id
from dovetail.controllers.interruption import DELETED, RECEIVED, UNHEALTHY
from dovetail.controllers.nodeclaim.disrupted import CLAIMS
from dovetail.model import labels
from dovetail.testing.guests import node_class


async def three_spot_nodes(world: Operated, stays: str = "false") -> list[NodeClaim]:
    made = pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]})
    made["spec"]["template"]["spec"]["requirements"][0]["values"] = ["spot"]
    pods = inflate(3, affinity=apart())
    pods["spec"]["template"]["metadata"]["annotations"] = {labels.DO_NOT_DISRUPT: stays}
    world.create(node_class(), made, pods)
    await world.clock.sleep(2 * MINUTE)
    return sorted(world.state.all(NodeClaim), key=lambda claim: claim.metadata.name)


def test_pods_have_another_node_before_the_spot_instance_ends() -> None:
    async def script(world: Operated) -> None:
        claim, *_ = await three_spot_nodes(world)
        world.cloud.interrupt(claim.status.provider_id, InterruptionKind.SPOT)
        await world.clock.sleep(119 * SECOND)
        assert len(world.records("pod.bound")) == 4
        assert len(world.state.all(Node)) == 3
        lost = claim.metadata.labels[labels.INSTANCE_TYPE], claim.metadata.labels[labels.ZONE]
        again = world.records("instance.started")[3]
        assert (again["instanceType"], again["zone"]) != lost  # that offering is short for three minutes

    world = play(script)
    assert world.messages("SpotInterrupted") == ["Spot interruption warning was triggered"] * 2
    assert sorted(world.messages("TerminatingOnInterruption")) == [
        "Interruption triggered termination for the Node",
        "Interruption triggered termination for the NodeClaim",
    ]
    series = {"nodepool": "general", "capacity_type": "spot", "termination_mode": "graceful"}
    policy = "WhenEmptyOrUnderutilized"
    count = world.metrics.value(CLAIMS, reason="spot_interrupted", consolidation_policy=policy, **series)
    assert count == 1
    assert world.metrics.value(RECEIVED, message_type="spot_interrupted") == 1
    assert world.metrics.value(DELETED) == 1


@pytest.mark.parametrize(
    ("kind", "reason", "goes"),
    [
        (InterruptionKind.REBALANCE, "SpotRebalanceRecommendation", False),
        (InterruptionKind.SCHEDULED_CHANGE, "InstanceUnhealthy", True),
        (InterruptionKind.STOPPED, "InstanceStopping", True),
        (InterruptionKind.TERMINATED, "InstanceTerminating", True),
        (InterruptionKind.RESERVATION, "CapacityReservationInstanceInterrupted", True),
    ],
)
def test_each_kind_of_message(kind: InterruptionKind, reason: str, goes: bool) -> None:
    async def script(world: Operated) -> None:
        claim, *_ = await three_spot_nodes(world)
        world.cloud.interrupt(claim.status.provider_id, kind)
        await world.clock.sleep(5 * MINUTE)
        names = {one.metadata.name for one in world.state.all(NodeClaim)}
        assert (claim.metadata.name not in names) == goes
        assert len(names) == 3

    assert len(play(script).messages(reason)) == 2


@pytest.mark.parametrize(
    ("category", "forceful"),
    [("instance_status", True), ("system_status", True), ("event_status", False)],
)
def test_a_failing_status_check_ends_the_node_without_a_message(category: str, forceful: bool) -> None:
    async def script(world: Operated) -> None:
        claim, *_ = await three_spot_nodes(world, stays=str(forceful).lower())
        world.cloud.impair(claim.status.provider_id, category)
        await world.clock.sleep(119 * SECOND)
        assert bool(world.records("claim.deleted")) != forceful
        await world.clock.sleep(5 * MINUTE)
        assert claim.metadata.name not in {one.metadata.name for one in world.state.all(NodeClaim)}

    world = play(script)
    assert world.metrics.value(UNHEALTHY, category=category) == 1
    assert any("bypasses the PDB" in text for text in world.messages("Disrupted")) == forceful


def test_messages_of_no_use_are_taken_out_of_the_queue() -> None:
    async def script(world: Operated) -> None:
        claim, *_ = await three_spot_nodes(world)
        for body in ("hello", '{"source": "aws.s3", "detail-type": "Object Created"}'):
            world.aws.send(body)
        world.aws.send(write(InterruptionKind.SPOT, "i-somebody-elses", world.clock.now()))
        await world.clock.sleep(5 * MINUTE)
        assert instance_id(claim.status.provider_id) != "i-somebody-elses"

    world = play(script)
    assert not world.records("claim.deleted")
    assert world.metrics.value(RECEIVED, message_type="no_op") == 2
    assert world.metrics.value(DELETED) == 3
    failed = world.records("reconcile.failed", controller="interruption")
    assert ["not an event of EventBridge" in str(record["message"]) for record in failed] == [True]


def test_the_same_message_twice_is_one_replacement() -> None:
    async def script(world: Operated) -> None:
        claim, *_ = await three_spot_nodes(world)
        for _ in range(2):
            world.cloud.interrupt(claim.status.provider_id, InterruptionKind.SPOT)
        await world.clock.sleep(5 * MINUTE)
        assert len(world.state.all(NodeClaim)) == 3

    world = play(script)
    assert len(world.records("instance.started")) == 4
    assert len(world.messages("SpotInterrupted")) == 2


def test_a_thousand_messages_a_second() -> None:
    async def script(world: Operated) -> None:
        claim, *_ = await three_spot_nodes(world)
        aws = world.aws
        aws.gate.options = GateOptions(fastest=10, slowest=30)  # ms
        now = world.clock.now()
        for number in range(4_999):
            aws.send(write(InterruptionKind.TERMINATED, f"i-{number:017x}", now))
        mine = write(InterruptionKind.SPOT, instance_id(claim.status.provider_id), now)
        aws.send(mine)
        aws.send(mine)  # at least once
        await world.clock.sleep(5 * SECOND)
        assert world.metrics.value(DELETED) == 5_001
        assert aws.gate.calls["sqs:DeleteMessageBatch"] == 501
        series = {"nodepool": "general", "capacity_type": "spot", "termination_mode": "graceful"}
        policy = "WhenEmptyOrUnderutilized"
        assert (
            world.metrics.value(CLAIMS, reason="spot_interrupted", consolidation_policy=policy, **series) == 1
        )
        await world.clock.sleep(MINUTE)
        assert len(world.state.all(NodeClaim)) == 3

    play(script)
