"""The provider for AWS on the AWS in memory: launches and what they teach, ends, how few calls it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.errors import (
    CloudError,
    CreateFailed,
    InstanceNotFound,
    InsufficientCapacity,
    NodeClassNotReady,
    RebootRefused,
)
from dovetail.cloud.aws import metrics as figures
from dovetail.cloud.aws.api import CapacityReservation, FleetAnswer, PlacementGroup
from dovetail.cloud.aws.cluster import Around, ClusterSettings
from dovetail.cloud.aws.errors import UNREACHABLE, AwsError
from dovetail.cloud.aws.fake import Account, MemoryAws, Options
from dovetail.cloud.aws.fake.gate import EC2_BUCKETS, Bucket, GateOptions
from dovetail.cloud.aws.fake.market import MarketOptions
from dovetail.cloud.aws.instance import launcher
from dovetail.cloud.aws.instance.fleet_errors import NO_SPOT_ROLE, FleetError
from dovetail.cloud.aws.launchtemplate.template import Document
from dovetail.cloud.aws.provider import AwsCloud
from dovetail.cloud.aws.provider import Options as CloudOptions
from dovetail.cloud.aws.sqs import SqsQueue
from dovetail.cloud.aws.zonalshift import Shifts
from dovetail.cloud.choice import SpotRange
from dovetail.cloud.inmemory import Limit
from dovetail.cloud.interruption import InterruptionKind
from dovetail.cloud.provider import Instance
from dovetail.model import labels
from dovetail.model.repair import REBOOT
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from tests.unit.karpenters_policy import BEYOND

REGION, CLUSTER = "us-east-1", "demo"
USUAL = Account.usual(REGION, CLUSTER)
A = USUAL.subnets[0].zone
START = 1_772_409_600 * SECOND
READY = [{"type": "Ready", "status": "True"}]


class Log:
    """Keeps the kinds of records."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def record(self, kind: str, /, **_: object) -> None:
        """Keep it."""
        self.kinds.append(kind)


def node_class(status: list[dict[str, str]] = READY, **spec: Any) -> EC2NodeClass:
    terms = [{"tags": {"karpenter.sh/discovery": CLUSTER}}]
    document = {
        "metadata": {"name": "default", "uid": "class-1"},
        "spec": {
            "role": f"KarpenterNodeRole-{CLUSTER}",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
            "tags": {"team": "infra"},
            **spec,
        },
        "status": {"conditions": status},
    }
    return decode(document, EC2NodeClass)


def claim(name: str = "one", **wanted: list[str]) -> NodeClaim:
    """Of the pool `general`, for m5.large on demand unless set otherwise."""
    keys = {"types": labels.INSTANCE_TYPE, "how": labels.CAPACITY_TYPE, "zones": labels.ZONE}
    values = {"types": ["m5.large"], "how": ["on-demand"], **wanted}
    requirements = [{"key": keys[key], "operator": "In", "values": found} for key, found in values.items()]
    document = {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"karpenter.sh/nodepool": "general"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": requirements,
            "resources": {"requests": {"cpu": "1"}},
        },
    }
    return decode(document, NodeClaim)


def labelled(given: NodeClaim, **more: str) -> NodeClaim:
    """The claim with more labels."""
    meta = msgspec.structs.replace(given.metadata, labels={**given.metadata.labels, **more})
    return msgspec.structs.replace(given, metadata=meta)


def adopted(given: NodeClaim, instance: Instance) -> NodeClaim:
    """The claim once its status says what was launched."""
    document = {
        "metadata": {
            "name": given.metadata.name,
            "labels": instance.labels,
            "annotations": instance.annotations,
        },
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        "status": {"providerID": instance.provider_id},
    }
    return decode(document, NodeClaim)


@dataclass
class World:
    """An account and the provider on it."""

    clock: VirtualClock
    aws: MemoryAws
    cloud: AwsCloud
    log: Log

    def again(self) -> AwsCloud:
        """The provider of another process."""
        return provider(self.aws, self.clock, self.log)

    async def launch(self, *claims: NodeClaim) -> list[Instance | BaseException]:
        """All at once."""
        return await asyncio.gather(
            *(self.cloud.create(item, node_class()) for item in claims), return_exceptions=True
        )


def provider(
    aws: MemoryAws,
    clock: VirtualClock,
    log: Log,
    metrics: MemoryMetrics | None = None,
    spot: SpotRange | None = None,
    *,
    reboots: bool = False,
) -> AwsCloud:
    async def version() -> str:
        return "1.33"

    async def dns_ip() -> str:
        return "10.100.0.10"

    around = Around(aws.eks, clock, REGION, ClusterSettings(CLUSTER), version=version, dns_ip=dns_ip)
    return AwsCloud(aws, clock, log, around, CloudOptions(CLUSTER, spot=spot, reboots=reboots), metrics)


def play(
    body: Callable[[World], Awaitable[None]],
    options: Options | None = None,
    account: Account = USUAL,
    spot: SpotRange | None = None,
) -> None:
    async def whole(clock: VirtualClock) -> None:
        aws, log = MemoryAws(clock, 5, account, options), Log()
        cloud = provider(aws, clock, log, spot=spot)
        await cloud.start()
        await cloud.classes.resolve(node_class())
        aws.gate.calls.clear()
        await body(World(clock, aws, cloud, log))

    run_virtual(whole, start=START)


