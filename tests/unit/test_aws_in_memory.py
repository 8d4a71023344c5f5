"""How the AWS in memory allocates, runs short, throttles, shows things late and takes instances back."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.cloud.aws.api import CapacityReservation, FleetAnswer
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.fake import Account, MemoryAws, Options
from dovetail.cloud.aws.fake.gate import EC2_BUCKETS, GateOptions
from dovetail.cloud.aws.fake.machines import LifeOptions
from dovetail.cloud.aws.fake.market import Market, MarketOptions
from dovetail.cloud.aws.quota.quotas import family
from dovetail.cloud.eventbridge import parse
from dovetail.cloud.inmemory import Limit, Uniform
from dovetail.cloud.interruption import InterruptionKind
from dovetail.cloud.spot_market import STEP
from dovetail.model import labels
from dovetail.simulate.time.clock import VirtualClock, run_virtual

REGION = "us-east-1"
ACCOUNT = Account.usual(REGION, "demo")
A, B = (subnet.zone for subnet in ACCOUNT.subnets[:2])
START = 1_700_000_000 * SECOND
Body = Callable[[MemoryAws, VirtualClock], Awaitable[None]]


def within(body: Body, options: Options | None = None, account: Account = ACCOUNT) -> None:
    """Run the body with an account that has a launch template `t`."""

    async def whole(clock: VirtualClock) -> None:
        aws = MemoryAws(clock, 3, account, options)
        data = {"ImageId": account.images[0].id, "NetworkInterfaces": [{"DeviceIndex": 0}]}
        await aws.ec2.create_launch_template({"LaunchTemplateName": "t", "LaunchTemplateData": data})
        await body(aws, clock)

    run_virtual(whole, start=START)


def fleet(offers: dict[str, tuple[str, ...]], count: int = 1, **more: Any) -> dict[str, Any]:
    """CreateFleet: zones per type, in the first subnet of each."""
    subnets = {subnet.zone: subnet.id for subnet in ACCOUNT.subnets}
    overrides = [
        {"InstanceType": name, "SubnetId": subnets[zone], "AvailabilityZone": zone}
        for name, zones in offers.items()
        for zone in zones
    ]
    kind = more.pop("kind", "on-demand")
    reference = {"LaunchTemplateName": more.pop("template", "t"), "Version": "$Latest"}
    return {
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": reference, "Overrides": overrides}],
        "TargetCapacitySpecification": {"DefaultTargetCapacityType": kind, "TotalTargetCapacity": count},
        **more,
    }


def got(answer: FleetAnswer) -> Counter[tuple[str, str]]:
    """Instances per type and zone."""
    found: Counter[tuple[str, str]] = Counter()
    for given in answer.instances:
        found[given.instance_type, given.zone] += len(given.ids)
    return found


def codes(answer: FleetAnswer) -> dict[tuple[str, str], str]:
    return {(error.instance_type, error.zone): error.code for error in answer.errors}


def test_on_demand_takes_the_lowest_price_then_the_next() -> None:
    short = Options(market=MarketOptions(limits=(Limit(2, instance_types=("m5.large",), zones=(A,)),)))

    async def body(aws: MemoryAws, _: VirtualClock) -> None:
        answer = await aws.ec2.create_fleet(fleet({"c5.xlarge": (A, B), "m5.large": (A,)}, 3))
        assert got(answer)["m5.large", A] == 2
        assert answer.errors[0].code == "InsufficientInstanceCapacity"
        assert sum(got(answer).values()) == 3

    within(body, short)


def test_priorities_win_over_prices_where_the_strategy_says_so() -> None:
    async def body(aws: MemoryAws, _: VirtualClock) -> None:
        request = fleet({"c5.xlarge": (A,), "m5.large": (A,)})
        options = {"OnDemandOptions": {"AllocationStrategy": "prioritized"}}
        for item, priority in zip(request["LaunchTemplateConfigs"][0]["Overrides"], (0.1, 0.2), strict=True):
            item["Priority"] = priority
        assert got(await aws.ec2.create_fleet({**request, **options})) == {("c5.xlarge", A): 1}

    within(body)


def test_spot_weighs_price_and_depth() -> None:
    async def body(aws: MemoryAws, clock: VirtualClock) -> None:
        options = {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}}
        offers = dict.fromkeys(("m5.large", "m5a.large", "m6i.large", "c5.large", "r5.large"), (A, B))
        answer = await aws.ec2.create_fleet(fleet(offers, kind="spot", **options))
        ((name, zone),) = got(answer)
        depths = {
            (kind, place): aws.market.depth(("spot", kind, place), clock.now())
            for kind, places in offers.items()
            for place in places
        }
        deep = [pool for pool, depth in depths.items() if 2 * depth >= max(depths.values())]
        prices = {pool: aws.market.price(("spot", *pool), clock.now()) for pool in deep}
        assert (name, zone) in deep and prices[name, zone] == min(prices.values())

    within(body)


def test_every_reason_to_refuse() -> None:
    reserved = CapacityReservation(
        "cr-1", "m5.large", A, "use1-az1", "123456789012", "default", "active", 1, 1, "targeted"
    )
    account = replace(
        ACCOUNT,
        subnets=(replace(ACCOUNT.subnets[0], free_addresses=1), *ACCOUNT.subnets[1:]),
        reservations=(reserved,),
    )
    quotas = {("on-demand", "standard"): 8, ("spot", "standard"): 0}

    async def body(aws: MemoryAws, _: VirtualClock) -> None:
        ec2 = aws.ec2
        assert codes(await ec2.create_fleet(fleet({"m5.large": (A,)}, 2))) == {
            ("m5.large", A): "InsufficientFreeAddressesInSubnet"
        }
        assert codes(await ec2.create_fleet(fleet({"m5.4xlarge": (B,)}))) == {
            ("m5.4xlarge", B): "VcpuLimitExceeded"
        }
        assert codes(await ec2.create_fleet(fleet({"m5.large": (B,)}, kind="spot"))) == {
            ("m5.large", B): "MaxSpotInstanceCountExceeded"
        }
        assert codes(await ec2.create_fleet(fleet({"mac1.metal": (B,)}))) == {
            ("mac1.metal", B): "Unsupported"
        }
        assert codes(await ec2.create_fleet(fleet({"m5.large": (B,)}, template="none"))) == {
            ("m5.large", B): "InvalidLaunchTemplateName.NotFoundException"
        }
        wanted = {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}}
        data = {"ImageId": "ami-1", "CapacityReservationSpecification": wanted}
        await ec2.create_launch_template({"LaunchTemplateName": "r", "LaunchTemplateData": data})
        answer = await ec2.create_fleet(fleet({"m5.large": (B,)}, 2, template="r"))
        assert got(answer) == {("m5.large", B): 1}
        assert codes(answer) == {("m5.large", B): "ReservationCapacityExceeded"}
        (found,) = await ec2.describe_capacity_reservations([])
        assert (found.total, found.left) == (1, 0)

    within(body, Options(market=MarketOptions(quotas=quotas)), account)


def test_a_delegated_prefix_takes_sixteen_addresses() -> None:
    async def body(aws: MemoryAws, _: VirtualClock) -> None:
        data = {"ImageId": "ami-1", "NetworkInterfaces": [{"DeviceIndex": 0, "Ipv4PrefixCount": 2}]}
        await aws.ec2.create_launch_template({"LaunchTemplateName": "p", "LaunchTemplateData": data})
        before = {item.zone: item.free_addresses for item in await aws.ec2.describe_subnets([])}
        await aws.ec2.create_fleet(fleet({"m5.large": (A,)}, template="p"))
        after = {item.zone: item.free_addresses for item in await aws.ec2.describe_subnets([])}
        assert before[A] - after[A] == 33 and before[B] == after[B]

    within(body)


def test_a_token_again_is_the_same_fleet() -> None:
    async def body(aws: MemoryAws, clock: VirtualClock) -> None:
        request = fleet({"m5.large": (A,)}, 2)
        first = await aws.ec2.create_fleet(request, token="token")
        assert await aws.ec2.create_fleet(request, token="token") == first
        await clock.sleep(MINUTE)
        assert len(await aws.ec2.describe_instances()) == 2
        with pytest.raises(AwsError) as raised:
            await aws.ec2.create_fleet(fleet({"m5.large": (A,)}, 3), token="token")
        assert raised.value.code == "IdempotentParameterMismatch"

    within(body)


def test_launches_and_tags_show_late_and_the_dead_are_remembered() -> None:
    late = Uniform(2 * SECOND, 2 * SECOND)

    async def body(aws: MemoryAws, clock: VirtualClock) -> None:
        answer = await aws.ec2.create_fleet(fleet({"m5.large": (A,)}))
        (one,) = answer.instances[0].ids
        assert not await aws.ec2.describe_instances()
        with pytest.raises(AwsError) as raised:
            await aws.ec2.create_tags([one], {"Name": "early"})
        assert raised.value.refusal is Refusal.NOT_FOUND
        await clock.sleep(2 * SECOND)
        (found,) = await aws.ec2.describe_instances()
        assert found.state == "pending"
        await aws.ec2.create_tags([one], {"Name": "node"})
        assert "Name" not in (await aws.ec2.describe_instances())[0].tags
        await clock.sleep(20 * SECOND)
        (found,) = await aws.ec2.describe_instances()
        assert found.state == "running" and found.tags["Name"] == "node"
        await aws.ec2.terminate_instances([one])
        assert (await aws.ec2.describe_instances())[0].state == "shutting-down"
        await clock.sleep(5 * MINUTE)
        assert (await aws.ec2.describe_instances())[0].state == "terminated"
        await clock.sleep(HOUR)
        assert not await aws.ec2.describe_instances()

    within(body, Options(life=LifeOptions(settles=late)))


def test_token_buckets_and_rights() -> None:
    gate = GateOptions(denied=frozenset({"ec2:CreateFleet"}), buckets=EC2_BUCKETS)

    async def body(aws: MemoryAws, clock: VirtualClock) -> None:
        with pytest.raises(AwsError) as raised:
            await aws.ec2.create_fleet(fleet({"m5.large": (A,)}), dry_run=True)
        assert raised.value.refusal is Refusal.UNAUTHORIZED
        for _ in range(100):
            await aws.ec2.describe_subnets([])
        with pytest.raises(AwsError) as throttled:
            await aws.ec2.describe_subnets([])
        assert throttled.value.refusal is Refusal.THROTTLED
        await clock.sleep(SECOND)
        for _ in range(20):
            await aws.ec2.describe_subnets([])
        assert aws.gate.calls["ec2:DescribeSubnets"] == 121

    within(body, Options(gate=gate))


def test_spot_is_taken_back_after_a_warning() -> None:
    async def body(aws: MemoryAws, clock: VirtualClock) -> None:
        answer = await aws.ec2.create_fleet(fleet({"m5.large": (A,)}, kind="spot"))
        (one,) = answer.instances[0].ids
        await clock.sleep(MINUTE)
        await aws.interrupt(one, InterruptionKind.SPOT)
        url = await aws.sqs.get_queue_url("demo")
        (letter,) = await aws.sqs.receive(url)
        assert parse(letter.body).instances == (one,) and clock.now() - letter.sent == 2 * MINUTE
        (found,) = await aws.ec2.describe_instances()
        assert (found.state, found.state_reason) == ("terminated", "Server.SpotInstanceTermination")

    within(body)


def test_pools_that_become_shallow_name_the_youngest() -> None:
    async def body(aws: MemoryAws, clock: VirtualClock) -> None:
        def depth(name: str, later: int) -> int:
            return aws.market.depth((labels.SPOT, name, A), clock.now() + later)

        names = ("m5.24xlarge", "c5.24xlarge", "r5.24xlarge", "m6i.24xlarge", "c6i.24xlarge", "r6i.24xlarge")
        name = next(name for name in names if 1 < depth(name, STEP) < depth(name, 0))
        before = depth(name, 0)
        first = await aws.ec2.create_fleet(fleet({name: (A,)}, before - 1, kind="spot"))
        second = await aws.ec2.create_fleet(fleet({name: (A,)}, kind="spot"))
        assert not aws.shallow()
        await clock.sleep(STEP)
        taken = [machine.instance.id for machine in aws.shallow()]
        assert len(taken) == before - depth(name, 0) and taken[:1] == [*second.instances[0].ids]
        aws.impair(first.instances[0].ids[0], "system_status")
        (check,) = await aws.ec2.describe_instance_status()
        assert check.category == "system_status"

    within(body)


def test_a_shortage_takes_nothing_back() -> None:
    limits = (Limit(0, since=START + HOUR, instance_types=("m5.large",)),)

    async def body(aws: MemoryAws, clock: VirtualClock) -> None:
        await aws.ec2.create_fleet(fleet({"m5.large": (A,)}, kind="spot"))
        await clock.sleep(2 * HOUR)
        refused = await aws.ec2.create_fleet(fleet({"m5.large": (A,)}, kind="spot"))
        assert not refused.instances and not aws.shallow()

    within(body, Options(market=MarketOptions(limits=limits)))


def test_spot_prices_move_slowly_and_stay_below_the_list_price() -> None:
    market = Market(REGION, 3, MarketOptions())
    pool = ("spot", "m5.large", A)
    day = [market.price(pool, START + hour * HOUR) for hour in range(24 * 7)]
    assert len(set(day)) > 20 and max(day) < market.on_demand["m5.large"]
    assert all(abs(after - before) / before < 0.06 for before, after in itertools.pairwise(day))
    depths = {market.depth(pool, START + step * STEP) for step in range(20)}
    assert len(depths) > 10 and min(depths) > 0


def test_quota_families() -> None:
    found = {
        name: family(name)
        for name in ("m5.large", "g5.xlarge", "p4d.24xlarge", "inf2.xlarge", "trn1.2xlarge", "x2idn.32xlarge")
    }
    assert list(found.values()) == ["standard", "g", "p", "inf", "trn", "x"]
    assert family("hpc7g.4xlarge") == "hpc" and family("u-6tb1.metal") == "u"
