"""What an EC2NodeClass resolves to in an account, and what its conditions say, on the in-memory AWS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import (
    EC2NodeClass,
    EC2NodeClassStatus,
    PlacementGroupSelector,
    SelectorTerm,
)
from dovetail.api.meta import Condition
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.cloud.aws.amifamily.userdata import Cluster
from dovetail.cloud.aws.api import CapacityReservation, FleetAnswer, InstanceProfile, PlacementGroup, Subnet
from dovetail.cloud.aws.cache import Memo
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.fake import Account, MemoryAws, Options
from dovetail.cloud.aws.fake.gate import GateOptions
from dovetail.cloud.aws.launchtemplate.template import Document, Stage
from dovetail.cloud.aws.nodeclass import profiles, selectors
from dovetail.cloud.aws.nodeclass import resolver as resolving
from dovetail.cloud.aws.nodeclass.dryruns import NO_PROFILE, RUN_REFUSED, meaning
from dovetail.cloud.aws.nodeclass.resolver import ClassResolver, Surroundings
from dovetail.cloud.provider import NodeClassResolution
from dovetail.controllers.conditions import Stamp
from dovetail.controllers.nodeclass.readiness import judge, status
from dovetail.model import labels
from dovetail.simulate.time.clock import VirtualClock, run_virtual

REGION, CLUSTER = "ap-northeast-2", "demo"
ROLE = f"KarpenterNodeRole-{CLUSTER}"
START = 1_772_409_600 * SECOND
USUAL = Account.usual(REGION, CLUSTER)


def node_class(tag: str = "karpenter.sh/discovery", **spec: Any) -> EC2NodeClass:
    terms = [{"tags": {tag: CLUSTER}}]
    document = {
        "metadata": {"name": "default", "uid": "u-1", "generation": 1},
        "spec": {
            "role": ROLE,
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
            **spec,
        },
    }
    return decode(document, EC2NodeClass)


@dataclass
class World:
    """An account, and who asks it."""

    clock: VirtualClock
    aws: MemoryAws
    resolver: ClassResolver

    def deny(self, *actions: str) -> None:
        self.aws.gate.options = GateOptions(denied=frozenset(actions))


def play(
    body: Callable[[World], Awaitable[None]],
    account: Account = USUAL,
    options: resolving.Options | None = None,
) -> None:
    async def main(clock: VirtualClock) -> None:
        aws = MemoryAws(clock, 7, account, Options())
        cluster = Cluster(CLUSTER, "https://demo", "Y2E=", "10.100.0.0/16", "10.100.0.10")
        records = {item.name: item for item in await aws.ec2.describe_instance_types()}
        aws.gate.calls.clear()

        async def surroundings() -> Surroundings:
            return Surroundings(Stage(cluster, REGION, records), "1.33")

        await body(World(clock, aws, ClassResolver(aws, clock, surroundings, options)))

    run_virtual(main, start=START)


def resolved(
    made: EC2NodeClass, account: Account = USUAL, *, denied: tuple[str, ...] = ()
) -> tuple[NodeClassResolution, dict[str, Condition]]:
    """What the class resolves to, and its conditions by type."""
    found: list[NodeClassResolution] = []

    async def body(world: World) -> None:
        world.deny(*denied)
        found.append(await world.resolver.resolve(made))

    play(body, account)
    conditions = judge(made, found[0], Stamp(START, 1))
    return found[0], {item.type: item for item in conditions}


def verdict(item: Condition) -> tuple[str, str, str]:
    return item.status, item.reason, item.message


def test_a_class_that_is_well() -> None:
    made = node_class()
    found, conditions = resolved(made)
    assert {item.status for item in conditions.values()} == {"True"}
    assert set(conditions) == {
        "AMIsReady",
        "CapacityReservationsReady",
        "InstanceProfileReady",
        "PlacementGroupReady",
        "Ready",
        "SecurityGroupsReady",
        "SubnetsReady",
        "ValidationSucceeded",
    }
    written = status(made, found)
    assert [item["zone"] for item in written["subnets"]] == [
        one.zone for one in sorted(USUAL.subnets, key=lambda one: one.id)
    ]
    assert written["securityGroups"] == [{"id": USUAL.security_groups[0].id, "name": "demo-nodes"}]
    assert written["instanceProfile"] == found.instance_profile != ""
    assert written["capacityReservations"] is None
    keys = [{term["key"]: term["operator"] for term in item["requirements"]} for item in written["amis"]]
    plain = {
        labels.AWS + "instance-gpu-count": "DoesNotExist",
        labels.AWS + "instance-accelerator-count": "DoesNotExist",
    }
    assert {labels.ARCH: "In", **plain} in keys
    assert {labels.ARCH: "In", labels.AWS + "instance-gpu-count": "Exists"} in keys


def test_subnets_with_most_free_addresses_come_first() -> None:
    subnets = tuple(replace(item, free_addresses=100 * number) for number, item in enumerate(USUAL.subnets))
    found, _ = resolved(node_class(), replace(USUAL, subnets=subnets))
    assert [item.id for item in found.subnets] == [item.id for item in reversed(subnets)]


MISSPELLED = "karpenter.sh/discovert"


def test_a_tag_that_is_nearly_there_is_named() -> None:
    """The account's tags are misspelled, the class is right."""
    subnets = tuple(replace(item, tags={MISSPELLED: CLUSTER}) for item in USUAL.subnets)
    groups = tuple(replace(item, tags={MISSPELLED: CLUSTER}) for item in USUAL.security_groups)
    _, conditions = resolved(node_class(), replace(USUAL, subnets=subnets, security_groups=groups))
    hint = f" (found key '{MISSPELLED}', but the selector asks for 'karpenter.sh/discovery')"
    assert verdict(conditions["SubnetsReady"]) == (
        "False",
        "SubnetsNotFound",
        "SubnetSelector did not match any Subnets" + hint,
    )
    assert verdict(conditions["SecurityGroupsReady"]) == (
        "False",
        "SecurityGroupsNotFound",
        "SecurityGroupSelector did not match any SecurityGroups" + hint,
    )
    assert conditions["ValidationSucceeded"].reason == "DependenciesNotReady"
    assert verdict(conditions["Ready"])[:2] == ("False", "UnhealthyDependents")