def short(count: int, **limit: Any) -> Options:
    return Options(market=MarketOptions(limits=(Limit(count, **limit),)))


def test_a_launch_and_what_it_is_tagged_with() -> None:
    async def body(world: World) -> None:
        made = await world.cloud.create(claim(zones=[A]), node_class())
        assert (made.instance_type, made.zone, made.capacity_type) == ("m5.large", A, "on-demand")
        assert made.price - made.volumes == 96_000_000 and made.volumes > 0
        assert made.labels[labels.ZONE] == A and made.labels[labels.REGION] == REGION
        assert made.claim == "one" and made.annotations[labels.NODECLASS_HASH]
        assert made.annotations[labels.INSTANCE_PROFILE].startswith(f"{CLUSTER}_")
        await world.clock.sleep(10 * SECOND)
        (found,) = await world.aws.ec2.describe_instances()
        assert made.provider_id == f"aws:///{A}/{found.id}"
        own = {key: value for key, value in found.tags.items() if not key.startswith("aws:")}
        assert own == {
            "team": "infra",
            f"kubernetes.io/cluster/{CLUSTER}": "owned",
            "karpenter.sh/nodepool": "general",
            "karpenter.k8s.aws/ec2nodeclass": "default",
            "eks:eks-cluster-name": CLUSTER,
        }
        assert made.image_id == found.image and found.profile.startswith(f"{CLUSTER}_")
        assert [item.provider_id for item in await world.cloud.list()] == [made.provider_id]
        assert await world.cloud.get(made.provider_id) == made
        assert world.log.kinds == ["instance.started"]

    play(body)


def test_equal_launches_are_one_call() -> None:
    async def body(world: World) -> None:
        made = await world.launch(*(claim(f"c-{number}") for number in range(40)))
        assert len({item.provider_id for item in made if isinstance(item, Instance)}) == 40
        calls = world.aws.gate.calls
        assert calls["ec2:CreateFleet"] == 1
        assert calls["ec2:CreateLaunchTemplate"] == 1
        assert sum(calls.values()) <= 5, calls

    play(body)


def test_what_a_fleet_lacks_the_later_claims_lack() -> None:
    async def body(world: World) -> None:
        made = await world.launch(*(claim(f"c-{number}", zones=[A]) for number in range(5)))
        assert [isinstance(item, Instance) for item in made] == [True] * 3 + [False] * 2
        assert isinstance(made[4], InsufficientCapacity)
        assert "InsufficientInstanceCapacity" in str(made[4])
        types = {item.name: item for item in world.cloud.instance_types(node_class())}
        (offering,) = [
            one for one in types["m5.large"].offerings if one.zone == A and one.capacity_type == "on-demand"
        ]
        assert not offering.available
        calls = world.aws.gate.calls["ec2:CreateFleet"]
        with pytest.raises(InsufficientCapacity, match="all requested instance types were unavailable"):
            await world.cloud.create(claim("later", zones=[A]), node_class())
        assert world.aws.gate.calls["ec2:CreateFleet"] == calls
        await world.clock.sleep(3 * MINUTE)
        types = {item.name: item for item in world.cloud.instance_types(node_class())}
        assert all(one.available for one in types["m5.large"].offerings)

    play(body, short(3, instance_types=("m5.large",), zones=(A,)))


def test_it_falls_back_to_what_there_is() -> None:
    async def body(world: World) -> None:
        made = await world.cloud.create(claim(types=["m5.large", "m5a.large"], zones=[A]), node_class())
        assert made.instance_type == "m5.large"
        spot = await world.cloud.create(claim("two", how=["spot", "on-demand"], zones=[A]), node_class())
        assert spot.capacity_type == "spot" and spot.price < made.price

    play(body, short(0, instance_types=("m5a.large",), zones=(A,)))


def test_on_demand_for_want_of_spot_with_few_types_is_said() -> None:
    async def body(world: World) -> None:
        types = ["m5.large", "m5a.large"]
        either = claim("either", how=["spot", "on-demand"], types=types, zones=[A])
        with pytest.raises(InsufficientCapacity):
            await world.cloud.create(either, node_class())
        world.log.kinds.clear()
        made = await world.cloud.create(either, node_class())
        assert made.capacity_type == "on-demand"
        assert world.log.kinds == ["launch.fewTypes", "instance.started"]
        await world.cloud.create(claim("only", how=["on-demand"], types=types, zones=[A]), node_class())
        assert world.log.kinds == ["launch.fewTypes", "instance.started", "instance.started"]

    play(body, short(0, capacity_types=("spot",)))


class Unreliable:
    """Answers of CreateFleet that get lost after the fleet was launched."""

    def __init__(self, world: World, lost: int, code: str = UNREACHABLE) -> None:
        self._real = world.aws.ec2.create_fleet
        self._lost = lost
        self._code = code
        world.aws.ec2.create_fleet = self  # type: ignore[method-assign,assignment]  # one bad connection

    async def __call__(self, request: Document, *, token: str = "", dry_run: bool = False) -> FleetAnswer:
        answer = await self._real(request, token=token, dry_run=dry_run)
        if self._lost:
            self._lost -= 1
            raise AwsError("CreateFleet", self._code, "no answer")
        return answer


