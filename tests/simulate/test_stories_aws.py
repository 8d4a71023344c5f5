"""Acceptance: what a travel site's class and those of two teams become in an AWS account."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from aws_cloud import CLUSTER
from operated import REGION, START, Operated, play, pod
from stories import POOL, ZONES, condition_of, inflate, keeping, reserved, travel_class, travel_pool

from dovetail.api.admission import admit
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.errors import Invalid
from dovetail.cloud.aws.api import CapacityReservation, Instance
from dovetail.cloud.aws.fake.gate import GateOptions
from dovetail.model import labels
from dovetail.model.resources import amounts
from dovetail.simulate.analysis.summary import Run, summarize
from dovetail.views.report.page import Period, report_data
from tests.unit.node_config import NODE_CONFIG

CLASS = "karpenter-node-template"


def machines(world: Operated) -> list[Instance]:
    return [item.instance for item in world.aws.machines.visible()]


def templates(world: Operated) -> list[dict[str, Any]]:
    """The data of all launch templates that there are."""
    return [data for _, data in world.aws.ec2.launches.templates.values()]


def user_data(world: Operated) -> str:
    """That of the one launch template."""
    (data,) = templates(world)
    return base64.b64decode(data["UserData"]).decode()


async def bought(world: Operated, node_class: dict[str, Any], *pods: dict[str, Any]) -> None:
    """One node on demand for a pod, or for those given."""
    world.create(node_class, keeping(travel_pool(capacity=("on-demand",))), *(pods or (pod("a"),)))
    await world.clock.sleep(2 * MINUTE)


def status(world: Operated) -> dict[str, Any]:
    document: dict[str, Any] = world.server.get(EC2NodeClass, CLASS)["status"]
    return document


def test_the_clusters_name_is_all_that_has_to_be_known() -> None:
    """Endpoint, CA and version come from EKS, and everything carries the cluster's tag."""

    async def script(world: Operated) -> None:
        await bought(world, travel_class())

    world = play(script)
    assert world.aws.gate.calls["eks:DescribeCluster"] == 1
    (machine,) = machines(world)
    assert machine.tags["kubernetes.io/cluster/demo"] == "owned"
    assert machine.tags["eks:eks-cluster-name"] == CLUSTER
    assert "apiServerEndpoint: https://" in user_data(world)


def test_what_was_selected_stands_in_the_status() -> None:
    async def script(world: Operated) -> None:
        world.create(travel_class())
        await world.clock.sleep(MINUTE)

    world = play(script)
    found, account = status(world), world.aws.ec2.account
    assert [item["id"] for item in found["subnets"]] == sorted(item.id for item in account.subnets)
    assert set(found["subnets"][0]) == {"id", "zone", "zoneID"}
    assert found["securityGroups"] == [{"id": account.security_groups[0].id, "name": "demo-nodes"}]
    assert found["instanceProfile"].startswith("demo_")


def test_a_status_is_written_when_it_changes_and_comes_back_when_it_was_taken_away() -> None:
    written: list[str] = []

    async def script(world: Operated) -> None:
        patch = world.client.patch

        async def counted(kind: type[Any], name: str, *args: Any, **given: Any) -> Any:
            if kind is EC2NodeClass and given.get("status"):
                written.append(name)
            return await patch(kind, name, *args, **given)

        world.client.patch = counted  # type: ignore[method-assign]
        world.create(travel_class())
        await world.clock.sleep(HOUR)
        assert 1 <= len(written) <= 2
        await patch(EC2NodeClass, CLASS, merge={"status": {"subnets": None}}, status=True)
        await world.clock.sleep(2 * MINUTE)

    assert status(play(script))["subnets"]
    assert 2 <= len(written) <= 3


def test_a_pinned_image_is_looked_up_once_and_newer_ones_change_nothing() -> None:
    async def script(world: Operated) -> None:
        await bought(world, travel_class())
        aws = world.aws
        newest = {name: "ami-0newer00000000000" for name in aws.ssm.parameters if "recommended" in name}
        aws.ssm.parameters.update(newest)
        await world.clock.sleep(2 * HOUR)
        assert not world.records("claim.drifted")

    world = play(script)
    # The standard images of two architectures, and those for two kinds of accelerators.
    assert world.aws.gate.calls["ssm:GetParameter"] == 5
    names = {item["name"] for item in status(world)["amis"]}
    assert len(status(world)["amis"]) == 5 and names
    assert len(machines(world)) == 1