def test_a_variable_that_was_not_expanded_selects_nothing() -> None:
    terms = [{"tags": {"karpenter.sh/discovery": "${CLUSTER_NAME}"}}]
    _, conditions = resolved(node_class(subnetSelectorTerms=terms))
    assert conditions["SubnetsReady"].reason == "SubnetsNotFound"


@pytest.mark.parametrize(
    ("terms", "reason", "message"),
    [
        (
            [{"alias": "al2023@v20200101"}],
            "AMINotFound",
            "AMISelector did not match any AMIs "
            "(failed to discover any AMIs for alias (alias=al2023@v20200101))",
        ),
        (
            [{"ssmParameter": "/mine/image"}],
            "AMINotFound",
            "AMISelector did not match any AMIs (there is no SSM parameter /mine/image)",
        ),
        ([{"id": "ami-0123456789abcdef0"}], "AMINotFound", "AMISelector did not match any AMIs"),
        ([{"name": "mine-*"}], "AMINotFound", "AMISelector did not match any AMIs"),
        ([{"alias": "al2@latest"}], "UnsupportedAlias", "AL2 aliases are no longer supported on EKS 1.33+"),
        (
            [{"alias": "windows2025@latest"}],
            "UnsupportedAlias",
            "Windows Server 2025 requires EKS version 1.35",
        ),
    ],
)
def test_images_that_are_not_there(terms: list[dict[str, str]], reason: str, message: str) -> None:
    family = {} if "alias" in terms[0] else {"amiFamily": "AL2023"}
    _, conditions = resolved(node_class(amiSelectorTerms=terms, **family))
    found = conditions["AMIsReady"]
    assert (found.status, found.reason) == ("False", reason)
    assert found.message.startswith(message)


def test_images_by_name_are_our_own_or_amazons_and_the_newest_per_architecture() -> None:
    known = USUAL.images[0]
    images = tuple(
        replace(
            known,
            id=f"ami-{number}",
            name=name,
            owner=owner,
            arch=arch,
            created=f"2025-0{number}-01T00:00:00Z",
        )
        for number, (name, owner, arch) in enumerate(
            [
                ("mine-1", USUAL.number, "x86_64"),
                ("mine-2", USUAL.number, "x86_64"),
                ("mine-3", "999999999999", "x86_64"),
                ("mine-2", USUAL.number, "arm64"),
                ("other", USUAL.number, "x86_64"),
                ("mine-9", USUAL.number, "i386"),
            ],
            start=1,
        )
    )
    account = replace(USUAL, images=images)
    found, _ = resolved(node_class(amiSelectorTerms=[{"name": "mine-*"}], amiFamily="AL2023"), account)
    assert [item.id for item in found.images] == ["ami-4", "ami-2"]