@pytest.mark.parametrize(("lost", "tries"), [(2, 1), (3, 2), (7, 3)])
def test_a_call_that_is_not_answered_launches_nothing_twice(lost: int, tries: int) -> None:
    async def body(world: World) -> None:
        Unreliable(world, lost)
        claims = [claim("one"), claim("two")]
        for _ in range(tries - 1):
            for outcome in await world.launch(*claims):
                assert isinstance(outcome, CreateFailed) and outcome.reason == UNREACHABLE
        made = await world.launch(*claims)
        await world.clock.sleep(MINUTE)
        assert len({item.provider_id for item in made if isinstance(item, Instance)}) == 2
        assert len(await world.aws.ec2.describe_instances()) == 2

    play(body)


@pytest.mark.parametrize("refused", ["RequestLimitExceeded", "RequestExpired", "InternalError"])
def test_a_call_that_was_done_and_then_refused_launches_nothing_twice(refused: str) -> None:
    """The answer is lost, EC2 is too busy to repeat it, and the claim comes back later."""

    async def body(world: World) -> None:
        real, codes = world.aws.ec2.create_fleet, [UNREACHABLE, refused, refused]

        async def unwilling(request: Document, *, token: str = "", dry_run: bool = False) -> FleetAnswer:
            code = codes.pop(0) if codes else ""
            answer = FleetAnswer("")
            if code in ("", UNREACHABLE):
                answer = await real(request, token=token, dry_run=dry_run)
            if code:
                raise AwsError("CreateFleet", code, "no")
            return answer

        world.aws.ec2.create_fleet = unwilling  # type: ignore[method-assign]  # one bad minute
        (outcome,) = await world.launch(claim("one"))
        assert isinstance(outcome, CreateFailed) and outcome.reason == refused
        await world.clock.sleep(MINUTE)
        codes.clear()
        made = await world.launch(claim("one"), claim("two"))
        assert len({item.provider_id for item in made if isinstance(item, Instance)}) == 2
        await world.clock.sleep(MINUTE)
        assert len(await world.aws.ec2.describe_instances()) == 2

    play(body)


def nothing() -> frozenset[str]:
    return frozenset()


@pytest.mark.parametrize("written", [False, True])
def test_what_another_process_launched_and_could_not_write_down_is_launched_once(written: bool) -> None:
    async def body(world: World) -> None:
        claims = [claim("one"), claim("two"), claim("three")]
        made = [item for item in await world.launch(*claims) if isinstance(item, Instance)]
        await world.clock.sleep(20 * SECOND)
        other = world.again()
        await other.machines.recover_orphans(lambda: {made[0].provider_id})
        orphans = {made[1].provider_id, made[2].provider_id}
        assert other.machines.orphans() == orphans
        # The labels of what was bought may have been written before the process died.
        again = [labelled(item, **made[1].labels) if written else item for item in claims[1:]]
        found = await asyncio.gather(*(other.create(item, node_class()) for item in again))
        assert {item.provider_id for item in found} == orphans
        assert [item.claim for item in found] == ["two", "three"]
        assert not other.machines.orphans()
        await other.create(claim("four"), node_class())
        assert len(list(world.aws.machines.running())) == 4

    play(body)


@pytest.mark.parametrize(
    "wanted", [claim("other", how=["spot"]), labelled(claim("other"), **{"example.com/team": "a"})]
)
def test_an_instance_that_a_launch_would_not_give_is_left(wanted: NodeClaim) -> None:
    async def body(world: World) -> None:
        made = await world.cloud.create(claim("one"), node_class())
        await world.clock.sleep(20 * SECOND)
        other = world.again()
        await other.machines.recover_orphans(nothing)
        assert (await other.create(wanted, node_class())).provider_id != made.provider_id
        assert other.machines.orphans() == {made.provider_id}
        await world.clock.sleep(3 * MINUTE)
        assert not other.machines.orphans()

    play(body)


def test_an_instance_that_its_claim_got_after_all_is_not_taken() -> None:
    async def body(world: World) -> None:
        made = await world.cloud.create(claim("one"), node_class())
        await world.clock.sleep(3 * SECOND)
        owned: set[str] = set()
        other = world.again()
        await other.machines.recover_orphans(lambda: owned)
        second = asyncio.get_running_loop().create_task(other.create(claim("two"), node_class()))
        await world.clock.sleep(SECOND)
        assert not second.done()
        owned.add(made.provider_id)  # an earlier leader has written it down in the meantime
        assert (await second).provider_id != made.provider_id

    play(body)


def test_an_instance_that_does_not_show_yet_is_ended_by_another_process() -> None:
    async def body(world: World) -> None:
        made = await world.cloud.create(claim("one"), node_class())
        other = world.again()
        (machine,) = world.aws.machines.running()
        world.aws.machines.late(machine, 10 * MINUTE)
        await other.delete(made.provider_id)
        assert machine.ending
        await world.clock.sleep(2 * MINUTE)
        with pytest.raises(InstanceNotFound):
            await other.delete("aws:///us-east-1a/i-0123456789abcdef0")
        world.aws.machines.late(machine, -10 * MINUTE)
        with pytest.raises(InstanceNotFound):
            await other.delete(made.provider_id)

    play(body)


