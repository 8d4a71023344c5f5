"""Unhealthy nodes are replaced first, within budgets, and their pods get a limit of time to leave."""

from __future__ import annotations

import pytest
from operated import Operated, play, pool
from stories import falls_ill, inflate, six_nodes

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.controllers.brakes.brakes import BrakeOptions, Rate
from dovetail.controllers.nodeclaim.disrupted import UNHEALTHY
from dovetail.model import labels
from dovetail.model.repair import RepairPolicy
from dovetail.runtime.settings import FeatureGates
from dovetail.testing.guests import node_class
from dovetail.units.timestamp import parse_rfc3339

ON = FeatureGates(node_repair=True)
KEPT = {labels.DO_NOT_DISRUPT: "true"}


def test_a_node_is_replaced_before_it_goes_and_its_pods_have_their_time() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world, annotations=KEPT)
        await falls_ill(world, sick)
        begun = world.clock.now()
        await world.clock.sleep(30 * MINUTE - SECOND)
        assert not world.records("claim.created", t=begun)
        assert len(world.state.all(NodeClaim)) == 6
        await world.clock.sleep(MINUTE)
        assert len(world.state.all(NodeClaim)) == 7  # the new one comes up while the old one is there
        await world.clock.sleep(2 * MINUTE)
        (leaving,) = (claim for claim in world.state.all(NodeClaim) if claim.deleting)
        end = parse_rfc3339(leaving.metadata.annotations[labels.TERMINATION_TIMESTAMP])
        assert end - parse_rfc3339(leaving.metadata.deletion_timestamp) == 10 * MINUTE
        await world.clock.sleep(15 * MINUTE)
        names = {node.metadata.name for node in world.state.all(Node)}
        assert len(names) == 6
        assert sick.metadata.name not in names

    world = play(script, gates=ON)
    # do-not-disrupt held the pod until its node's time was up, and then it found its place ready.
    assert len(world.records("claim.created")) == 7
    assert "bypasses the PDB" in world.messages("Disrupted")[0]
    (forced,) = world.records("pod.forced")
    assert (forced["reason"], forced["grace"]) == ("Unhealthy", 1)
    (image,) = {claim.status.image_id for claim in world.state.all(NodeClaim)}
    series = {"nodepool": "general", "capacity_type": "on-demand", "image_id": image}
    mode = {"termination_mode": "eventual"}
    assert world.metrics.value(UNHEALTHY, condition="AcceleratedHardwareReady", **series, **mode) == 1


def test_a_repair_that_a_brake_holds_back_is_told_of_once() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        await falls_ill(world, sick)
        await world.clock.sleep(50 * MINUTE)
        assert sick.metadata.name in {node.metadata.name for node in world.state.all(Node)}

    world = play(script, gates=ON, brakes=BrakeOptions(launches=Rate(6, 4 * HOUR)))
    assert len(world.records("claim.created")) == 6
    assert len(world.records("repair.selected")) == 1


def test_the_replacement_is_kept_for_pods_that_stay_until_their_time_is_up() -> None:
    async def script(world: Operated) -> None:
        eager = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}
        sick, *_ = await six_nodes(world, annotations=KEPT, disruption=eager)
        await falls_ill(world, sick)
        await world.clock.sleep(50 * MINUTE)

    world = play(script, gates=ON)
    assert len(world.records("claim.created")) == 7
    assert len(world.records("disruption")) == 1
    assert len(world.state.all(NodeClaim)) == 6


@pytest.mark.parametrize(("reason", "minutes"), [("NvidiaXID64Error", 10), ("XID46", 10), ("XID13", 30)])
def test_the_reason_says_how_long_it_is_waited_for(reason: str, minutes: int) -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        await falls_ill(world, sick, reason=reason)
        await world.clock.sleep(minutes * MINUTE - SECOND)
        assert len(world.state.all(NodeClaim)) == 6
        await world.clock.sleep(20 * SECOND)
        assert len(world.state.all(NodeClaim)) == 7

    play(script, gates=ON)


def test_one_that_recovers_in_time_stays() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        for _ in range(4):
            await falls_ill(world, sick, "KernelReady")
            await world.clock.sleep(29 * MINUTE)
            await world.client.patch(
                Node, sick.metadata.name, merge={"status": {"conditions": []}}, status=True
            )
            await world.clock.sleep(MINUTE)

    assert not play(script, gates=ON).records("claim.deleted")


def test_when_too_many_are_sick_none_is_taken_and_all_say_so() -> None:
    async def script(world: Operated) -> None:
        for sick in (await six_nodes(world))[:3]:
            await falls_ill(world, sick)
        await world.clock.sleep(45 * MINUTE)

    world = play(script, gates=ON)
    assert not world.records("claim.deleted")
    assert set(world.messages("NodeRepairBlocked")) == {
        'More than 20% of nodes in nodepool "general" are unhealthy'
    }
    kinds = {record["object"].split("/")[0] for record in world.records("event", reason="NodeRepairBlocked")}
    assert kinds == {"Node", "NodeClaim", "NodePool"}


