"""Nodes go before their replacement where that can only be once they are gone, if the gates say so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from operated import Operated, play, pool
from stories import falls_ill, inflate, reserved, travel_class, travel_pool

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import HOUR, MINUTE
from dovetail.controllers.brakes.brakes import BrakeOptions, Rate
from dovetail.controllers.disruption.metrics import TERMINATE_FIRST
from dovetail.controllers.static import FULL, RESERVATIONS_FULL
from dovetail.model import labels
from dovetail.runtime.settings import FeatureGates
from dovetail.testing.guests import node_class

REPAIR = FeatureGates(node_repair=True, static_capacity=True)
FIRST = FeatureGates(
    node_repair=True, static_capacity=True, terminate_first_drift=True, terminate_first_repair=True
)


async def drift(world: Operated, name: str) -> None:
    template = {"metadata": {"labels": {"generation": "new"}}}
    await world.client.patch(NodePool, name, merge={"spec": {"template": template}})


def counted(world: Operated, reason: str, why: str) -> float:
    series = {"reason": reason, "terminate_first_reason": why}
    return sum(
        world.metrics.value(TERMINATE_FIRST, nodepool=item.metadata.name, **series)
        for item in world.state.all(NodePool)
    )


@pytest.mark.parametrize("reason", ["unhealthy", "drifted"])
@pytest.mark.parametrize("gates", [REPAIR, FIRST])
def test_a_node_in_a_full_reservation(gates: FeatureGates, reason: str) -> None:
    async def script(world: Operated) -> None:
        world.aws.ec2.account = replace(world.aws.ec2.account, reservations=(reserved(),))
        terms = [{"id": "cr-1"}]
        owner = travel_pool(capacity=("reserved",))
        world.create(travel_class(capacityReservationSelectorTerms=terms), owner, inflate(1))
        await world.clock.sleep(3 * MINUTE)
        (claim,) = world.state.all(NodeClaim)
        assert claim.metadata.labels[labels.RESERVATION_ID] == "cr-1"
        if reason == "unhealthy":
            (node,) = world.state.all(Node)
            await falls_ill(world, node, reason="XID79")
        else:
            await drift(world, owner["metadata"]["name"])
        await world.clock.sleep(20 * MINUTE)
        (last,) = world.state.all(NodeClaim)
        assert (last.metadata.name == claim.metadata.name) == (gates is REPAIR)
        assert last.metadata.labels[labels.RESERVATION_ID] == "cr-1"

    world = play(script, gates=gates)
    if gates is FIRST:
        (done,) = world.records("disruption")
        assert (done["decision"], done["replacements"]) == ("terminate-first", [])
        assert counted(world, reason, "no-reserved-capacity") == 1
    else:
        assert not world.records("disruption")
        assert "Not all pods would schedule" in " ".join(world.messages("DisruptionBlocked"))


@pytest.mark.parametrize("gates", [REPAIR, FIRST])
def test_a_static_pool_at_its_limit(gates: FeatureGates) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(replicas=3, limits={"nodes": "3"}))
        await world.clock.sleep(3 * MINUTE)
        before = {claim.metadata.name for claim in world.state.all(NodeClaim)}
        sick, *_ = world.state.all(Node)
        await falls_ill(world, sick, reason="XID79")
        await world.clock.sleep(20 * MINUTE)
        after = {claim.metadata.name for claim in world.state.all(NodeClaim)}
        assert len(after) == 3
        assert len(before & after) == (3 if gates is REPAIR else 2)
        await drift(world, "general")
        await world.clock.sleep(30 * MINUTE)
        after = {claim.metadata.name for claim in world.state.all(NodeClaim)}
        assert len(after) == 3
        assert len(before & after) == (3 if gates is REPAIR else 0)

    world = play(script, gates=gates)
    assert (FULL in world.messages("DisruptionBlocked")) == (gates is REPAIR)
    if gates is FIRST:
        assert counted(world, "unhealthy", "static-at-limit") == 1
        assert counted(world, "drifted", "static-at-limit") >= 1


@pytest.mark.parametrize("gates", [REPAIR, FIRST])
def test_a_static_pool_in_a_full_reservation(gates: FeatureGates) -> None:
    async def script(world: Operated) -> None:
        world.aws.ec2.account = replace(world.aws.ec2.account, reservations=(reserved(),))
        terms = [{"id": "cr-1"}]
        owner = travel_pool(capacity=("reserved",))
        owner["spec"] = {"replicas": 1, "template": owner["spec"]["template"]}
        world.create(travel_class(capacityReservationSelectorTerms=terms), owner)
        await world.clock.sleep(3 * MINUTE)
        (claim,) = world.state.all(NodeClaim)
        (node,) = world.state.all(Node)
        await falls_ill(world, node, reason="XID79")
        await world.clock.sleep(20 * MINUTE)
        (last,) = world.state.all(NodeClaim)
        assert (last.metadata.name == claim.metadata.name) == (gates is REPAIR)

    world = play(script, gates=gates)
    assert (RESERVATIONS_FULL in world.messages("DisruptionBlocked")) == (gates is REPAIR)
    if gates is FIRST:
        assert counted(world, "unhealthy", "no-reserved-capacity") == 1


def test_none_goes_first_while_another_one_makes_room() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(replicas=3, limits={"nodes": "4"}))
        await world.clock.sleep(3 * MINUTE)
        before = {claim.metadata.name for claim in world.state.all(NodeClaim)}
        await drift(world, "general")
        for _ in range(30):
            await world.clock.sleep(MINUTE)
            assert 3 <= len(world.state.all(NodeClaim)) <= 4
        assert before.isdisjoint(claim.metadata.name for claim in world.state.all(NodeClaim))

    world = play(script, gates=FIRST)
    assert [record["decision"] for record in world.records("disruption")] == ["replace"] * 3
    assert FULL not in world.messages("DisruptionBlocked")


@pytest.mark.parametrize("reason", ["unhealthy", "drifted"])
@pytest.mark.parametrize("brakes", [BrakeOptions(), BrakeOptions(launches=Rate(3, HOUR))])
def test_nothing_goes_first_while_nothing_is_bought(brakes: BrakeOptions, reason: str) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(replicas=3, limits={"nodes": "3"}))
        await world.clock.sleep(3 * MINUTE)
        before = {claim.metadata.name for claim in world.state.all(NodeClaim)}
        if brakes.launches is None:
            pause = {"metadata": {"annotations": {labels.PAUSE: "launches"}}}
            await world.client.patch(NodePool, "general", merge=pause)
        if reason == "unhealthy":
            await falls_ill(world, next(iter(world.state.all(Node))), reason="XID79")
        else:
            await drift(world, "general")
        await world.clock.sleep(20 * MINUTE)
        assert {claim.metadata.name for claim in world.state.all(NodeClaim)} == before

    world = play(script, gates=FIRST, brakes=brakes)
    assert not world.records("disruption")