def test_what_aws_did_not_answer_at_the_start_is_asked_for_again() -> None:
    async def body(world: World) -> None:
        world.aws.gate.options = GateOptions(denied=frozenset({"ec2:DescribeSpotPriceHistory"}))
        cloud = world.again()
        await cloud.start()
        running = asyncio.create_task(cloud.run())
        await world.clock.sleep(15 * MINUTE)
        world.aws.gate.options = GateOptions()
        world.aws.gate.calls.clear()
        await world.clock.sleep(30 * MINUTE)
        assert world.aws.gate.calls["ec2:DescribeSpotPriceHistory"] == 1
        assert world.aws.gate.calls["ec2:DescribeInstanceTypes"] == 0
        spot = [one for item in cloud.instance_types(node_class()) for one in item.offerings]
        assert not any(one.estimated for one in spot if one.capacity_type == "spot")
        running.cancel()

    play(body)


def test_user_data_that_is_nearly_too_large_is_logged_once() -> None:
    async def body(world: World) -> None:
        large = node_class(userData="#!/bin/bash\n" + "x" * 14_500)
        for name in ("one", "two"):
            await world.cloud.create(claim(name), large)
        assert world.log.kinds == ["class.largeUserData", "instance.started", "instance.started"]

    play(body)


def test_under_karpenters_policy_nodes_come_and_go() -> None:
    async def body(world: World) -> None:
        assert not world.log.kinds
        subnets = {item.zone: item.zone_id for item in world.aws.ec2.account.subnets}
        made = await world.cloud.create(claim(), node_class())
        assert made.labels[labels.ZONE_ID] == subnets[made.zone]
        await world.clock.sleep(10 * SECOND)
        own = adopted(claim(), made)
        assert await world.cloud.machines.mark(own, "node-1")
        assert await world.cloud.drifted(own, node_class()) == ""
        await world.cloud.delete(made.provider_id)
        await world.clock.sleep(2 * MINUTE)
        with pytest.raises(InstanceNotFound):
            await world.cloud.get(made.provider_id)
        await world.cloud.classes.tidy(frozenset())
        await world.cloud.classes.release(node_class())
        assert world.log.kinds == ["instance.started"]

    account = replace(
        USUAL, subnets=tuple(replace(item, zone_id=f"mine-{item.zone[-1]}") for item in USUAL.subnets)
    )
    play(body, Options(gate=GateOptions(denied=frozenset(BEYOND))), account)


def test_a_launch_template_whose_end_is_refused_is_not_forgotten() -> None:
    async def body(world: World) -> None:
        await world.cloud.create(claim("one"), node_class())
        running = asyncio.create_task(world.cloud.run())
        world.aws.gate.options = GateOptions(denied=frozenset({"ec2:DeleteLaunchTemplate"}))
        await world.clock.sleep(2 * HOUR)
        assert await world.aws.ec2.describe_launch_templates([])
        world.aws.gate.options = GateOptions()
        await world.clock.sleep(15 * MINUTE)
        assert not await world.aws.ec2.describe_launch_templates([])
        running.cancel()

    play(body)


def test_throttled_calls_are_made_again() -> None:
    async def body(world: World) -> None:
        world.aws.gate.options = GateOptions(buckets={"ec2:CreateFleet": Bucket(1, 0.5)})
        first = await world.cloud.create(claim("one"), node_class())
        second = await world.cloud.create(claim("two"), node_class())
        assert first.provider_id != second.provider_id

    play(body)


def test_as_many_kinds_of_launches_as_ec2s_usual_buckets_hold_go_out_at_once() -> None:
    async def body(world: World) -> None:
        world.aws.gate.options = GateOptions(buckets=EC2_BUCKETS)
        kinds = EC2_BUCKETS["ec2:"].size
        begun = world.clock.now()
        made = await world.launch(
            *(
                labelled(claim(f"c-{one}"), **{"example.com/kind": str(one % kinds)})
                for one in range(2 * kinds)
            )
        )
        assert all(isinstance(item, Instance) for item in made)
        assert world.aws.gate.calls["ec2:CreateFleet"] == kinds
        assert world.clock.now() - begun < SECOND

    play(body)


def test_launch_templates_that_vanished_are_made_again() -> None:
    async def body(world: World) -> None:
        await world.cloud.create(claim("one"), node_class())
        (template,) = await world.aws.ec2.describe_launch_templates([])
        await world.aws.ec2.delete_launch_template(template.name)
        await world.cloud.create(claim("two"), node_class())
        assert [item.name for item in await world.aws.ec2.describe_launch_templates([])] == [template.name]

    play(body)


def test_launches_share_a_template_until_something_that_is_in_it_changes() -> None:
    async def body(world: World) -> None:
        async def templates() -> int:
            return len(await world.aws.ec2.describe_launch_templates([]))

        for name in ("one", "two"):
            await world.cloud.create(claim(name), node_class())
        assert await templates() == 1
        await world.cloud.create(claim("three"), node_class(tags={"team": "web"}))
        assert await templates() == 2
        await world.cloud.create(labelled(claim("four"), tier="front"), node_class())  # kubelets get labels
        assert await templates() == 3
        await world.cloud.create(claim("five"), node_class())
        assert await templates() == 3

    play(body)