def publish(world: Operated) -> None:
    """EKS recommends newer images from now on."""
    aws = world.aws
    known = {item.id: item for item in aws.ec2.account.images}
    found = list(known.values())
    for name, old in list(aws.ssm.parameters.items()):
        if "recommended" in name and old in known:
            aws.ssm.parameters[name] = f"ami-0newer{old[-8:]}"
            newer = replace(known[old], id=aws.ssm.parameters[name], created="2026-03-02T00:00:30.000Z")
            found.append(newer)
    aws.ec2.account = replace(aws.ec2.account, images=tuple(found))


@pytest.mark.parametrize(("budget", "newer"), [("1", True), ("0", False)])
def test_newly_recommended_images_replace_nodes_as_far_as_budgets_let(budget: str, newer: bool) -> None:
    async def script(world: Operated) -> None:
        latest = travel_class(amiSelectorTerms=[{"alias": "al2023@latest"}])
        pool = keeping(
            travel_pool(capacity=("on-demand",), expireAfter="Never"),
            consolidateAfter="Never",
            budgets=[{"nodes": budget}],
        )
        world.create(latest, pool, inflate(1))
        await world.clock.sleep(2 * MINUTE)
        publish(world)
        await world.clock.sleep(HOUR)
        claims = world.state.all(NodeClaim)
        assert len(claims) == 1
        if not newer:
            assert condition_of(claims[0], "Drifted").reason == "AMIDrift"

    world = play(script)
    alive = [item for item in machines(world) if item.state == "running"]
    assert [item.image.startswith("ami-0newer") for item in alive] == [newer]


def test_an_unknown_version_of_an_image_is_named() -> None:
    async def script(world: Operated) -> None:
        await bought(world, travel_class(amiSelectorTerms=[{"alias": "al2023@v20990101"}]))
        found = condition_of(world.state.get(EC2NodeClass, CLASS), "AMIsReady")
        assert (found.status, found.reason) == ("False", "AMINotFound")
        assert "alias=al2023@v20990101" in found.message

    assert machines(play(script)) == []


def test_a_terabyte_is_asked_for_as_it_is_written() -> None:
    """Encryption is left to the account where the class has mappings of its own."""

    async def script(world: Operated) -> None:
        await bought(world, travel_class())

    (data,) = templates(play(script))
    volume = {"Iops": 3000, "VolumeSize": 1000, "VolumeType": "gp3"}
    assert data["BlockDeviceMappings"] == [{"DeviceName": "/dev/xvda", "Ebs": volume}]


def test_tags_of_the_class_are_on_all_that_is_made() -> None:
    async def script(world: Operated) -> None:
        await bought(world, travel_class(tags={"karpenter.sh/discovery": CLUSTER, "intent": "apps"}))

    world = play(script)
    assert world.fleets is not None
    (request,) = world.fleets.asked
    tagged = {
        item["ResourceType"]: {tag["Key"]: tag["Value"] for tag in item["Tags"]}
        for item in (*request["TagSpecifications"], *templates(world)[0]["TagSpecifications"])
    }
    assert {"instance", "volume", "network-interface"} <= set(tagged)
    for tags in tagged.values():
        assert (tags["karpenter.sh/discovery"], tags["intent"]) == (CLUSTER, "apps")
        assert tags["karpenter.sh/nodepool"] == POOL


@pytest.mark.parametrize(
    "key", ["kubernetes.io/cluster/demo", "karpenter.sh/nodepool", "eks:eks-cluster-name"]
)
def test_restricted_tags_are_refused(key: str) -> None:
    with pytest.raises(Invalid, match="restricted tag"):
        admit(travel_class(tags={key: "x"}))


