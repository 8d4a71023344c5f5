"""--legacy-node-repair: sick nodes end by force, unless the fault must lie elsewhere."""

from __future__ import annotations

from typing import Any

from operated import Operated, play
from stories import falls_ill, six_nodes

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE
from dovetail.controllers.node.repair import IN_POOL
from dovetail.controllers.nodeclaim.disrupted import UNHEALTHY
from dovetail.model import labels
from dovetail.runtime.settings import FeatureGates

ON = FeatureGates(node_repair=True)


async def held_nodes(world: Operated, *budgets: dict[str, Any]) -> list[Node]:
    """Nodes that neither budgets nor their pods let go."""
    return await six_nodes(world, {"nodes": "0"}, *budgets, annotations={labels.DO_NOT_DISRUPT: "true"})


def test_a_sick_node_goes_by_force_and_its_pods_get_another() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await held_nodes(world)
        await falls_ill(world, sick)
        await world.clock.sleep(10 * MINUTE - 1)
        assert not world.records("claim.deleted")
        await world.clock.sleep(5 * MINUTE)
        names = {node.metadata.name for node in world.state.all(Node)}
        assert len(names) == 6
        assert sick.metadata.name not in names

    world = play(script, gates=ON, legacy_node_repair=True)
    # Neither the budget of none nor do-not-disrupt keeps it: its pods have no time left.
    assert len(world.records("claim.deleted")) == 1
    assert len(world.records("pod.bound")) == 7
    assert "bypasses the PDB" in world.messages("Disrupted")[0]
    (image,) = {claim.status.image_id for claim in world.state.all(NodeClaim)}
    series = {
        "nodepool": "general",
        "capacity_type": "on-demand",
        "image_id": image,
        "termination_mode": "forceful",
    }
    assert world.metrics.value(UNHEALTHY, condition="AcceleratedHardwareReady", **series) == 1


def test_one_that_recovers_in_time_stays() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await held_nodes(world)
        await falls_ill(world, sick, "KernelReady")
        await world.clock.sleep(29 * MINUTE)
        await world.client.patch(Node, sick.metadata.name, merge={"status": {"conditions": []}}, status=True)
        await world.clock.sleep(10 * MINUTE)

    assert not play(script, gates=ON, legacy_node_repair=True).records("claim.deleted")


def test_when_too_many_are_sick_none_is_taken_and_the_nodes_say_so() -> None:
    async def script(world: Operated) -> None:
        for sick in (await held_nodes(world))[:3]:
            await falls_ill(world, sick)
        await world.clock.sleep(30 * MINUTE)

    world = play(script, gates=ON, legacy_node_repair=True)
    assert not world.records("claim.deleted")
    assert set(world.messages("NodeRepairBlocked")) == {IN_POOL[:1].upper() + IN_POOL[1:]}


def test_a_budget_for_unhealthy_nodes_holds_repair_up() -> None:
    async def script(world: Operated) -> None:
        for sick in (await held_nodes(world, {"nodes": "1", "reasons": ["Unhealthy"]}))[:2]:
            await falls_ill(world, sick)
        await world.clock.sleep(10 * MINUTE + 1)
        assert sum(claim.deleting for claim in world.state.all(NodeClaim)) == 1
        await world.clock.sleep(10 * MINUTE)

    world = play(script, gates=ON, legacy_node_repair=True)
    assert len(world.records("claim.deleted")) == 2  # one after the other
    text = "No allowed disruptions for disruption reason Unhealthy due to blocking budget"
    assert text in world.messages("DisruptionBlocked")


def test_a_budget_of_none_for_unhealthy_nodes_turns_repair_off() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await held_nodes(world, {"nodes": "0", "reasons": ["Drifted", "Unhealthy"]})
        await falls_ill(world, sick)
        await world.clock.sleep(30 * MINUTE)

    assert not play(script, gates=ON, legacy_node_repair=True).records("claim.deleted")


def test_a_node_that_must_not_be_repaired_stays_until_its_mark_is_gone() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await held_nodes(world)
        name = sick.metadata.name
        marked = {"metadata": {"annotations": {labels.DO_NOT_REPAIR: "true"}}}
        await world.client.patch(Node, name, merge=marked)
        await falls_ill(world, sick)
        await world.clock.sleep(30 * MINUTE)
        assert not world.records("claim.deleted")
        marked["metadata"]["annotations"][labels.DO_NOT_REPAIR] = "yes"  # says nothing
        await world.client.patch(Node, name, merge=marked)
        await world.clock.sleep(5 * MINUTE)

    world = play(script, gates=ON, legacy_node_repair=True)
    assert len(world.records("claim.deleted")) == 1
    text = 'Repair is blocked through the "karpenter.sh/do-not-repair" annotation'
    assert text in world.messages("DisruptionBlocked")