def test_a_launch_template_that_could_not_be_made_is_not_looked_for_again() -> None:
    async def body(world: World) -> None:
        usual = world.aws.gate.options
        world.aws.gate.options = replace(usual, denied=frozenset({"ec2:CreateLaunchTemplate"}))
        for name in ("one", "two"):
            with pytest.raises(CreateFailed):
                await world.cloud.create(claim(name), node_class())
        world.aws.gate.options = usual
        await world.cloud.create(claim("three"), node_class())
        assert world.aws.gate.calls["ec2:DescribeLaunchTemplates"] == 1
        assert world.aws.gate.calls["ec2:CreateLaunchTemplate"] == 3

    play(body)


def test_launch_templates_that_are_not_needed_go() -> None:
    async def body(world: World) -> None:
        await world.cloud.create(claim("one"), node_class())
        cloud = world.again()
        running = asyncio.create_task(cloud.run())
        await world.clock.sleep(50 * MINUTE)
        assert await world.aws.ec2.describe_launch_templates([])
        await world.clock.sleep(50 * MINUTE)
        assert not await world.aws.ec2.describe_launch_templates([])
        running.cancel()

    play(body)


def test_of_claims_that_spot_was_refused_to_the_latest_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "_UNTOLD", 1)

    async def body(world: World) -> None:
        async def refuse(request: Document, *, token: str = "", dry_run: bool = False) -> FleetAnswer:
            assert token and not dry_run and request["Type"] == "instant"
            return FleetAnswer("fleet-1", (), (FleetError(NO_SPOT_ROLE, "no role", "spot", "m5.large", A),))

        world.aws.ec2.create_fleet = refuse  # type: ignore[method-assign]  # EC2 without a role
        wanted = [claim(name, how=["spot"]) for name in ("one", "two")]
        assert all(isinstance(one, InsufficientCapacity) for one in await world.launch(*wanted))
        assert [world.cloud.supply.lacks_spot_role(one) for one in wanted] == [False, True]

    play(body)


def test_without_the_role_for_spot_no_type_has_spot() -> None:
    async def body(world: World) -> None:
        async def refuse(request: Document, *, token: str = "", dry_run: bool = False) -> FleetAnswer:
            assert token and not dry_run and request["Type"] == "instant"
            error = FleetError(NO_SPOT_ROLE, "no role", "spot", "m5.large", A)
            return FleetAnswer("fleet-1", (), (error,))

        world.aws.ec2.create_fleet = refuse  # type: ignore[method-assign]  # EC2 without a role
        with pytest.raises(InsufficientCapacity):
            await world.cloud.create(claim(how=["spot"]), node_class())
        offered = [one for kind in world.cloud.instance_types(node_class()) for one in kind.offerings]
        assert {one.capacity_type for one in offered if one.available} == {"on-demand"}
        assert world.cloud.supply.lacks_spot_role(claim())
        assert not world.cloud.supply.lacks_spot_role(claim())  # it was told

    play(body)


def test_a_cluster_that_takes_no_part_in_zonal_shift_has_no_zone_to_leave() -> None:
    async def body(world: World) -> None:
        async def refuse(_: str) -> Sequence[str]:
            raise AwsError("GetManagedResource", "AccessDeniedException", "not a managed resource")

        world.aws.zonal_shift.shifted = refuse  # type: ignore[method-assign]  # as ARC says it
        await Shifts(world.aws, CLUSTER).refresh()

    play(body)


def test_classes_that_are_not_ready_launch_nothing() -> None:
    async def body(world: World) -> None:
        with pytest.raises(NodeClassNotReady):
            await world.cloud.create(claim(), node_class([{"type": "Ready", "status": "False"}]))
        with pytest.raises(CreateFailed):
            await world.cloud.create(claim(), node_class([]))
        world.aws.gate.options = GateOptions(denied=frozenset({"ec2:CreateFleet"}))
        with pytest.raises(CreateFailed) as raised:
            await world.cloud.create(claim(), node_class())
        assert raised.value.reason == "UnauthorizedOperation"
        with pytest.raises(CreateFailed) as raised:
            await world.cloud.create(claim(), node_class(userData="[[[", amiFamily="Bottlerocket"))
        assert raised.value.reason == "LaunchTemplateInvalid"

    play(body)


@pytest.mark.parametrize("reboots", [False, True])
def test_a_gate_says_whether_a_reset_of_a_device_is_a_reboot(*, reboots: bool) -> None:
    async def body(world: World) -> None:
        cloud = provider(world.aws, world.clock, world.log, reboots=reboots)
        found = [one.reason for one in cloud.repair_policies.current if one.action == REBOOT]
        assert [reason.startswith("XID(46|") for reason in found] == [True] * reboots

    play(body)