def test_deprecated_images_come_last_and_are_marked() -> None:
    known = USUAL.images[0]
    old = replace(
        known, id="ami-1", name="mine", owner=USUAL.number, deprecated_from="2026-01-01T00:00:00.000Z"
    )
    account = replace(USUAL, images=(old,))
    made = node_class(amiSelectorTerms=[{"id": "ami-1"}], amiFamily="AL2023")
    found, _ = resolved(made, account)
    assert status(made, found)["amis"][0]["deprecated"] is True


@pytest.mark.parametrize(
    ("denied", "kind", "reason", "action"),
    [
        ("ec2:DescribeSubnets", "SubnetsReady", "NotAuthorized", "ec2:DescribeSubnets"),
        ("ec2:DescribeSecurityGroups", "SecurityGroupsReady", "NotAuthorized", "ec2:DescribeSecurityGroups"),
        ("ec2:DescribeImages", "AMIsReady", "NotAuthorized", "ec2:DescribeImages"),
        ("ssm:GetParameter", "AMIsReady", "NotAuthorized", "ssm:GetParameter"),
        ("iam:CreateInstanceProfile", "InstanceProfileReady", "NotAuthorized", "iam:CreateInstanceProfile"),
    ],
)
def test_what_the_controller_may_not_ask_is_unknown_and_named(
    denied: str, kind: str, reason: str, action: str
) -> None:
    _, conditions = resolved(node_class(), denied=(denied,))
    found = conditions[kind]
    assert (found.status, found.reason) == ("Unknown", reason)
    assert found.message.startswith(f"Controller isn't authorized to call {action}")
    assert verdict(conditions["ValidationSucceeded"])[:2] == ("Unknown", "DependenciesNotReady")


@pytest.mark.parametrize(
    ("denied", "reason"),
    [
        ("ec2:CreateLaunchTemplate", "CreateLaunchTemplateAuthCheckFailed"),
        ("ec2:CreateFleet", "CreateFleetAuthCheckFailed"),
        ("ec2:RunInstances", "RunInstancesAuthCheckFailed"),
    ],
)
def test_dry_runs_show_what_is_forbidden(denied: str, reason: str) -> None:
    _, conditions = resolved(node_class(), denied=(denied,))
    assert verdict(conditions["ValidationSucceeded"]) == (
        "False",
        reason,
        f"Controller isn't authorized to call {denied}",
    )
    assert conditions["Ready"].status == "False"


def test_dry_runs_leave_nothing_behind_and_are_not_repeated() -> None:
    async def body(world: World) -> None:
        for _ in range(3):
            assert not (await world.resolver.resolve(node_class())).faults
            await world.clock.sleep(MINUTE)
        calls = world.aws.gate.calls
        assert (calls["ec2:CreateFleet"], calls["ec2:RunInstances"], calls["ec2:CreateLaunchTemplate"]) == (
            1,
            1,
            2,
        )
        assert not await world.aws.ec2.describe_launch_templates(())
        assert not await world.aws.ec2.describe_instances()
        await world.clock.sleep(30 * MINUTE)
        await world.resolver.resolve(node_class())
        assert calls["ec2:RunInstances"] == 2

    play(body)


def test_a_permission_that_is_given_is_noticed_at_once() -> None:
    async def body(world: World) -> None:
        world.deny("ec2:CreateFleet")
        assert (await world.resolver.resolve(node_class())).faults
        world.deny()
        assert not (await world.resolver.resolve(node_class())).faults

    play(body)


def test_dry_runs_can_be_left_out() -> None:
    async def body(world: World) -> None:
        world.deny("ec2:CreateFleet", "ec2:RunInstances")
        assert not (await world.resolver.resolve(node_class())).faults

    play(body, options=resolving.Options(dry_run=False))


