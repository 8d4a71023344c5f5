"""Launch templates and fleet requests where recorded answers are silent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.errors import CreateFailed, InsufficientCapacity
from dovetail.cloud import catalog
from dovetail.cloud.aws.amifamily.userdata import Cluster
from dovetail.cloud.aws.instance.request import fleet_request
from dovetail.cloud.aws.instancetype.market import Reservation, with_reservations
from dovetail.cloud.aws.launchtemplate.template import Launch, Template, cluster_tags, templates
from dovetail.cloud.catalog import store
from dovetail.cloud.choice import Choice, Request, choose
from dovetail.cloud.provider import ResolvedImage
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.requirement import Requirement, Requirements

AMD64 = Requirements.of((Requirement.new(labels.ARCH, "In", ("amd64",)),))
OVERLAY, TENANCY = "karpenter.sh/price-overlay-applied", "karpenter.k8s.aws/instance-tenancy"
SUBNETS = {f"us-east-1{zone}": f"subnet-{zone}" for zone in "abcdef"}
RECORDS = {record.name: record for record in store.load().types}


def types(*names: str, **spec: Any) -> list[InstanceType]:
    """Of a class with this spec."""
    return [item for item in catalog.instance_types("us-east-1", node_class(**spec)) if item.name in names]


def node_class(**spec: Any) -> EC2NodeClass:
    document = {"amiSelectorTerms": [{"alias": "al2023@latest"}], **spec}
    return decode({"metadata": {"name": "default"}, "spec": document}, EC2NodeClass)


def launch(
    *,
    capacity_type: str = "on-demand",
    annotations: dict[str, str] | None = None,
    terms: Sequence[object] = (),
    **spec: Any,
) -> Launch:
    """Of a claim that demands the capacity type, and `terms`."""
    asked = [*terms, {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [capacity_type]}]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    meta = {"name": "c", "annotations": annotations or {}}
    claim = {"metadata": meta, "spec": {"nodeClassRef": reference, "requirements": asked}}
    return Launch(
        claim=decode(claim, NodeClaim),
        node_class=node_class(**spec),
        cluster=Cluster("demo", "https://demo", None, "10.0.0.0/16"),
        capacity_type=capacity_type,
        region="us-east-1",
        tags={"team": "a"},
        images=(ResolvedImage("ami-1", "one", AMD64),),
        security_groups=("sg-1",),
        instance_profile="profile",
    )


def made(offered: list[InstanceType], wanted: Launch) -> tuple[Choice, tuple[Template, ...]]:
    choice = choose(offered, Request(wanted.requirements, wanted.requests))
    return choice, templates(wanted, choice, RECORDS)


@pytest.mark.parametrize(
    ("drivers", "efas"),
    [("", 0), ("gpu.nvidia.com", 0), ("dra.net", 4), ("dra.net,gpu.nvidia.com", 4), ("dra.network", 0)],
)
def test_efas_are_attached_for_claims_of_their_driver(drivers: str, efas: int) -> None:
    marks = {"karpenter.sh/requested-dra-drivers": drivers} if drivers else {}
    _, (found,) = made(types("p4d.24xlarge"), launch(annotations=marks))
    kinds = [one.get("InterfaceType") for one in found.data["NetworkInterfaces"]]
    assert kinds.count("efa") == efas


def test_types_without_an_image_are_left_out() -> None:
    _, found = made(types("m5.large", "m6g.large"), launch())
    assert [[item.name for item in one.types] for one in found] == [["m5.large"]]


def test_no_image_for_any_type() -> None:
    with pytest.raises(CreateFailed, match="no image of the node class boots") as raised:
        made(types("m6g.large"), launch())
    assert raised.value.reason == "InstanceTypeResolutionFailed"


def test_no_subnet_in_any_zone() -> None:
    wanted = launch()
    choice, found = made(types("m5.large"), wanted)
    with pytest.raises(CreateFailed, match="no subnet in us-east-1a, us-east-1b") as raised:
        fleet_request(wanted, choice, found, {"us-west-2a": "subnet-w"}, {})
    assert raised.value.reason == "SubnetResolutionFailed"


def test_reservations_that_differ_between_types_have_templates_of_their_own() -> None:
    kubelet = {"maxPods": 30, "kubeReserved": {"cpu": "vcpus * 20"}}
    wanted = launch(kubelet=kubelet)
    _, found = made(types("m5.large", "c5a.xlarge", "c5.xlarge", kubelet=kubelet), wanted)
    assert [{item.name for item in one.types} for one in found] == [{"m5.large"}, {"c5.xlarge", "c5a.xlarge"}]


def test_the_name_is_a_hash_of_the_content() -> None:
    kinds = types("m5.large")
    names = [made(kinds, launch(**spec))[1][0].name for spec in ({}, {}, {"detailedMonitoring": True})]
    assert names[0] == names[1] != names[2]


def test_a_full_reservation_takes_no_claim() -> None:
    full = Reservation("cr-1", "m5.large", "us-east-1a", "use1-az1", "default", left=0)
    offered = [with_reservations(item, [full]) for item in types("m5.large")]
    with pytest.raises(InsufficientCapacity):
        made(offered, launch(capacity_type="reserved"))


def test_the_emptiest_reservation_of_a_zone_is_taken() -> None:
    both = [
        Reservation(f"cr-{left}", "m5.large", "us-east-1a", "use1-az1", "default", left=left)
        for left in (2, 5)
    ]
    wanted = launch(capacity_type="reserved")
    choice, found = made([with_reservations(item, both) for item in types("m5.large", "c5.large")], wanted)
    assert [one.reservation for one in found] == ["cr-5"]
    request = fleet_request(wanted, choice, found, SUBNETS, {"m5.large": 96_000_000})
    (override,) = request["LaunchTemplateConfigs"][0]["Overrides"]
    assert (override["AvailabilityZone"], override["Priority"]) == ("us-east-1a", pytest.approx(9.6e-9))


def test_the_price_of_an_overlay_is_the_priority_of_a_reservation_too() -> None:
    one = Reservation("cr-1", "m5.large", "us-east-1a", "use1-az1", "default", left=2)
    (kind,) = (with_reservations(item, [one]) for item in types("m5.large"))
    priced = tuple(replace(offer, price=20_000_000) for offer in kind.offerings)
    wanted = launch(capacity_type="reserved")
    choice, found = made([replace(kind, offerings=priced)], wanted)
    request = fleet_request(wanted, choice, found, SUBNETS, {"m5.large": 96_000_000})
    assert request["LaunchTemplateConfigs"][0]["Overrides"][0]["Priority"] == pytest.approx(0.02)


def test_a_reservation_is_asked_for_by_its_own_template_alone() -> None:
    both = [
        Reservation(f"cr-{zone}", "m5.large", f"us-east-1{zone}", f"use1-az-{zone}", "default", left=3)
        for zone in "ab"
    ]
    wanted = launch(capacity_type="reserved")
    choice, found = made([with_reservations(item, both) for item in types("m5.large")], wanted)
    request = fleet_request(wanted, choice, found, SUBNETS, {"m5.large": 96_000_000})
    zones = [
        [override["AvailabilityZone"] for override in config["Overrides"]]
        for config in request["LaunchTemplateConfigs"]
    ]
    assert [one.reservation for one in found] == ["cr-a", "cr-b"]
    assert zones == [["us-east-1a"], ["us-east-1b"]]


def test_equal_launches_are_equal_requests_in_whatever_order_types_come() -> None:
    wanted = launch()
    offered = types("m5.large", "c5.large")
    requests = []
    for some in (offered, offered[::-1]):
        choice, found = made(some, wanted)
        requests.append(fleet_request(wanted, choice, found, {"us-east-1b": "b", "us-east-1a": "a"}, {}))
    assert requests[0] == requests[1]
    (config,) = requests[0]["LaunchTemplateConfigs"]
    assert [(one["AvailabilityZone"], one["InstanceType"]) for one in config["Overrides"]] == [
        ("us-east-1a", "c5.large"),
        ("us-east-1a", "m5.large"),
        ("us-east-1b", "c5.large"),
        ("us-east-1b", "m5.large"),
    ]


def test_own_tags_do_not_change_those_of_the_cluster() -> None:
    own = {"karpenter.sh/nodepool": "mine", "team": "a"}
    assert cluster_tags("demo", "web", "default", own) == {
        "team": "a",
        "kubernetes.io/cluster/demo": "owned",
        "karpenter.sh/nodepool": "web",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "eks:eks-cluster-name": "demo",
    }


@pytest.mark.parametrize(
    ("capacity_type", "annotations", "options"),
    [
        ("spot", {}, {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}}),
        (
            "spot",
            {OVERLAY: "true"},
            {"SpotOptions": {"AllocationStrategy": "capacity-optimized-prioritized"}},
        ),
        ("on-demand", {}, {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}),
        ("on-demand", {OVERLAY: "true"}, {"OnDemandOptions": {"AllocationStrategy": "prioritized"}}),
    ],
)
def test_prices_of_an_overlay_make_the_fleet_follow_priorities(
    capacity_type: str, annotations: dict[str, str], options: dict[str, object]
) -> None:
    wanted = launch(capacity_type=capacity_type, annotations=annotations)
    choice, templates_made = made(types("m5.large"), wanted)
    request = fleet_request(wanted, choice, templates_made, SUBNETS, {})
    assert {name: value for name, value in request.items() if name.endswith("Options")} == options


def test_tags_of_the_class_reach_instances_volumes_and_the_fleet() -> None:
    own = {"Name": "mine", "team": "a"}
    wanted = replace(launch(), tags=cluster_tags("demo", "web", "default", own))
    choice, templates_made = made(types("m5.large"), wanted)
    request = fleet_request(wanted, choice, templates_made, SUBNETS, {})
    found = {item["ResourceType"]: item["Tags"] for item in request["TagSpecifications"]}
    assert list(found) == ["instance", "volume", "fleet"]
    for written in found.values():
        assert {one["Key"]: one["Value"] for one in written}.items() >= own.items()
        assert [one["Key"] for one in written] == sorted(one["Key"] for one in written)


def test_a_dedicated_launch() -> None:
    """EC2 has the offerings of a type under either tenancy; which one it is stands in the template."""
    wanted = launch(terms=[{"key": TENANCY, "operator": "In", "values": ["dedicated"]}])
    _, (template,) = made(types("m5.large"), wanted)
    assert template.data["Placement"] == {"Tenancy": "dedicated"}


def test_a_class_that_changed_since_the_choice_leaves_types_out() -> None:
    spec = {
        "cpuOptions": {"nestedVirtualization": "enabled"},
        "connectionTracking": {"tcpEstablishedTimeout": 350, "udpTimeout": 45},
    }
    wanted = launch(**spec)
    _, (template,) = made(types("m5.large", "m8i.large"), wanted)
    assert [item.name for item in template.types] == ["m8i.large"]
    assert template.data["CpuOptions"] == {"NestedVirtualization": "enabled"}
    assert template.data["NetworkInterfaces"] == [
        {
            "DeviceIndex": 0,
            "Groups": ["sg-1"],
            "ConnectionTrackingSpecification": {"TcpEstablishedTimeout": 350, "UdpTimeout": 45},
        }
    ]
    with pytest.raises(CreateFailed, match="no image of the node class boots"):
        made(types("m5.large"), wanted)


def test_enclaves_run_where_the_class_says_so() -> None:
    _, (template,) = made(types("m5.large", "m5.xlarge"), launch(enclaveOptions={"enabled": True}))
    assert [item.name for item in template.types] == ["m5.xlarge"]
    assert template.data["EnclaveOptions"] == {"Enabled": True}
    _, (template,) = made(types("m5.xlarge"), launch(enclaveOptions={"enabled": False}))
    assert template.data["EnclaveOptions"] == {"Enabled": False}


def test_every_interface_with_addresses_has_its_own_in_ipv6() -> None:
    listed = [
        {"networkCardIndex": 0, "deviceIndex": device, "interfaceType": kind}
        for device, kind in enumerate(("interface", "interface", "efa-only"))
    ]
    wanted = launch(networkInterfaces=listed)
    wanted = replace(wanted, cluster=replace(wanted.cluster, dns_ip="fd00::a"))
    _, (template,) = made(types("c6in.32xlarge"), wanted)
    own = [one.get("PrimaryIpv6") for one in template.data["NetworkInterfaces"]]
    assert own == [True, True, None]
