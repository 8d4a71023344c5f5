"""The simulated cloud: what it launches, refuses and forgets, and that luck is a function of the seed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import CreateFailed, InstanceNotFound, InsufficientCapacity, NodeClassNotReady
from dovetail.cloud import catalog
from dovetail.cloud.inmemory import Limit
from dovetail.cloud.provider import Instance, Provider
from dovetail.cloud.simulated import Account, SecurityGroup, SimulatedCloud, Subnet
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirement, Requirements
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.units.money import NANO_DOLLARS

T = TypeVar("T")
REGION = "ap-northeast-2"
ZONES = {"a": "az1", "b": "az2"}
READY = [{"type": "Ready", "status": "True"}]


class Log:
    """Keeps records."""

    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []

    def record(self, kind: str, /, **fields: object) -> None:
        """Keep it."""
        self.records.append((kind, fields))

    def kinds(self) -> list[str]:
        """What was recorded, in order."""
        return [kind for kind, _ in self.records]


def node_class(*, conditions: list[dict[str, str]] | None = None, **spec: object) -> EC2NodeClass:
    """A class that is ready and selects everything tagged for the cluster `demo`."""
    terms = [{"tags": {"karpenter.sh/discovery": "demo"}}]
    document = {
        "metadata": {"name": "default"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
            **spec,
        },
        "status": {"conditions": READY if conditions is None else conditions},
    }
    return decode(document, EC2NodeClass)


def claim(name: str = "one", cpu: str = "1", **requirements: object) -> NodeClaim:
    """A claim; keyword arguments are `capacity_type`, `zone`, `instance_type`: values allowed."""
    keys = {"capacity_type": labels.CAPACITY_TYPE, "zone": labels.ZONE, "instance_type": labels.INSTANCE_TYPE}
    document = {
        "metadata": {"name": name},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [
                {"key": keys[key], "operator": "In", "values": values} for key, values in requirements.items()
            ],
            "resources": {"requests": {"cpu": cpu}},
        },
    }
    return decode(document, NodeClaim)


def offering(zone: str, capacity_type: str, price: float, **more: Any) -> Offering:
    """An offering at `price` dollars per hour."""
    terms = (
        Requirement.new(labels.ZONE, "In", (zone,)),
        Requirement.new(labels.CAPACITY_TYPE, "In", (capacity_type,)),
    )
    return Offering(zone, capacity_type, round(price * NANO_DOLLARS), Requirements.of(terms), **more)


def kind(name: str, *offerings: Offering, cpu: int = 4000, **capacity: int) -> InstanceType:
    """A type with these offerings."""
    return InstanceType(
        name=name,
        requirements=Requirements.of((Requirement.new(labels.INSTANCE_TYPE, "In", (name,)),)),
        offerings=offerings,
        capacity={"cpu": cpu, "memory": 1 << 33, "pods": 58, **capacity},
    )


def account() -> Account:
    """Two zones, a subnet each."""
    tags = {"karpenter.sh/discovery": "demo"}
    subnets = tuple(Subnet(f"subnet-{zone}", zone, zone_id, tags) for zone, zone_id in ZONES.items())
    return Account(REGION, "1.33", subnets, (SecurityGroup("sg-1", "nodes", tags),))


def play(
    scenario: Callable[[SimulatedCloud, VirtualClock], Awaitable[T]],
    *,
    seed: int = 1,
    log: Log | None = None,
    **options: Any,
) -> T:
    """Run a scenario on a cloud of its own in virtual time."""

    async def main(clock: VirtualClock) -> T:
        cloud = SimulatedCloud(clock, seed, log or Log(), region=REGION, **options)
        return await scenario(cloud, clock)

    return run_virtual(main)


SMALL = kind(
    "small",
    offering("a", "on-demand", 0.2),
    offering("b", "on-demand", 0.2),
    offering("a", "spot", 0.08),
    cpu=2000,
)
LARGE = kind("large", offering("a", "on-demand", 0.4), offering("b", "spot", 0.1), cpu=8000)
OWN: dict[str, Any] = {"types": (SMALL, LARGE), "account": account()}


def test_it_is_a_provider() -> None:
    async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> None:
        provider: Provider = cloud
        assert provider.node_class_kinds == (("karpenter.k8s.aws", "EC2NodeClass"),)
        assert clock.now() == 0

    play(scenario)


def test_a_launch_takes_time_is_billed_and_calls_its_hooks() -> None:
    log, calls = Log(), []

    async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> Instance:
        cloud.on_started(lambda instance, owner: calls.append((instance.provider_id, owner.metadata.name)))
        instance = await cloud.create(claim(capacity_type=["on-demand"]), node_class())
        assert SECOND < clock.now() < 5 * SECOND
        assert instance.created == clock.now()
        assert await cloud.get(instance.provider_id) == instance
        assert await cloud.list() == [instance]
        return instance

    made = play(scenario, log=log, **OWN)
    assert made.provider_id.startswith(f"aws:///{made.zone}/i-0")
    assert (made.instance_type, made.capacity_type, made.price) == ("small", "on-demand", 200_000_000)
    assert made.labels[labels.INSTANCE_TYPE] == "small"
    assert made.labels[labels.CAPACITY_TYPE] == "on-demand"
    assert made.labels[labels.ZONE] == made.zone
    assert made.labels[labels.REGION] == REGION
    assert made.image_id.startswith("ami-")
    assert calls == [(made.provider_id, "one")]
    assert log.records == [
        (
            "instance.started",
            {
                "instance": made.provider_id,
                "claim": "one",
                "instanceType": "small",
                "zone": made.zone,
                "capacityType": "on-demand",
                "price": 200_000_000,
                "volumes": 0,
                "estimated": False,
            },
        )
    ]


def test_on_real_types_a_launch_fits_and_carries_their_labels() -> None:
    async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> Instance:
        assert clock.now() == 0
        disk = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "1000Gi", "volumeType": "gp3"}}]
        cost = cloud.volume_price(node_class(blockDeviceMappings=disk))
        made = await cloud.create(
            claim(cpu="3", capacity_type=["spot", "on-demand"]), node_class(blockDeviceMappings=disk)
        )
        assert made.volumes == cost > 10 * cloud.volume_price(None) > 0
        return made

    made = play(scenario)
    (offered,) = [
        one.price
        for item in catalog.instance_types(REGION)
        if item.name == made.instance_type
        for one in item.offerings
        if (one.zone, one.capacity_type) == (made.zone, made.capacity_type)
    ]
    assert made.price == offered + made.volumes  # the cloud bills both
    assert made.capacity_type == "spot"
    assert made.allocatable["cpu"] >= 3000
    assert made.labels[labels.AWS + "instance-tenancy"] == "default"
    assert made.labels[labels.AWS + "instance-cpu"] == str(made.capacity["cpu"] // 1000)
    assert made.labels[labels.ZONE_ID].startswith("apne2-az")


def test_termination_takes_time_until_the_instance_is_not_found() -> None:
    log, calls = Log(), []

    async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> None:
        cloud.on_terminated(lambda instance: calls.append((instance.provider_id, clock.now())))
        instance = await cloud.create(claim(), node_class())
        asked = clock.now()
        tries = 0
        with pytest.raises(InstanceNotFound):
            while True:
                await cloud.delete(instance.provider_id)
                assert (await cloud.get(instance.provider_id)).terminating
                assert [one.terminating for one in await cloud.list()] == [True]
                tries += 1
                await clock.sleep(5 * SECOND)
        assert tries > 1
        assert await cloud.list() == []
        with pytest.raises(InstanceNotFound):
            await cloud.get(instance.provider_id)
        ((identifier, gone),) = calls
        assert identifier == instance.provider_id
        assert 20 * SECOND < gone - asked < 90 * SECOND

    play(scenario, log=log, **OWN)
    assert log.kinds() == ["instance.started", "instance.terminated"]


@pytest.mark.parametrize(
    ("conditions", "error"),
    [
        ([], CreateFailed),
        ([{"type": "Ready", "status": "Unknown"}], CreateFailed),
        ([{"type": "Ready", "status": "False", "message": "SubnetsReady=False"}], NodeClassNotReady),
    ],
)
def test_a_class_that_is_not_ready(conditions: list[dict[str, str]], error: type[Exception]) -> None:
    async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> None:
        with pytest.raises(error):
            await cloud.create(claim(), node_class(conditions=conditions))
        assert clock.now() == 0

    play(scenario, **OWN)


class TestShortage:
    """Capacity that runs out, and the three minutes for which that is remembered."""

    DRY = Limit(capacity_types=("on-demand",), instance_types=("small",))

    def test_dry_pools_are_passed_over_and_avoided_for_three_minutes(self) -> None:
        log = Log()

        async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> None:
            before = cloud.instance_types(None)
            assert cloud.instance_types(None) is before
            made = await cloud.create(claim(capacity_type=["on-demand"]), node_class())
            assert made.instance_type == "large"
            refused = clock.now()
            after = cloud.instance_types(None)
            assert after is not before
            assert cloud.instance_types(None) is after
            assert unavailable(after) == [("small", "on-demand", "a"), ("small", "on-demand", "b")]
            assert after[1] is before[1]
            await clock.sleep(refused + 3 * MINUTE - 1 - clock.now())
            assert cloud.instance_types(None) is after
            await clock.sleep(1)
            assert unavailable(cloud.instance_types(None)) == []

        play(scenario, log=log, limits=[self.DRY], **OWN)
        assert log.kinds() == ["instance.started"]

    def test_nothing_left_is_an_error_that_names_the_pools(self) -> None:
        log = Log()

        async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> None:
            wanted = claim(capacity_type=["on-demand"], instance_type=["small"])
            with pytest.raises(
                InsufficientCapacity, match=r"InsufficientInstanceCapacity: small in [ab] \(on-demand\)"
            ):
                await cloud.create(wanted, node_class())
            first = clock.now()
            with pytest.raises(InsufficientCapacity, match="all requested instance types were unavailable"):
                await cloud.create(wanted, node_class())
            assert clock.now() == first, "what is known to be unavailable is not asked for"
            assert await cloud.list() == []

        play(scenario, log=log, limits=[self.DRY], **OWN)
        assert [fields["reason"] for _, fields in log.records] == ["InsufficientInstanceCapacity"] * 2
        assert log.kinds() == ["instance.launchFailed"] * 2

    def test_a_pool_holds_as_many_as_its_limit_and_gives_room_back(self) -> None:
        async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> None:
            wanted = {"capacity_type": ["on-demand"], "instance_type": ["large"]}
            made = await cloud.create(claim("one", **wanted), node_class())
            with pytest.raises(InsufficientCapacity):
                await cloud.create(claim("two", **wanted), node_class())
            await cloud.delete(made.provider_id)
            await clock.sleep(3 * MINUTE)
            await cloud.create(claim("three", **wanted), node_class())

        play(scenario, limits=[Limit(capacity=1, instance_types=("large",))], **OWN)

    def test_a_window_opens_and_closes(self) -> None:
        async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> None:
            for name, at, works in (
                ("one", 0, True),
                ("two", 10 * MINUTE, False),
                ("three", 20 * MINUTE, True),
            ):
                await clock.sleep(at - clock.now())
                try:
                    await cloud.create(claim(name, zone=["b"]), node_class())
                except InsufficientCapacity:
                    assert not works
                else:
                    assert works

        play(scenario, limits=[Limit(since=9 * MINUTE, until=20 * MINUTE, zones=("b",))], **OWN)

    def test_spot_gives_way_to_on_demand_once_spot_refused(self) -> None:
        async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> None:
            wanted = {"capacity_type": ["spot", "on-demand"]}
            with pytest.raises(InsufficientCapacity):
                await cloud.create(claim("one", **wanted), node_class())
            made = await cloud.create(claim("two", **wanted), node_class())
            assert made.capacity_type == "on-demand"
            assert clock.now() > 0

        play(scenario, limits=[Limit(capacity_types=("spot",))], **OWN)

    def test_a_subnet_without_addresses(self) -> None:
        tags = {"karpenter.sh/discovery": "demo"}
        full = Account(REGION, "1.33", (Subnet("subnet-a", "a", "az1", tags, 1),), ())

        async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> None:
            wanted = {"zone": ["a"], "capacity_type": ["on-demand"]}
            await cloud.create(claim("one", **wanted), node_class())
            with pytest.raises(InsufficientCapacity, match="InsufficientFreeAddressesInSubnet"):
                await cloud.create(claim("two", **wanted), node_class())
            with pytest.raises(CreateFailed, match="no subnet in b"):
                await cloud.create(claim("three", zone=["b"]), node_class())
            assert clock.now() > 0

        play(scenario, types=(SMALL, LARGE), account=full)


def unavailable(types: tuple[InstanceType, ...]) -> list[tuple[str, str, str]]:
    """The offerings that are not to be had."""
    return [
        (item.name, one.capacity_type, one.zone)
        for item in types
        for one in item.offerings
        if not one.available
    ]


class TestDeterminism:
    """Luck is a function of the seed and the claim."""

    def launches(self, seed: int, names: list[str]) -> dict[str, str]:
        async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> dict[str, str]:
            made = {name: await cloud.create(claim(name), node_class()) for name in names}
            assert clock.now() > 0
            return {name: instance.provider_id for name, instance in made.items()}

        return play(scenario, seed=seed)

    def test_the_same_seed_gives_the_same_instances_in_any_order(self) -> None:
        assert self.launches(1, ["x", "y", "z"]) == self.launches(1, ["z", "x", "y"])

    def test_another_seed_gives_others(self) -> None:
        assert self.launches(1, ["x"]) != self.launches(2, ["x"])

    def test_a_second_call_for_one_claim_is_another_instance(self) -> None:
        async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> int:
            made = [await cloud.create(claim(), node_class()) for _ in range(3)]
            assert clock.now() > 0
            return len({instance.provider_id for instance in made})

        assert play(scenario) == 3


class TestClassesShapeTypes:
    """Which types a node class can have."""

    def test_types_are_sold_only_where_the_class_has_subnets(self) -> None:
        place = Account.usual(REGION, "demo")
        terms = [{"id": place.subnets[0].id}]

        async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> set[str]:
            assert clock.now() == 0
            types = cloud.instance_types(node_class(subnetSelectorTerms=terms))
            assert types is cloud.instance_types(node_class(subnetSelectorTerms=terms))
            return {one.zone for item in types for one in item.offerings}

        assert play(scenario, account=place) == {"ap-northeast-2a"}

    def test_a_class_whose_kubelet_block_cannot_be_read_has_no_types(self) -> None:
        async def scenario(cloud: SimulatedCloud, clock: VirtualClock) -> int:
            assert clock.now() == 0
            return len(cloud.instance_types(node_class(kubelet={"maxPods": "many"})))

        assert play(scenario) == 0