TAG = "TagValidationFailed"


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"tags": {"karpenter.sh/nodeclaim": "x"}}, TAG, "spec.tags['karpenter.sh/nodeclaim']"),
        ({"tags": {"kubernetes.io/cluster/other": "owned"}}, TAG, "spec.tags['kubernetes.io/cluster/other']"),
        ({"tags": {"aws:mine": "x"}}, TAG, "reserved by AWS"),
        ({"tags": {f"tag-{number}": "x" for number in range(45)}}, TAG, "45 tags"),
        (
            {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "8Gi"}}]},
            "BlockDeviceMappingInvalid",
            "spec.blockDeviceMappings[0].ebs.volumeSize: 8 GiB, but /dev/xvda",
        ),
        ({"userData": "x" * 17_000}, "UserDataSizeLimitExceeded", "EC2 takes 16384"),
        (
            {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}], "userData": "[settings"},
            "InvalidUserData",
            "spec.userData",
        ),
        (
            {"userData": "\n\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n"},
            "InvalidUserData",
            "spec.userData",
        ),
        ({"kubelet": {"maxPod": 5}}, "InvalidKubeletConfiguration", 'unknown field "maxPod"'),
    ],
)
def test_what_nodes_would_fail_with(spec: dict[str, Any], reason: str, words: str) -> None:
    _, conditions = resolved(node_class(**spec))
    found = conditions["ValidationSucceeded"]
    assert (found.status, found.reason) == ("False", reason)
    assert words in found.message


def test_a_role_that_does_not_exist() -> None:
    _, conditions = resolved(node_class(role="nobody"))
    found = conditions["InstanceProfileReady"]
    assert found.status == "Unknown"
    assert "The role with name nobody cannot be found" in found.message


def test_an_instance_profile_of_the_users_own_is_taken_as_it_is() -> None:
    made = node_class(role="", instanceProfile="mine")
    found, conditions = resolved(made)
    assert status(made, found)["instanceProfile"] == "mine"
    assert conditions["InstanceProfileReady"].status == "True"


WANTED = profiles.wanted(node_class(), CLUSTER, REGION)


@pytest.mark.parametrize(
    ("roles", "tags", "expected"),
    [
        (None, {}, [profiles.Create(), profiles.Add()]),
        ((ROLE,), WANTED.tags, []),
        ((), WANTED.tags, [profiles.Add()]),
        (("else",), WANTED.tags, [profiles.Remove("else"), profiles.Add()]),
        ((ROLE,), {}, [profiles.Tag()]),
    ],
)
def test_steps_towards_a_profile(
    roles: tuple[str, ...] | None, tags: dict[str, str], expected: list[profiles.Step]
) -> None:
    there = None if roles is None else InstanceProfile(WANTED.name, "arn", WANTED.path, roles, tags)
    assert list(profiles.steps(there, WANTED)) == expected


def test_profiles_are_named_by_cluster_class_and_role() -> None:
    assert WANTED.name.startswith("demo_") and len(WANTED.name) <= 128
    assert WANTED.path == "/karpenter/ap-northeast-2/demo/u-1/"
    assert profiles.wanted(node_class(role="other"), CLUSTER, REGION).name != WANTED.name
    assert profiles.wanted(node_class(role=f"path/{ROLE}"), CLUSTER, REGION).role == ROLE


def test_a_new_role_gives_a_new_profile_and_the_old_one_goes_once_it_is_unused() -> None:
    account = replace(USUAL, roles=USUAL.roles | {"other"})

    async def body(world: World) -> None:
        old = (await world.resolver.resolve(node_class())).instance_profile
        new = (await world.resolver.resolve(node_class(role="other"))).instance_profile
        known = world.aws.iam.profiles
        assert {name: item.roles for name, item in known.items()} == {old: (ROLE,), new: ("other",)}
        assert known[new].tags["kubernetes.io/cluster/demo"] == "owned"
        await world.resolver.tidy(frozenset({old, new}))
        assert set(known) == {old, new}
        await world.resolver.tidy(frozenset({new}))
        assert set(known) == {new}

    play(body, account)


def test_a_class_that_goes_takes_along_what_was_made_for_it() -> None:
    async def body(world: World) -> None:
        await world.resolver.resolve(node_class())
        tags = {"eks:eks-cluster-name": CLUSTER, "karpenter.k8s.aws/ec2nodeclass": "default"}
        for name, tagged in (("ours", tags), ("theirs", {**tags, "eks:eks-cluster-name": "other"})):
            written = [{"Key": key, "Value": value} for key, value in tagged.items()]
            specification = [{"ResourceType": "launch-template", "Tags": written}]
            await world.aws.ec2.create_launch_template(
                {"LaunchTemplateName": name, "LaunchTemplateData": {}, "TagSpecifications": specification}
            )
        await world.resolver.release(node_class())
        assert not world.aws.iam.profiles
        assert [item.name for item in await world.aws.ec2.describe_launch_templates(())] == ["theirs"]

    play(body)