def test_a_reboot_is_asked_for_what_is_there_and_in_a_zone_that_is_in_use() -> None:
    async def body(world: World) -> None:
        reboot, rebooted = world.cloud.machines.reboot, []
        world.aws.machines.on_rebooted.append(lambda instance: rebooted.append(instance.id))
        (made,) = await world.launch(claim("c", zones=[A]))
        assert isinstance(made, Instance)
        await world.clock.sleep(MINUTE)
        await reboot(made.provider_id, "1")
        assert rebooted == [made.provider_id.rpartition("/")[2]]
        with pytest.raises(InstanceNotFound):
            await reboot(f"aws:///{A}/i-00000000000000000", "1")
        world.aws.gate.options = GateOptions(denied=frozenset({"ec2:RebootInstances"}))
        with pytest.raises(RebootRefused, match="UnauthorizedOperation"):
            await reboot(made.provider_id, "1")
        world.aws.gate.options = GateOptions(buckets={"ec2:RebootInstances": Bucket(0, 0)})
        with pytest.raises(AwsError):
            await reboot(made.provider_id, "1")
        world.aws.gate.options = GateOptions()
        world.aws.zonal_shift.away = {USUAL.subnets[0].zone_id}
        await world.cloud._shifts.refresh()
        with pytest.raises(RebootRefused, match="shifted away"):
            await reboot(made.provider_id, "1")
        world.aws.zonal_shift.away = set()
        await world.cloud._shifts.refresh()
        await world.cloud.delete(made.provider_id)
        with pytest.raises(InstanceNotFound):
            await reboot(made.provider_id, "1")
        assert len(rebooted) == 1

    play(body)


def test_instances_of_a_zone_that_is_shifted_away_from_are_left_alone() -> None:
    async def body(world: World) -> None:
        (made,) = await world.launch(claim("c", zones=[A]))
        assert isinstance(made, Instance)
        await world.clock.sleep(MINUTE)
        await world.cloud.list()
        world.aws.zonal_shift.away = {USUAL.subnets[0].zone_id}
        await world.cloud._shifts.refresh()
        await world.clock.sleep(HOUR)
        world.aws.gate.calls.clear()
        owner = msgspec.structs.replace(
            claim("c"), status=NodeClaimStatus(provider_id=made.provider_id, node_name="n")
        )
        for call in (world.cloud.delete(made.provider_id), world.cloud.machines.mark(owner, "n")):
            with pytest.raises(CloudError, match="shifted away from zone"):
                await call
        assert (await world.cloud.get(made.provider_id)).provider_id == made.provider_id
        assert not world.aws.gate.calls
        world.aws.zonal_shift.away = set()
        await world.cloud._shifts.refresh()
        await world.cloud.delete(made.provider_id)
        assert world.aws.gate.calls["ec2:TerminateInstances"] == 1

    play(body)


def test_ends_are_asked_for_together_and_reported_when_they_came() -> None:
    async def body(world: World) -> None:
        made = await world.launch(*(claim(f"c-{i}") for i in range(30)))
        ids = [item.provider_id for item in made if isinstance(item, Instance)]
        world.aws.gate.calls.clear()
        await asyncio.gather(*(world.cloud.delete(one) for one in ids))
        assert world.aws.gate.calls == {"ec2:DescribeInstances": 1, "ec2:TerminateInstances": 1}
        await world.clock.sleep(3 * SECOND)
        await asyncio.gather(*(world.cloud.delete(one) for one in ids))
        assert world.aws.gate.calls == {"ec2:DescribeInstances": 2, "ec2:TerminateInstances": 1}
        assert all(item.terminating for item in await world.cloud.list())
        await world.clock.sleep(5 * MINUTE)
        for one in ids[:2]:
            with pytest.raises(InstanceNotFound):
                await world.cloud.delete(one)
            with pytest.raises(InstanceNotFound):
                await world.cloud.get(one)
        assert not await world.cloud.list()

    play(body)


def test_another_process_knows_what_runs() -> None:
    async def body(world: World) -> None:
        made = await world.cloud.create(claim(zones=[A]), node_class())
        await world.clock.sleep(MINUTE)
        other = world.again()
        await other.start()
        await other.classes.resolve(node_class())
        (found,) = await other.list()
        # The claim's name is a tag that comes later.
        assert found == replace(made, claim="", created=found.created)

    play(body)


def test_drift() -> None:
    async def body(world: World) -> None:
        given = claim(zones=[A])
        made = await world.cloud.create(given, node_class())
        await world.clock.sleep(MINUTE)
        one = adopted(given, made)
        assert await world.cloud.drifted(one, node_class()) == ""
        assert await world.cloud.drifted(one, node_class(userData="echo hi")) == "NodeClassDrift"
        other = node_class(amiSelectorTerms=[{"alias": "bottlerocket@latest"}])
        assert await world.cloud.drifted(replace_hash(one), other) == "AMIDrift"
        # The cached answer is good enough for what does not change by itself.
        assert world.aws.gate.calls["ec2:DescribeInstances"] == 1
        await world.cloud.delete(made.provider_id)
        await world.clock.sleep(10 * MINUTE)
        with pytest.raises(InstanceNotFound):
            await world.cloud.drifted(one, node_class())

    play(body)


def test_drift_from_a_placement_group() -> None:
    near = PlacementGroup("pg-1", "near", "cluster", "available")
    placed = node_class(placementGroupSelector={"name": "near"})

    async def body(world: World) -> None:
        given = claim(zones=[A])
        made = await world.cloud.create(given, placed)
        await world.clock.sleep(MINUTE)
        assert await world.cloud.drifted(adopted(given, made), placed) == ""
        elsewhere = node_class(placementGroupSelector={"name": "far"})
        # Selectors are no part of the hash, and a group that is not there says nothing.
        assert await world.cloud.drifted(adopted(given, made), elsewhere) == ""
        assert await world.cloud.drifted(adopted(given, made), node_class()) == "PlacementGroupDrift"

    play(body, account=replace(USUAL, placement_groups=(near,)))


