"""Which spot offerings a launch names first, and that the others are asked for once those refuse."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.base.errors import CreateFailed, InsufficientCapacity
from dovetail.cloud.aws.launchtemplate.template import Document
from dovetail.cloud.choice import MOST_TYPES, Choice, Request, SpotRange, choose
from dovetail.cloud.inmemory import Limit
from dovetail.cloud.simulated import SimulatedCloud
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.requirement import Requirement, Requirements
from dovetail.simulate.time.clock import VirtualClock
from tests.unit import test_simulated_cloud as simulated
from tests.unit.test_aws_provider import World, claim, node_class, play, short
from tests.unit.test_fleet_choice import kind, offering

FEW, THREE = SpotRange(3, 20), SpotRange(3, 0)


def spot(name: str, *prices: float, on_demand: float = 0.0, **capacity: int) -> InstanceType:
    """A type that is spot at these prices, in the zones a, b, c, and on demand in the first one."""
    offers = [offering(zone, "spot", price) for zone, price in zip("abc", prices, strict=False)]
    return kind(name, *offers, *([offering("a", "on-demand", on_demand)] if on_demand else ()), **capacity)


def named(choice: Choice) -> str:
    """As "m1a m1b m2a"."""
    return " ".join(one.instance_type.name + one.offering.zone for one in choice.candidates())


def ask(types: list[InstanceType], within: SpotRange | None = FEW, *wanted: Requirement) -> Choice:
    return choose(types, Request(Requirements.of(wanted), {"cpu": 1000}), within)


LADDER = [spot(f"m{number}", 0.1 * number, 0.1 * number + 0.05) for number in range(1, 6)]
ALL = "m1a m1b m2a m2b m3a m3b m4a m4b m5a m5b"


@pytest.mark.parametrize(
    ("types", "within", "found"),
    [
        (LADDER, FEW, "m1a m1b m2a m2b m3a"),  # up to where the third type begins
        (LADDER, SpotRange(1, 0), "m1a"),
        (LADDER, SpotRange(1, 50), "m1a m1b"),  # what is near is named, however few types are enough
        (LADDER, SpotRange(3, 200), "m1a m1b m2a m2b m3a"),  # 0.3 is 200 % more; 0.35 is beyond
        (LADDER, SpotRange(3, 250), "m1a m1b m2a m2b m3a m3b"),
        (LADDER, SpotRange(4, 0), "m1a m1b m2a m2b m3a m3b m4a"),
        (LADDER, SpotRange(5, 0), ALL),  # no more than are wanted: also the dear zone of the last
        (LADDER, SpotRange(59, 0), ALL),
        (LADDER, SpotRange(3, 900), ALL),
        (LADDER, None, ALL),
        ([*LADDER, spot("m0", 0.09, 0.108, 0.1081)], SpotRange(1, 20), "m0a m0b m1a"),  # 20 % more is near
        ([*LADDER[:1], spot("free", 0.0, 0.1)], SpotRange(1, 20), "freea"),
    ],
)
def test_spot_that_is_much_dearer_than_the_cheapest_is_not_named(
    types: list[InstanceType], within: SpotRange | None, found: str
) -> None:
    choice = ask(types, within)
    assert named(choice) == found
    assert choice.shortened == (found != named(ask(types, None)))


def test_all_sixty_is_no_limit() -> None:
    assert SpotRange.of(MOST_TYPES, 20) is None
    assert SpotRange.of(15, 20) == SpotRange(15, 20)


def test_what_is_not_spot_is_as_ever() -> None:
    both = [spot(f"m{number}", 0.1 * number, on_demand=0.4 + number / 10) for number in range(1, 6)]
    wanted = Requirement.new(labels.CAPACITY_TYPE, "In", ("on-demand",))
    assert named(ask(both, FEW, wanted)) == "m1a m2a m3a m4a m5a"
    assert not ask(both, FEW, wanted).shortened
    choice = ask([*both, spot("steady", on_demand=0.2)], SpotRange(1, 0))
    assert named(choice) == "m1a"
    assert [item.name for item in choice.types] == ["m1"], "a launch of spot has no use for the steady one"
    assert [one.capacity_type for one in choice.types[0].offerings] == ["spot", "on-demand"]
    held = kind("held", offering("a", "reserved", 0.5, reservation_id="cr-1", reservation_capacity=1))
    assert named(ask([*LADDER, held])) == "helda"


def of_family(name: str, family: str, price: float) -> InstanceType:
    made = spot(name, price)
    mark = Requirement.new("family", "In", (family,))
    return InstanceType(
        made.name, Requirements.of((*made.requirements, mark)), made.offerings, made.capacity, made.overhead
    )


def test_min_values_are_kept() -> None:
    types = [of_family(f"m{number}", "m", 0.1 + number / 1000) for number in range(5)]
    types += [of_family("r1", "r", 0.4), of_family("r2", "r", 0.5), of_family("c1", "c", 0.6)]
    few = SpotRange(2, 0)

    def least(count: int) -> Requirement:
        return Requirement.new("family", "Exists", (), count)

    assert named(ask(types, few, least(1))) == "m0a m1a"
    assert named(ask(types, few, least(2))) == "m0a m1a m2a m3a m4a r1a"
    assert named(ask(types, few, least(3))) == "m0a m1a m2a m3a m4a r1a r2a c1a"
    assert not ask(types, few, least(3)).shortened
    with pytest.raises(CreateFailed, match="minValues of family is 4"):
        ask(types, few, least(4))


FAMILIES = ("m5", "m5a", "m5d", "m6i", "m6a", "m7i", "m7a", "c5", "c6i", "c6a", "r5", "r6i", "r6a", "r5a")
LARGE = [f"{family}.large" for family in FAMILIES]
Pool = tuple[str, str]


def pools_of(request: Document) -> set[Pool]:
    return {
        (one["InstanceType"], one["AvailabilityZone"])
        for config in request["LaunchTemplateConfigs"]
        for one in config["Overrides"]
    }


def spied(world: World) -> list[set[Pool]]:
    """The pools that each fleet asks for from now on."""
    asked: list[set[Pool]] = []
    real = world.aws.ec2.create_fleet

    async def spy(request: Document, **more: Any) -> Any:
        asked.append(pools_of(request))
        return await real(request, **more)

    world.aws.ec2.create_fleet = spy  # type: ignore[method-assign]
    return asked


def test_a_launch_asks_for_the_rest_at_once_when_what_is_near_refuses() -> None:
    near: set[Pool] = set()

    async def look(world: World) -> None:
        asked = spied(world)
        made = await world.cloud.create(claim(types=LARGE, how=["spot"]), node_class())
        (found,) = asked
        assert len({name for name, _ in found}) == 3 and (made.instance_type, made.zone) in found
        near.update(found)

    async def body(world: World) -> None:
        asked = spied(world)
        outcomes = await world.launch(*(claim(f"c-{n}", types=LARGE, how=["spot"]) for n in range(5)))
        assert [outcome.capacity_type for outcome in outcomes if not isinstance(outcome, BaseException)] == (
            ["spot"] * 5
        )
        first, second = asked  # five launches, one call for each of both
        assert first == near and len({name for name, _ in second}) > 3
        assert not first & second, "what refused is not asked again"
        assert world.log.kinds == ["instance.started"] * 5
        # What refused is avoided: the next launch begins with the cheapest of what is left.
        await world.cloud.create(claim("later", types=LARGE, how=["spot"]), node_class())
        assert asked[2] < second

    play(look, spot=THREE)
    names = tuple({name for name, _ in near})
    play(body, short(0, instance_types=names, capacity_types=("spot",)), spot=THREE)


def test_a_launch_that_finds_nothing_at_all_says_so_once() -> None:
    async def body(world: World) -> None:
        asked = spied(world)
        either = claim(types=LARGE, how=["spot", "on-demand"])
        with pytest.raises(InsufficientCapacity, match="InsufficientInstanceCapacity"):
            await world.cloud.create(either, node_class())
        assert len(asked) == 2 and world.log.kinds == ["instance.launchFailed"]
        made = await world.cloud.create(either, node_class())  # all of spot is avoided by now
        assert made.capacity_type == "on-demand"

    play(body, short(0, capacity_types=("spot",)), spot=THREE)


@pytest.mark.parametrize("refused", [(), ("t0", "t1", "t2")])
def test_the_simulated_cloud_tries_what_is_near_first(refused: tuple[str, ...]) -> None:
    types = tuple(spot(f"t{number}", 0.1 + number / 10) for number in range(6))

    async def scenario(cloud: SimulatedCloud, _: VirtualClock) -> set[str]:
        made = [await cloud.create(simulated.claim(f"c-{n}"), simulated.node_class()) for n in range(4)]
        return {one.instance_type for one in made}

    limits = [Limit(0, instance_types=refused)] if refused else []
    options: dict[str, Any] = {"types": types, "account": simulated.account(), "limits": limits}
    found = simulated.play(scenario, spot=FEW, **options)
    assert found <= ({"t3", "t4", "t5"} if refused else {"t0", "t1", "t2"})


def test_where_the_class_has_no_subnet_the_simulated_cloud_asks_for_nothing_beyond_either() -> None:
    near, beyond = [spot(f"t{n}", 0.1) for n in range(3)], spot("t9", 0.5, 0.5, 0.4)
    far = kind("t8", offering("nowhere", "spot", 0.3), offering("a", "spot", 0.6))

    async def scenario(cloud: SimulatedCloud, _: VirtualClock) -> list[str]:
        made = await cloud.create(simulated.claim("c"), simulated.node_class())
        assert made.instance_type in {"t8", "t9"}
        return [
            one.zone
            for item in cloud.instance_types(simulated.node_class())
            for one in item.offerings
            if item.name in {"t8", "t9"} and not one.available
        ]

    limits = [Limit(0, instance_types=("t0", "t1", "t2"))]
    types = (*near, beyond, far)
    assert simulated.play(scenario, spot=FEW, types=types, account=simulated.account(), limits=limits) == []