def reservation(identifier: str, **fields: Any) -> CapacityReservation:
    usual: dict[str, Any] = {
        "instance_type": "m5.large",
        "zone": "ap-northeast-2a",
        "zone_id": "apne2-az1",
        "owner": USUAL.number,
        "kind": "default",
        "state": "active",
        "total": 3,
        "left": 3,
        "criteria": "targeted",
    }
    return CapacityReservation(id=identifier, **{**usual, **fields})


def test_reservations_are_selected_by_id_owner_criteria_and_tags() -> None:
    account = replace(
        USUAL,
        reservations=(
            reservation("cr-2", tags={"team": "a"}),
            reservation("cr-1", criteria="open"),
            reservation("cr-3", owner="999999999999"),
            reservation("cr-4", kind="capacity-block", ends=START + 30 * MINUTE, tags={"team": "b"}),
            reservation("cr-5", kind="capacity-block", ends=START + HOUR, tags={"team": "c"}),
        ),
    )
    terms = [{"id": "cr-1"}, {"tags": {"team": "*"}}, {"ownerID": "999999999999"}]
    made = node_class(capacityReservationSelectorTerms=terms)
    found, _ = resolved(made, account)
    states = {item["id"]: item["state"] for item in status(made, found)["capacityReservations"]}
    assert states == {
        "cr-1": "active",
        "cr-2": "active",
        "cr-3": "active",
        "cr-4": "expiring",
        "cr-5": "active",
    }
    assert [item.id for item in found.reservations] == sorted(states)


def test_placement_groups() -> None:
    account = replace(USUAL, placement_groups=(PlacementGroup("pg-1", "near", "cluster", "available"),))
    found, conditions = resolved(node_class(placementGroupSelector={"name": "near"}), account)
    assert found.placement_group is not None and found.placement_group.id == "pg-1"
    assert conditions["PlacementGroupReady"].status == "True"
    _, conditions = resolved(node_class(placementGroupSelector={"name": "far"}), account)
    assert verdict(conditions["PlacementGroupReady"])[:2] == ("False", "PlacementGroupNotFound")


def test_a_placement_group_that_ec2_does_not_like() -> None:
    selected = node_class(placementGroupSelector={"name": "near"})
    answers: list[NodeClassResolution] = []

    async def body(world: World) -> None:
        async def refuse(_: object) -> Any:
            raise AwsError("DescribePlacementGroups", "InvalidParameterValue", "what is near?")

        world.aws.ec2.describe_placement_groups = refuse  # type: ignore[method-assign]  # the twin takes it
        answers.append(await world.resolver.resolve(selected))

    play(body)
    conditions = {item.type: item for item in judge(selected, answers[0], Stamp(START, 1))}
    assert verdict(conditions["PlacementGroupReady"])[:2] == ("False", "PlacementGroupResolutionFailed")
    assert "what is near?" in conditions["PlacementGroupReady"].message


@pytest.mark.parametrize(("alias", "ready"), [("al2023@latest", "False"), ("bottlerocket@latest", "True")])
def test_a_cluster_whose_addresses_are_unknown(alias: str, ready: str) -> None:
    made = node_class(amiSelectorTerms=[{"alias": alias}])
    answers: list[NodeClassResolution] = []

    async def body(world: World) -> None:
        records = {item.name: item for item in await world.aws.ec2.describe_instance_types()}

        async def surroundings() -> Surroundings:
            return Surroundings(Stage(Cluster(CLUSTER, "https://demo", "Y2E="), REGION, records), "1.33")

        answers.append(await ClassResolver(world.aws, world.clock, surroundings).resolve(made))

    play(body)
    (found,) = (one for one in judge(made, answers[0], Stamp(START, 1)) if one.type == "ValidationSucceeded")
    assert found.status == ready
    if ready == "False":
        assert found.reason == "ClusterCIDRResolutionFailed"


def test_filters_are_one_call_for_ids_and_one_per_term_of_tags() -> None:
    terms = [
        SelectorTerm(id="subnet-2"),
        SelectorTerm(tags={"b": "*", "a": "1"}),
        SelectorTerm(id="subnet-1"),
        SelectorTerm(tags={"a": "1", "b": "*"}),
    ]
    asked = [[(item.name, item.values) for item in query] for query in selectors.subnet_queries(terms)]
    assert asked == [
        [("subnet-id", ("subnet-1", "subnet-2"))],
        [("tag-key", ("b",)), ("tag:a", ("1",))],
    ]
    assert selectors.placement_query(PlacementGroupSelector(id="pg-1"))[0].name == "group-id"