def replace_hash(given: NodeClaim) -> NodeClaim:
    """The claim with a hash of another version, which says nothing."""
    document = {
        "metadata": {"name": given.metadata.name, "labels": given.metadata.labels},
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        "status": {"providerID": given.status.provider_id},
    }
    return decode(document, NodeClaim)


def test_reserved_capacity_first_while_there_is_any() -> None:
    reserved = CapacityReservation(
        "cr-1", "m5.large", A, "use1-az1", "123456789012", "default", "active", 1, 1, "targeted"
    )
    account = replace(USUAL, reservations=(reserved,))

    async def body(world: World) -> None:
        chosen = node_class(capacityReservationSelectorTerms=[{"id": "cr-1"}])
        await world.cloud.classes.resolve(chosen)
        wanted = claim(how=["reserved", "on-demand"])
        made = await world.cloud.create(wanted, chosen)
        assert (made.capacity_type, made.reservation_id) == ("reserved", "cr-1")
        await world.clock.sleep(2 * MINUTE)
        await world.cloud.classes.resolve(chosen)
        after = await world.cloud.create(claim("two", how=["reserved", "on-demand"]), chosen)
        assert after.capacity_type == "on-demand"

    play(body, account=account)


def test_a_full_reservation_leaves_its_neighbour() -> None:
    """Both are of one type in one zone; EC2 counts instances for us once a minute."""
    one = CapacityReservation(
        "cr-1", "m5.large", A, "use1-az1", "123456789012", "default", "active", 1, 1, "targeted"
    )
    account = replace(USUAL, reservations=(one, replace(one, id="cr-2")))

    async def body(world: World) -> None:
        chosen = node_class(capacityReservationSelectorTerms=[{"id": "cr-1"}, {"id": "cr-2"}])
        await world.cloud.classes.resolve(chosen)
        kinds = ["reserved", "on-demand"]
        made = await world.cloud.create(claim(how=kinds), chosen)
        with pytest.raises(InsufficientCapacity, match="ReservationCapacityExceeded"):
            await world.cloud.create(claim("two", how=kinds), chosen)
        offers = [one for kind in world.cloud.instance_types(chosen) for one in kind.offerings]
        held = {one.reservation_id: one for one in offers if one.reservation_id}
        assert all(one.available for one in held.values())
        assert not held[made.reservation_id].launchable
        other = await world.cloud.create(claim("three", how=kinds), chosen)
        assert {made.reservation_id, other.reservation_id} == {"cr-1", "cr-2"}
        await world.cloud.delete(made.provider_id)
        await world.clock.sleep(2 * MINUTE)
        await world.cloud.classes.resolve(chosen)
        again = await world.cloud.create(claim("four", how=kinds), chosen)
        assert again.reservation_id == made.reservation_id

    play(body, account=account)


def test_an_interrupted_reservation_leaves_its_neighbour() -> None:
    one = CapacityReservation(
        "cr-1", "m5.large", A, "use1-az1", "123456789012", "default", "active", 2, 2, "targeted"
    )
    account = replace(USUAL, reservations=(one, replace(one, id="cr-2")))

    async def body(world: World) -> None:
        chosen = node_class(capacityReservationSelectorTerms=[{"id": "cr-1"}, {"id": "cr-2"}])
        await world.cloud.classes.resolve(chosen)
        wanted = claim(how=["reserved"])
        made = await world.cloud.create(wanted, chosen)
        world.cloud.supply.out_of_capacity(adopted(wanted, made))
        other = await world.cloud.create(claim("two", how=["reserved"]), chosen)
        assert {made.reservation_id, other.reservation_id} == {"cr-1", "cr-2"}

    play(body, account=account)


def test_interruptions_and_impairments() -> None:
    async def body(world: World) -> None:
        made = await world.cloud.create(claim(how=["spot"], zones=[A]), node_class())
        queue = SqsQueue(world.aws.sqs, world.clock, CLUSTER)
        identifier = made.provider_id.rpartition("/")[2]
        for kind in (InterruptionKind.REBALANCE, InterruptionKind.SCHEDULED_CHANGE):
            await world.aws.interrupt(identifier, kind)
        letters = await queue.receive()
        assert len(letters) == 2
        await asyncio.gather(*map(queue.delete, letters))
        assert world.aws.gate.calls["sqs:DeleteMessageBatch"] == 1
        world.aws.impair(identifier, "system_status")
        await world.clock.sleep(MINUTE)
        (found,) = await world.cloud.machines.impairments()
        assert (found.provider_id, found.category) == (made.provider_id, "system_status")
        world.cloud.supply.out_of_capacity(adopted(claim(), made))
        types = {item.name: item for item in world.cloud.instance_types(node_class())}
        missing = [(one.zone, one.capacity_type) for one in types["m5.large"].offerings if not one.available]
        assert missing == [(A, "spot")]
        with pytest.raises(AwsError, match="there is no queue 'none'"):
            await SqsQueue(world.aws.sqs, world.clock, "none").receive()

    play(body)


