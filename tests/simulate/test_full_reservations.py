"""A reservation of which nothing is left is well: it is offered, waited for, and named to who waits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from operated import Operated, play
from stories import apart, inflate, reserved, travel_class, travel_pool

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE
from dovetail.controllers.provisioning.provision import NONE_LEFT
from dovetail.model.plan import ALL_FULL, ONE_FULL

TERMS = [{"id": "cr-1"}]


@pytest.mark.parametrize(("pools", "reason"), [(1, ALL_FULL), (2, ONE_FULL)])
def test_pods_for_which_only_a_full_reservation_would_do_are_told_so(pools: int, reason: str) -> None:
    async def script(world: Operated) -> None:
        world.aws.ec2.account = replace(world.aws.ec2.account, reservations=(reserved(),))
        owners = [travel_pool(capacity=("reserved",)) for _ in range(pools)]
        for number, owner in enumerate(owners):
            owner["metadata"]["name"] = f"held-{number}"
        world.create(travel_class(capacityReservationSelectorTerms=TERMS), *owners)
        world.create(inflate(2, affinity=apart()))
        await world.clock.sleep(10 * MINUTE)
        (claim,) = world.state.all(NodeClaim)
        named = claim.spec.node_class_ref.name
        kinds = world.cloud.provider.instance_types(world.state.node_class(named))
        (full,) = [one for kind in kinds for one in kind.offerings if one.reservation_id]
        assert (full.available, full.launchable, full.reservation_capacity) == (True, False, 0)
        text = b"".join(await world.operator.figures.text()).decode()
        name = "karpenter_cloudprovider_instance_type_offering_available"
        (line,) = [one for one in text.splitlines() if one.startswith(name) and '"reserved"' in one]
        assert line.endswith(" 1")

    world = play(script)
    assert any(reason in message for message in world.messages("FailedScheduling"))
    assert NONE_LEFT not in " ".join(str(one.get("message")) for one in world.records("event"))


def test_one_that_is_full_is_passed_by_where_something_else_would_do() -> None:
    async def script(world: Operated) -> None:
        world.aws.ec2.account = replace(world.aws.ec2.account, reservations=(reserved(),))
        owner = travel_pool(capacity=("reserved", "on-demand"))
        world.create(travel_class(capacityReservationSelectorTerms=TERMS), owner)
        world.create(inflate(2, affinity=apart()))
        await world.clock.sleep(5 * MINUTE)
        assert len(world.state.all(NodeClaim)) == 2

    world = play(script)
    assert len({record["capacityType"] for record in world.records("instance.started")}) == 2