def test_role_and_profile_together_are_refused() -> None:
    with pytest.raises(Invalid, match="must specify exactly one of"):
        admit(travel_class(instanceProfile="mine"))


def test_the_controllers_role_gives_nodes_that_never_join() -> None:
    """The profile is made around whatever role is named; only the nodes show that it was the wrong one."""

    async def script(world: Operated) -> None:
        world.kubelets.switch_on = lambda _: None  # type: ignore[method-assign]  # the role lets no node join
        await bought(world, travel_class(role="controller"))
        await world.clock.sleep(14 * MINUTE)

    world = play(script)
    profiles = world.aws.iam.profiles.values()
    assert [item.roles for item in profiles] == [("controller",)]
    assert world.records("instance.terminated")


def test_hourly_expiry_is_hourly_churn() -> None:
    """Sixty minutes to the second, whatever budgets say: two dozen launches a day for each node."""

    async def script(world: Operated) -> None:
        wanted = keeping(travel_pool(capacity=("on-demand",), expireAfter="60m"))
        world.create(travel_class(), wanted, inflate(1))
        await world.clock.sleep(6 * HOUR)

    world = play(script)
    created = [record["t"] for record in world.records("claim.created")]
    assert len(created) == 6
    assert all(HOUR <= later - first <= HOUR + 5 * MINUTE for first, later in pairwise(created))
    end = START + 6 * HOUR
    summary = summarize(world.log.records, Run("travel", 1, START, end, "", 0.0))
    assert (summary.nodes.expired, summary.nodes.expired_daily) == (5, 20.0)
    tiles = report_data("travel", Period(START, end, "UTC", 0, REGION), world.log.records, summary)["tiles"]
    (daily,) = [tile["value"] for tile in tiles if "nodes expired" in tile["label"]]
    assert daily == "20"


def test_any_tag_key_selects_and_a_star_is_any_value() -> None:
    async def script(world: Operated) -> None:
        aws = world.aws
        tagged = tuple(
            replace(item, tags={"alpha.eksctl.io/cluster-name": "anything"})
            for item in aws.ec2.account.subnets
        )
        aws.ec2.account = replace(aws.ec2.account, subnets=tagged)
        terms = [{"tags": {"alpha.eksctl.io/cluster-name": "*"}}]
        await bought(world, travel_class(subnetSelectorTerms=terms))

    assert len(machines(play(script))) == 1