def test_types_stay_the_same_objects_until_something_changes() -> None:
    async def body(world: World) -> None:
        first = world.cloud.instance_types(node_class())
        assert world.cloud.instance_types(node_class()) is first
        spot = [one for item in first for one in item.offerings if one.capacity_type == "spot"]
        assert spot and not any(one.estimated for one in spot)
        assert world.cloud.instance_types(node_class(kubelet={"maxPods": 20})) is not first
        assert not world.cloud.instance_types(node_class(kubelet={"maxPods": [1]}))
        assert {zone for item in first for zone in (one.zone for one in item.offerings)} <= {
            subnet.zone for subnet in USUAL.subnets
        }
        calls = world.aws.gate.calls.copy()
        assert not calls

    play(body)


def test_memory_is_the_least_that_machines_turned_out_to_have() -> None:
    async def body(world: World) -> None:
        cloud = world.cloud
        (image,) = {
            item.id
            for item in (await cloud.classes.resolve(node_class())).images
            if "x86_64-standard" in item.name
        }

        def memory(**spec: Any) -> int:
            found = {item.name: item for item in cloud.instance_types(node_class(**spec))}
            return found["m5.large"].capacity["memory"]

        estimate, before = memory(), cloud.instance_types(node_class())
        for seen in (estimate + 300, estimate + 200, estimate + 400):
            cloud.supply.discovered("m5.large", image, seen)
        assert memory() == estimate + 200
        assert cloud.instance_types(node_class()) is not before
        after = cloud.instance_types(node_class())
        cloud.supply.discovered("m5.large", image, estimate + 500)
        assert cloud.instance_types(node_class()) is after
        # Another image says nothing of this one, and after sixty days it is forgotten.
        cloud.supply.discovered("m5.large", "ami-other", 1)
        assert memory() == estimate + 200
        await world.clock.sleep(61 * 24 * HOUR)
        cloud.supply.discovered("c5.large", image, 1)
        assert memory() == estimate

    play(body)


def test_what_aws_does_not_report_is_taken_from_the_catalogue() -> None:
    async def body(world: World) -> None:
        denied = frozenset(
            {"ec2:DescribeSpotPriceHistory", "pricing:GetProducts", "ec2:DescribeInstanceTypes"}
        )
        world.aws.gate.options = GateOptions(denied=denied)
        cloud = world.again()
        await cloud.start()
        assert world.log.kinds == ["reconcile.failed"] * 3
        types = {item.name: item for item in cloud.instance_types(None)}
        assert types["m5.large"].offerings[0].price == 96_000_000
        assert any(one.estimated for one in types["m5.large"].offerings)

    play(body)


def test_five_hundred_nodes_in_one_burst_take_few_calls() -> None:
    families = ("m5", "c5", "r5", "m5a", "c6i", "r5a", "m6i", "c6a", "r6i", "t3")

    async def body(world: World) -> None:
        claims = [claim(f"c-{number}", types=[f"{families[number % 10]}.large"]) for number in range(500)]
        made = await world.launch(*claims)
        ids = [item.provider_id for item in made if isinstance(item, Instance)]
        assert len(set(ids)) == 500
        launches = world.aws.gate.calls.total()
        await world.clock.sleep(MINUTE)
        await asyncio.gather(*map(world.cloud.delete, ids))
        assert launches <= 25 and world.aws.gate.calls.total() - launches <= 6

    play(body, Options(gate=GateOptions(buckets=EC2_BUCKETS, fastest=50, slowest=400)))


def test_what_is_logged_of_launches_and_ends() -> None:
    metrics = MemoryMetrics()

    async def body(world: World) -> None:
        cloud = provider(world.aws, world.clock, world.log, metrics)
        await cloud.classes.resolve(node_class())
        made = await asyncio.gather(
            *(cloud.create(claim(f"c-{number}", zones=[A]), node_class()) for number in range(4)),
            return_exceptions=True,
        )
        (started, *_) = [item for item in made if isinstance(item, Instance)]
        await world.clock.sleep(MINUTE)
        await cloud.list()
        await cloud.delete(started.provider_id)
        world.aws.gate.options = GateOptions(denied=frozenset({"ec2:TerminateInstances"}))
        (other, *_) = [item for item in await cloud.list() if item != started and not item.terminating]
        with pytest.raises(AwsError):
            await cloud.delete(other.provider_id)

    play(body, short(3))
    zone_id = USUAL.subnets[0].zone_id
    place = {"zone": A, "zone_id": zone_id}
    code = "InsufficientInstanceCapacity"
    assert metrics.value(figures.REFUSED, capacity_type="on-demand", reason=code, **place) == 1
    assert metrics.value(figures.NOT_ENDED, **place) == 1
    assert metrics.observed(figures.BATCH_SIZE, batcher="create_fleet") == (4.0,)
    assert metrics.observed(figures.BATCH_SIZE, batcher="terminate_instances") == (1.0, 1.0)
    (took,) = metrics.observed(figures.BATCH_TIME, batcher="create_fleet")
    assert 0 < took <= 1
    assert 500 < (metrics.value(figures.USER_DATA, nodeclass="default") or 0) < 16_384