def test_it_is_off_unless_asked_for() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        await falls_ill(world, sick)
        await world.clock.sleep(45 * MINUTE)

    assert not play(script).records("claim.deleted")


@pytest.mark.parametrize("reasons", [{}, {"reasons": ["Unhealthy"]}])
def test_a_budget_holds_repair_up(reasons: dict[str, list[str]]) -> None:
    async def script(world: Operated) -> None:
        for sick in (await six_nodes(world, {"nodes": "1", **reasons}))[:2]:
            await falls_ill(world, sick)
        await world.clock.sleep(30 * MINUTE + 40 * SECOND)
        assert len(world.state.all(NodeClaim)) == 7
        await world.clock.sleep(20 * MINUTE)

    world = play(script, gates=ON)
    assert len(world.records("claim.deleted")) == 2  # one after the other
    text = "No allowed disruptions for disruption reason Unhealthy due to blocking budget"
    assert text in world.messages("DisruptionBlocked")


def test_a_node_that_is_not_ready_uses_up_no_budget_of_its_own_repair() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world, {"nodes": "1"})
        await world.kubelets.silence(sick.metadata.name, 60 * MINUTE)
        assert sick.metadata.name not in {node.metadata.name for node in world.state.all(Node)}

    assert len(play(script, gates=ON).records("claim.deleted")) == 1


def test_a_budget_of_none_for_unhealthy_nodes_turns_repair_off() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world, {"nodes": "0", "reasons": ["Drifted", "Unhealthy"]})
        await falls_ill(world, sick)
        await world.clock.sleep(45 * MINUTE)

    assert not play(script, gates=ON).records("claim.deleted")


def test_a_node_that_must_not_be_repaired_stays_until_its_mark_is_gone() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        name = sick.metadata.name
        marked = {"metadata": {"annotations": {labels.DO_NOT_REPAIR: "true"}}}
        await world.client.patch(Node, name, merge=marked)
        await falls_ill(world, sick)
        await world.clock.sleep(29 * MINUTE)
        text = 'Repair is blocked through the "karpenter.sh/do-not-repair" annotation'
        assert text not in world.messages("DisruptionBlocked")
        await world.clock.sleep(20 * MINUTE)
        assert text in world.messages("DisruptionBlocked")
        assert not world.records("claim.deleted")
        marked["metadata"]["annotations"][labels.DO_NOT_REPAIR] = "yes"  # says nothing
        await world.client.patch(Node, name, merge=marked)
        await world.clock.sleep(5 * MINUTE)

    assert len(play(script, gates=ON).records("claim.deleted")) == 1


def test_a_restart_between_launch_and_end_forgets_neither_the_replacement_nor_the_limit() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world, annotations=KEPT)
        await falls_ill(world, sick)
        await world.clock.sleep(30 * MINUTE + 15 * SECOND)
        assert len(world.state.all(NodeClaim)) == 7
        await world.restart()
        await world.clock.sleep(2 * MINUTE)
        (leaving,) = (claim for claim in world.state.all(NodeClaim) if claim.deleting)
        assert labels.TERMINATION_TIMESTAMP in leaving.metadata.annotations

    world = play(script, gates=ON)
    assert len(world.records("claim.created")) == 7
    assert len(world.records("disruption.resumed")) == 1


def test_a_monitor_that_is_wrong_about_each_node_of_a_pool_of_one_buys_few() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(disruption={"consolidateAfter": "Never"}), inflate(1))
        known: set[str] = set()
        for _ in range(4 * 60):
            for node in world.state.all(Node):
                if labels.INITIALIZED in node.metadata.labels and node.metadata.name not in known:
                    known.add(node.metadata.name)
                    await falls_ill(world, node, reason="XID79")
            await world.clock.sleep(MINUTE)

    # The first goes after 10 minutes, the next ones after 20, 40, 80 and 160: of 4 hours 90 are left then.
    assert len(play(script, gates=ON).records("claim.created")) == 5


def test_policies_of_ones_own_stand_in_for_the_clouds() -> None:
    own = (
        RepairPolicy("ScratchFree", "False", 3 * MINUTE, grace=MINUTE),
        RepairPolicy("ScratchFree", "False", HOUR, "^Almost"),
    )

    async def script(world: Operated) -> None:
        sick, almost, other, *_ = await six_nodes(world)
        await falls_ill(world, almost, "ScratchFree", "AlmostFull")
        await falls_ill(world, other, reason="XID79")
        await world.clock.sleep(30 * MINUTE)
        await falls_ill(world, sick, "ScratchFree", "Full")
        await world.clock.sleep(20 * MINUTE)
        names = {node.metadata.name for node in world.state.all(Node)}
        assert sick.metadata.name not in names
        assert {almost.metadata.name, other.metadata.name} <= names

    world = play(script, gates=ON, repair_policies=own)
    (selected,) = world.records("repair.selected")
    assert (selected["condition"], selected["reason"]) == ("ScratchFree", "Full")