def test_a_name_of_images_for_one_architecture_leaves_out_the_types_of_the_other() -> None:
    async def script(world: Operated) -> None:
        aws = world.aws
        known = next(item for item in aws.ec2.account.images if item.arch == "x86_64")
        name = "amazon-eks-node-al2023-x86_64-standard-1.33-v1"
        named = replace(known, id="ami-0named00000000000", name=name)
        aws.ec2.account = replace(aws.ec2.account, images=(*aws.ec2.account.images, named))
        term = {"name": "amazon-eks-node-al2023-x86_64-standard-1.33-*"}
        wanted = keeping(travel_pool(capacity=("on-demand",)))
        wanted["spec"]["template"]["spec"]["requirements"] = [
            {"key": labels.ARCH, "operator": "In", "values": ["amd64", "arm64"]},
            {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m7g.large", "m5.large"]},
        ]
        world.create(travel_class(amiFamily="AL2023", amiSelectorTerms=[term]), wanted, pod("a"))
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    (image,) = status(world)["amis"]
    requirements = {item["key"]: item.get("values") for item in image["requirements"]}
    assert requirements[labels.ARCH] == ["amd64"]
    assert {item.instance_type for item in machines(world)} == {"m5.large"}


def test_metadata_options_are_passed_on_and_a_change_is_drift() -> None:
    options = {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 2,
        "httpTokens": "required",
    }

    async def script(world: Operated) -> None:
        await bought(world, travel_class(metadataOptions=options))
        (data,) = templates(world)
        assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
        assert data["MetadataOptions"]["HttpTokens"] == "required"
        changed = {"metadataOptions": {**options, "httpPutResponseHopLimit": 1}}
        await world.client.patch(EC2NodeClass, CLASS, merge={"spec": changed})
        await world.clock.sleep(MINUTE)
        # Its replacement may be on the way already.
        oldest = min(world.state.all(NodeClaim), key=lambda item: item.metadata.creation_timestamp)
        assert condition_of(oldest, "Drifted").reason == "NodeClassDrift"

    play(script)


@pytest.mark.parametrize(
    ("alias", "words"),
    [
        ("al2023@latest", "apiVersion: node.eks.aws/v1alpha1"),
        ("bottlerocket@latest", "[settings.kubernetes]"),
    ],
)
def test_each_family_gets_its_own_form(alias: str, words: str) -> None:
    async def script(world: Operated) -> None:
        await bought(world, travel_class(amiSelectorTerms=[{"alias": alias}]))

    assert words in user_data(play(script))


def test_a_node_config_of_the_users_own_comes_first_and_dovetails_last() -> None:
    async def script(world: Operated) -> None:
        await bought(world, travel_class(userData=NODE_CONFIG))

    text = user_data(play(script))
    own, ours = text.index("--node-labels=team=games"), text.rindex("kind: NodeConfig")
    assert own < ours
    assert text.count("Content-Type: application/node.eks.aws") == 2
    assert "shutdownGracePeriod: 30s" in text


def test_what_the_kubelet_of_a_large_node_gets() -> None:
    """Eight interfaces of thirty addresses are 234 pods; the pool's taint comes with our own."""

    async def script(world: Operated) -> None:
        wanted = keeping(travel_pool(capacity=("on-demand",)))
        template = wanted["spec"]["template"]["spec"]
        template["requirements"] = [
            {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m6i.4xlarge"]}
        ]
        template["taints"] = [{"key": "application-priority", "value": "critical", "effect": "NoSchedule"}]
        tolerations = [{"key": "application-priority", "operator": "Exists"}]
        world.create(travel_class(), wanted, pod("a", tolerations=tolerations))
        await world.clock.sleep(2 * MINUTE)

    text = user_data(play(script))
    assert "maxPods: 234" in text
    assert "10.100.0.10" in text  # the cluster's DNS service
    assert "application-priority" in text and "karpenter.sh/unregistered" in text


def test_bottlerocket_ignores_pods_per_core_and_says_which_fields_it_cannot_take() -> None:
    async def script(world: Operated) -> None:
        alias = [{"alias": "bottlerocket@latest"}]
        await bought(world, travel_class(amiSelectorTerms=alias, kubelet={"podsPerCore": 4}))
        assert "max-pods = 58" in user_data(world)
        assert len(machines(world)) == 1
        kubelet = {"podsPerCore": 4, "topologyManagerPolicy": "best-effort"}
        await world.client.patch(EC2NodeClass, CLASS, merge={"spec": {"kubelet": kubelet}})
        await world.clock.sleep(MINUTE)
        found = condition_of(world.state.get(EC2NodeClass, CLASS), "ValidationSucceeded")
        assert (found.status, found.reason) == ("False", "UnsupportedKubeletConfiguration")
        assert "topologyManagerPolicy" in found.message

    play(script)


def test_a_spot_node_says_so() -> None:
    async def script(world: Operated) -> None:
        world.create(travel_class(), keeping(travel_pool(capacity=("spot",))), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        (claim,) = world.state.all(NodeClaim)
        assert claim.metadata.labels[labels.CAPACITY_TYPE] == "spot"

    (machine,) = machines(play(script))
    assert machine.spot and machine.zone in ZONES


def test_a_permission_that_is_missing_keeps_one_class_back_and_no_other() -> None:
    async def script(world: Operated) -> None:
        world.aws.gate.options = GateOptions(denied=frozenset({"iam:CreateInstanceProfile"}))
        await bought(world, travel_class())
        found = condition_of(world.state.get(EC2NodeClass, CLASS), "InstanceProfileReady")
        assert found.status == "Unknown"
        assert "iam:CreateInstanceProfile" in found.message
        own = travel_class(instanceProfile="mine")
        own["metadata"] = {"name": "other"}
        del own["spec"]["role"]
        pool = keeping(travel_pool(capacity=("on-demand",)))
        pool["metadata"] = {"name": "other"}
        pool["spec"]["template"]["spec"]["nodeClassRef"] = {
            **pool["spec"]["template"]["spec"]["nodeClassRef"],
            "name": "other",
        }
        world.create(own, pool)
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    assert [item.profile for item in machines(world)] == ["mine"]


def test_a_node_that_has_less_memory_than_was_estimated_is_learned_from() -> None:
    async def script(world: Operated) -> None:
        await bought(world, travel_class())
        (node,) = world.state.all(Node)
        less = amounts(node.status.capacity)["memory"] - 64 * 1024**2
        merge = {"status": {"capacity": {"memory": str(less)}}}
        await world.client.patch(Node, node.metadata.name, merge=merge, status=True)
        await world.clock.sleep(MINUTE)
        found = world.state.get(EC2NodeClass, CLASS)
        types = {item.name: item for item in world.cloud.provider.instance_types(found)}
        assert types[node.metadata.labels[labels.INSTANCE_TYPE]].capacity["memory"] == less

    play(script)


async def in_reserved_capacity(world: Operated, reservation: CapacityReservation) -> NodeClaim:
    """A claim that runs in it."""
    aws = world.aws
    aws.ec2.account = replace(aws.ec2.account, reservations=(reservation,))
    terms = [{"id": "cr-1"}]
    pool = keeping(travel_pool(capacity=("reserved", "on-demand")))
    world.create(travel_class(capacityReservationSelectorTerms=terms), pool, pod("a"))
    await world.clock.sleep(3 * MINUTE)
    (claim,) = world.state.all(NodeClaim)
    assert claim.metadata.labels[labels.CAPACITY_TYPE] == "reserved"
    assert claim.metadata.labels[labels.RESERVATION_ID] == "cr-1"
    (machine,) = machines(world)
    assert machine.reservation == "cr-1"
    return claim


def test_a_node_whose_reservation_ended_is_on_demand() -> None:
    async def script(world: Operated) -> None:
        await in_reserved_capacity(world, reserved())
        (machine,) = world.aws.machines.visible()
        machine.instance = replace(machine.instance, reservation="")
        await world.clock.sleep(2 * MINUTE)
        (claim,), (node,) = world.state.all(NodeClaim), world.state.all(Node)
        for found in (claim.metadata.labels, node.metadata.labels):
            assert found[labels.CAPACITY_TYPE] == "on-demand"
            assert labels.RESERVATION_ID not in found

    play(script)


def test_a_block_of_capacity_is_left_forty_minutes_before_it_ends() -> None:
    ends = START + 2 * HOUR

    async def script(world: Operated) -> None:
        claim = await in_reserved_capacity(world, reserved("capacity-block", ends))
        await world.clock.sleep(ends - 42 * MINUTE - world.clock.now())
        assert not world.records("claim.deleted", claim=claim.metadata.name)
        assert len(machines(world)) == 1
        await world.clock.sleep(5 * MINUTE)
        state = world.state.get(NodeClaim, claim.metadata.name)
        assert state is None or state.deleting
        assert {item["state"] for item in status(world)["capacityReservations"]} == {"expiring"}

    play(script)


def test_nothing_is_launched_into_a_zone_that_is_shifted_away_from() -> None:
    async def script(world: Operated) -> None:
        aws = world.aws
        loop = asyncio.get_running_loop()
        running = [loop.create_task(part) for _, part in world.cloud.upkeep()]
        first, second = ZONES
        ids = {item.zone: item.zone_id for item in aws.ec2.account.subnets}
        aws.zonal_shift.away = {ids[first]}
        await world.clock.sleep(MINUTE)
        await bought(world, travel_class(), *(pod(f"p{number}", "5") for number in range(3)))
        assert {item.zone for item in machines(world)} == {second}
        elsewhere = keeping(travel_pool(capacity=("on-demand",)))
        zones = {"key": labels.ZONE, "operator": "In", "values": [first]}
        elsewhere["spec"]["template"]["spec"]["requirements"].append(zones)
        world.create({**elsewhere, "metadata": {"name": "elsewhere"}})
        await world.clock.sleep(SECOND)
        aws.zonal_shift.away = {ids[second]}
        await world.clock.sleep(2 * MINUTE)
        assert f"({ids[second]}) are unavailable" in world.messages("ZonalShiftActive")[0]
        assert f"({ids[first]}) are restored" in world.messages("ZonalShiftCleared")[0]
        told = [item["reason"] for item in world.records("event", object="NodePool/elsewhere")]
        assert "ZonalShiftCleared" in told and "ZonalShiftActive" not in told
        world.create(pod("late", "5"))
        await world.clock.sleep(2 * MINUTE)
        assert {item.zone for item in machines(world)} == {first, second}
        aws.zonal_shift.away = None
        await world.clock.sleep(2 * MINUTE)
        assert not world.cloud.provider.supply.shifted_zones()
        for part in running:
            part.cancel()

    play(script)


def test_nodes_of_a_zone_that_is_shifted_away_from_stay_until_that_is_over() -> None:
    async def script(world: Operated) -> None:
        loop = asyncio.get_running_loop()
        running = [loop.create_task(part) for _, part in world.cloud.upkeep()]
        eager = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}
        pool = keeping(travel_pool(capacity=("on-demand",)), **eager)
        world.create(travel_class(), pool, pod("p", "5"))
        await world.clock.sleep(2 * MINUTE)
        (zone,) = {item.zone for item in machines(world)}
        ids = {item.zone: item.zone_id for item in world.aws.ec2.account.subnets}
        world.aws.zonal_shift.away = {ids[zone]}
        await world.clock.sleep(MINUTE)
        await world.client.delete(Pod, "p", "default")
        await world.clock.sleep(10 * MINUTE)
        assert len(world.state.all(NodeClaim)) == 1
        assert f"The cluster is shifted away from the node's zone (Zone={zone})" in world.messages(
            "DisruptionBlocked"
        )
        world.aws.zonal_shift.away = set()
        await world.clock.sleep(5 * MINUTE)
        assert not world.state.all(NodeClaim)
        for part in running:
            part.cancel()

    play(script)


def test_what_was_made_for_a_class_goes_with_it() -> None:
    async def script(world: Operated) -> None:
        await bought(world, travel_class())
        aws = world.aws
        assert aws.iam.profiles and templates(world)
        world.server.delete(EC2NodeClass, CLASS)
        await world.clock.sleep(MINUTE)
        (waiting,) = set(world.messages("WaitingOnNodeClaimTermination"))
        assert waiting.startswith("Waiting on NodeClaim termination for karpenter-node-pool-")
        for claim in world.state.all(NodeClaim):
            world.server.delete(NodeClaim, claim.metadata.name)
        await world.clock.sleep(15 * MINUTE)
        assert world.state.get(EC2NodeClass, CLASS) is None
        assert not aws.iam.profiles
        assert not templates(world)

    play(script)


def test_a_new_role_gives_new_nodes_a_new_profile_and_old_ones_keep_theirs() -> None:
    async def script(world: Operated) -> None:
        pool = keeping(travel_pool(capacity=("on-demand",)))
        pool["spec"]["disruption"]["budgets"] = [{"nodes": "0"}]
        world.create(travel_class(), pool, pod("a", "5"))
        await world.clock.sleep(2 * MINUTE)
        aws = world.aws
        (first,) = aws.iam.profiles
        await world.client.patch(EC2NodeClass, CLASS, merge={"spec": {"role": "nodes"}})
        world.create(pod("b", "5"))
        await world.clock.sleep(HOUR)
        assert len(aws.iam.profiles) == 2
        assert machines(world)[0].profile == first
        assert len({item.profile for item in machines(world)}) == 2
        (claim,) = [
            item
            for item in world.state.all(NodeClaim)
            if item.metadata.annotations[labels.INSTANCE_PROFILE] == first
        ]
        await world.client.delete(NodeClaim, claim.metadata.name)
        await world.clock.sleep(HOUR)
        assert first not in aws.iam.profiles

    play(script)
