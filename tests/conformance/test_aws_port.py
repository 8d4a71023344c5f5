"""One suite for every twin of the AWS port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dovetail.cloud.aws.amifamily.images import Filter, ImageQuery
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.catalog import store
from tests.conformance.aws_accounts import (
    CLUSTER,
    PARAMETER,
    REGION,
    ROLE,
    Settled,
    memory_account,
    moto_account,
)

Body = Callable[[Settled], Awaitable[None]]
ACCOUNTS = {"memory": memory_account, "moto": moto_account}
DISCOVERY = Filter("tag:karpenter.sh/discovery", (CLUSTER,))
MISSING = "i-0123456789abcdef0"


@pytest.fixture(params=ACCOUNTS)
def within(request: pytest.FixtureRequest) -> Callable[[Body], None]:
    """Runs the body of a test with an account of the twin."""

    def run(body: Body) -> None:
        async def whole() -> None:
            async with ACCOUNTS[request.param]() as settled:
                await body(settled)

        asyncio.run(whole())

    return run


async def refused(call: Awaitable[Any], refusal: Refusal) -> None:
    """The call is refused with a code of that class."""
    with pytest.raises(AwsError) as raised:
        await call
    assert raised.value.refusal is refusal, raised.value


def template(at: Settled, name: str = "t-1") -> dict[str, Any]:
    """CreateLaunchTemplate."""
    data = {
        "ImageId": at.image,
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [at.group]}],
        "MetadataOptions": {"HttpTokens": "required"},
    }
    tags = [{"Key": "karpenter.sh/nodepool", "Value": "default"}]
    return {
        "LaunchTemplateName": name,
        "LaunchTemplateData": data,
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": tags}],
    }


def fleet(at: Settled, count: int = 1, *, kind: str = "on-demand", name: str = "t-1") -> dict[str, Any]:
    """CreateFleet for m5.large."""
    override = {
        "InstanceType": "m5.large",
        "SubnetId": at.subnet,
        "ImageId": at.image,
        "AvailabilityZone": at.zone,
        "Priority": 0.096,
    }
    reference = {"LaunchTemplateName": name, "Version": "$Latest"}
    tags = [{"Key": "karpenter.sh/nodepool", "Value": "default"}]
    return {
        "Type": "instant",
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": reference, "Overrides": [override]}],
        "TargetCapacitySpecification": {"DefaultTargetCapacityType": kind, "TotalTargetCapacity": count},
        "TagSpecifications": [{"ResourceType": "instance", "Tags": tags}],
    }


def test_what_is_sold_where(within: Callable[[Body], None]) -> None:
    async def body(at: Settled) -> None:
        zones = {zone.name: zone.id for zone in await at.aws.ec2.describe_availability_zones()}
        assert at.aws.region == REGION and zones[at.zone].startswith("use1-az")
        offered = set(await at.aws.ec2.describe_instance_type_offerings())
        assert ("m5.large", at.zone) in offered
        found = {record.name: record for record in await at.aws.ec2.describe_instance_types()}
        packaged = {record.name: record for record in store.load().types}
        for name in ("m5.large", "c7g.xlarge", "g5.2xlarge", "inf2.xlarge", "t3.micro", "m5.metal"):
            assert found[name] == packaged[name]

    within(body)


def test_subnets_and_groups(within: Callable[[Body], None]) -> None:
    async def body(at: Settled) -> None:
        ec2 = at.aws.ec2
        for filters in (
            [DISCOVERY],
            [Filter("tag-key", ("karpenter.sh/discovery",))],
            [Filter("tag:karpenter.sh/discovery", ("d*o", "other"))],
            [DISCOVERY, Filter("subnet-id", (at.subnet,))],
        ):
            found = {item.id: item for item in await ec2.describe_subnets(filters)}
            assert found[at.subnet].zone == at.zone
            assert found[at.subnet].free_addresses > 0
            assert found[at.subnet].tags["karpenter.sh/discovery"] == CLUSTER
        assert not await ec2.describe_subnets([Filter("tag:karpenter.sh/discovert", (CLUSTER,))])
        group = next(item for item in await ec2.describe_security_groups([DISCOVERY]) if item.id == at.group)
        by_name = await ec2.describe_security_groups([Filter("group-name", (group.name,))])
        assert [item.id for item in by_name] == [at.group]
        assert not await ec2.describe_security_groups([Filter("group-id", ("sg-0123456789abcdef0",))])

    within(body)


def test_images_and_parameters(within: Callable[[Body], None]) -> None:
    async def body(at: Settled) -> None:
        assert await at.aws.ssm.get_parameter(PARAMETER) == at.image
        await refused(at.aws.ssm.get_parameter("/aws/service/none/image_id"), Refusal.NOT_FOUND)
        by_id = ImageQuery((Filter("image-id", (at.image,)), Filter("state", ("available",))))
        (image,) = await at.aws.ec2.describe_images(by_id)
        assert (image.id, image.arch, image.owner) == (at.image, "x86_64", at.owner)
        name = (Filter("name", (image.name,)), Filter("state", ("available",)))
        assert at.image in {
            item.id for item in await at.aws.ec2.describe_images(ImageQuery(name, (at.owner,)))
        }
        assert not await at.aws.ec2.describe_images(ImageQuery(name, ("111111111111",)))

    within(body)


def test_launch_templates(within: Callable[[Body], None]) -> None:
    async def body(at: Settled) -> None:
        ec2 = at.aws.ec2
        await ec2.create_launch_template(template(at), dry_run=True)
        named = [Filter("launch-template-name", ("t-1",))]
        assert not await ec2.describe_launch_templates(named)
        await ec2.create_launch_template(template(at))
        await refused(ec2.create_launch_template(template(at)), Refusal.EXISTS)
        (found,) = await ec2.describe_launch_templates(named)
        assert found.name == "t-1" and found.tags == {"karpenter.sh/nodepool": "default"}
        tagged = [Filter("tag:karpenter.sh/nodepool", ("default",))]
        assert [item.name for item in await ec2.describe_launch_templates(tagged)] == ["t-1"]
        await ec2.delete_launch_template("t-1")
        # moto misses the name of a template that does not exist.
        await refused(ec2.delete_launch_template("t-1"), Refusal.NOT_FOUND if at.real else Refusal.REQUEST)

    within(body)


@pytest.mark.parametrize("kind", ["on-demand", "spot"])
def test_a_fleet_from_launch_to_end(within: Callable[[Body], None], kind: str) -> None:
    async def body(at: Settled) -> None:
        ec2 = at.aws.ec2
        await ec2.create_launch_template(template(at))
        await ec2.create_fleet(fleet(at, kind=kind), dry_run=True)
        await ec2.run_instances({"ImageId": at.image, "MinCount": 1, "MaxCount": 1})
        assert not await ec2.describe_instances()
        answer = await ec2.create_fleet(fleet(at, 2, kind=kind))
        ids = {one for given in answer.instances for one in given.ids}
        assert len(ids) == 2 and not answer.errors
        for given in answer.instances:
            assert given.instance_type == "m5.large" and given.spot == (kind == "spot")
        pool = [Filter("tag:karpenter.sh/nodepool", ("default",))]
        found = {item.id: item for item in await ec2.describe_instances(pool)}
        assert set(found) == ids
        for item in found.values():
            assert item.state in ("pending", "running")
            assert (item.instance_type, item.zone, item.subnet) == ("m5.large", at.zone, at.subnet)
            assert (item.image, item.spot) == (at.image, kind == "spot")
        await ec2.create_tags(sorted(ids), {"Name": "node"})
        first = min(ids)
        (named,) = await ec2.describe_instances(ids=[first])
        assert named.tags["Name"] == "node" and named.launched > 0
        await refused(ec2.reboot_instances([MISSING]), Refusal.NOT_FOUND)
        await ec2.reboot_instances([first])
        (rebooted,) = await ec2.describe_instances(ids=[first])
        assert (rebooted.zone, rebooted.state) in {(at.zone, "pending"), (at.zone, "running")}
        await refused(ec2.terminate_instances([MISSING]), Refusal.NOT_FOUND)
        await ec2.terminate_instances([first])
        await ec2.terminate_instances([first])
        alive = [Filter("instance-state-name", ("pending", "running"))]
        assert {item.id for item in await ec2.describe_instances(alive)} == ids - {first}
        assert not await ec2.describe_instance_status()

    within(body)


def test_nothing_where_nothing_is(within: Callable[[Body], None]) -> None:
    async def body(at: Settled) -> None:
        ec2 = at.aws.ec2
        await refused(ec2.describe_instances(ids=[MISSING]), Refusal.NOT_FOUND)
        await refused(at.aws.eks.describe_cluster("none"), Refusal.NOT_FOUND)
        await refused(at.aws.sqs.get_queue_url("none"), Refusal.NOT_FOUND)
        await refused(at.aws.iam.get_instance_profile("none"), Refusal.NOT_FOUND)

    within(body)


def test_instance_profiles(within: Callable[[Body], None]) -> None:
    async def body(at: Settled) -> None:
        iam, path = at.aws.iam, f"/karpenter/{REGION}/{CLUSTER}/uid/"
        made = await iam.create_instance_profile("p-1", path, {"owner": "us"})
        assert (made.name, made.path, made.roles) == ("p-1", path, ())
        await refused(iam.create_instance_profile("p-1", path, {}), Refusal.EXISTS)
        await refused(iam.add_role_to_instance_profile("p-1", "none"), Refusal.NOT_FOUND)
        await iam.add_role_to_instance_profile("p-1", ROLE)
        await iam.tag_instance_profile("p-1", {"more": "yes"})
        found = await iam.get_instance_profile("p-1")
        assert found.roles == (ROLE,) and found.tags == {"owner": "us", "more": "yes"}
        assert [item.name for item in await iam.list_instance_profiles(f"/karpenter/{REGION}/")] == ["p-1"]
        # moto answers with all profiles, whatever their paths.
        assert bool(await iam.list_instance_profiles("/karpenter/eu-west-1/")) is not at.real
        with pytest.raises(AwsError) as raised:
            await iam.delete_instance_profile("p-1")
        assert raised.value.code == "DeleteConflict"
        await iam.remove_role_from_instance_profile("p-1", ROLE)
        await iam.delete_instance_profile("p-1")
        await refused(iam.get_instance_profile("p-1"), Refusal.NOT_FOUND)

    within(body)


def test_the_cluster_and_who_we_are(within: Callable[[Body], None]) -> None:
    async def body(at: Settled) -> None:
        cluster = await at.aws.eks.describe_cluster(CLUSTER)
        assert cluster.name == CLUSTER and cluster.endpoint.startswith("https://")
        assert cluster.version and cluster.ca_bundle
        identity = await at.aws.sts.get_caller_identity()
        assert identity.account == "123456789012" and identity.account in identity.arn

    within(body)


def test_the_queue(within: Callable[[Body], None]) -> None:
    async def body(at: Settled) -> None:
        sqs = at.aws.sqs
        url = await sqs.get_queue_url(CLUSTER)
        for number in range(12):
            await at.send(f"message {number}")
        first = await sqs.receive(url)
        second = await sqs.receive(url)
        assert len(first) <= 10 and {letter.body for letter in (*first, *second)} == {
            f"message {number}" for number in range(12)
        }
        assert all(letter.sent > 0 for letter in first)
        await sqs.delete(url, first)
        await sqs.delete(url, second)

    within(body)