def test_a_subnet_that_two_terms_select_is_there_once() -> None:
    twice = [Subnet("s", "v", "a", "a1", 5), Subnet("s", "v", "a", "a1", 5)]
    assert len(selectors.subnets(twice)) == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AwsError("RunInstances", "UnauthorizedOperation", "You are not"), RUN_REFUSED),
        (
            AwsError(
                "RunInstances",
                "InvalidParameterValue",
                "Value (x) for parameter iamInstanceProfile.name is invalid. "
                "Invalid IAM Instance Profile name",
            ),
            NO_PROFILE,
        ),
        (AwsError("RunInstances", "RequestLimitExceeded", "later"), ""),
    ],
)
def test_what_an_error_of_a_dry_run_means(error: AwsError, reason: str) -> None:
    fault = meaning(error, RUN_REFUSED)
    assert (fault.reason if fault else "") == reason
    if reason == NO_PROFILE:
        assert fault is not None and fault.message == 'Instance profile "x" not found'


def test_throttling_says_nothing_of_a_class() -> None:
    async def body(world: World) -> None:
        world.aws.ec2.describe_subnets = throttled  # type: ignore[method-assign]  # the twin's buckets are larger
        with pytest.raises(AwsError):
            await world.resolver.resolve(node_class())

    async def throttled(_: object) -> list[Subnet]:
        raise AwsError("DescribeSubnets", "RequestLimitExceeded", "Request limit exceeded.")

    play(body)


class Throttling:
    """Refuses CreateFleet while `on`, and counts."""

    def __init__(self, world: World) -> None:
        self._ask = world.aws.ec2.create_fleet
        self.on, self.asked = True, 0
        world.aws.ec2.create_fleet = self._create_fleet  # type: ignore[method-assign]  # to refuse that call alone

    async def _create_fleet(
        self, request: Document, *, token: str = "", dry_run: bool = False
    ) -> FleetAnswer:
        self.asked += 1
        if self.on:
            raise AwsError("CreateFleet", "RequestLimitExceeded", "Request limit exceeded.")
        return await self._ask(request, token=token, dry_run=dry_run)


def test_dry_runs_that_are_throttled_are_made_again_after_growing_pauses() -> None:
    async def body(world: World) -> None:
        throttling = Throttling(world)
        for _ in range(5 * 60):
            with pytest.raises(AwsError, match="RequestLimitExceeded"):
                await world.resolver.resolve(node_class())
            await world.clock.sleep(SECOND)
        assert throttling.asked == 6  # at 0, 5, 15, 35, 75 and 155 s
        throttling.on = False
        await world.clock.sleep(5 * MINUTE)
        assert not (await world.resolver.resolve(node_class())).faults
        assert throttling.asked == 7

    play(body)


@pytest.mark.parametrize(("seen", "well"), [(1, True), (0, False)])
def test_a_class_that_was_validated_stays_so_while_dry_runs_are_throttled(seen: int, well: bool) -> None:
    validated = Condition(type="ValidationSucceeded", status="True", observed_generation=seen)
    made = msgspec.structs.replace(node_class(), status=EC2NodeClassStatus(conditions=(validated,)))

    async def body(world: World) -> None:
        Throttling(world)
        if well:
            assert not (await world.resolver.resolve(made)).faults
        else:
            with pytest.raises(AwsError):
                await world.resolver.resolve(made)

    play(body)


def test_answers_are_remembered_for_a_while_and_asked_for_once_at_a_time() -> None:
    asked = []

    async def main(clock: VirtualClock) -> None:
        memo = Memo(clock)

        async def ask() -> int:
            asked.append(clock.now())
            await clock.sleep(SECOND)
            return len(asked)

        both = await asyncio.gather(*(memo.get("a", MINUTE, ask) for _ in range(3)))
        assert both == [1, 1, 1]
        await clock.sleep(MINUTE)
        assert await memo.get("a", MINUTE, ask) == 2
        memo.forget("a")
        assert await memo.get("a", MINUTE, ask) == 3
        await clock.sleep(HOUR)
        memo.sweep(MINUTE)
        assert await memo.get("a", 2 * HOUR, ask) == 4

    run_virtual(main)
