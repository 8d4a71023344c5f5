"""Launch templates: one for all types of a launch that get the same image, user data and interfaces."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dovetail.api.karpenter.ec2nodeclass import (
    BlockDeviceMapping,
    EC2NodeClass,
    EC2NodeClassSpec,
    MetadataOptions,
)
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.errors import CreateFailed
from dovetail.cloud.aws.amifamily.userdata import Cluster, Kubelets, Machine, bootstrap, render
from dovetail.cloud.catalog.assemble import runs
from dovetail.cloud.catalog.capacity import EFA
from dovetail.cloud.catalog.devices import EFA_DRIVER
from dovetail.cloud.catalog.labels import tenancy
from dovetail.cloud.catalog.settings import GIB, ami_family, devices, parse_size
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.cloud.choice import CAPACITY_BLOCK, Choice, reservation_kind
from dovetail.cloud.provider import NodeClassResolution, ResolvedImage
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.requirement import Requirements
from dovetail.model.resources import Resources, amounts

# A part of a request as EC2's API spells it.
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Launch:
    """A claim to launch for, and what its class stands for at this moment."""

    claim: NodeClaim
    node_class: EC2NodeClass
    cluster: Cluster
    capacity_type: str
    region: str
    tags: Mapping[str, str]
    images: tuple[ResolvedImage, ...]  # newest first
    security_groups: tuple[str, ...]  # ids
    instance_profile: str
    placement_group: str = ""  # its id
    partitions: int | None = None  # that the group has
    reserved_enis: int = 0
    reserved_capacity: bool = True  # the feature gate
    expressions: bool = True  # the feature gate
    # Read once from the claim.
    requirements: Requirements = field(init=False)
    requests: Resources = field(init=False)

    def __post_init__(self) -> None:
        spec = self.claim.spec
        object.__setattr__(self, "requirements", Requirements.read(spec.requirements))
        object.__setattr__(self, "requests", amounts(spec.resources.requests))

    @property
    def wants_efa(self) -> bool:
        """True iff its pods ask for EFAs: by amount, or by claims for the driver's devices."""
        drivers = self.claim.metadata.annotations.get(labels.REQUESTED_DRIVERS, "")
        return bool(self.requests.get(EFA)) or EFA_DRIVER in drivers.split(",")


@dataclass(frozen=True, slots=True)
class Stage:
    """What a launch needs to know of the cluster and the region, whatever its class."""

    cluster: Cluster
    region: str
    records: Mapping[str, TypeRecord]
    reserved_enis: int = 0
    expressions: bool = True


def launch_from(
    claim: NodeClaim,
    node_class: EC2NodeClass,
    found: NodeClassResolution,
    stage: Stage,
    *,
    pool: str,
    capacity_type: str,
    reserved_capacity: bool = True,
) -> Launch:
    """The launch of a claim from a class that resolves to `found`; `pool` is in its tags."""
    group = found.placement_group
    return Launch(
        claim=claim,
        node_class=node_class,
        cluster=stage.cluster,
        capacity_type=capacity_type,
        region=stage.region,
        tags=cluster_tags(stage.cluster.name, pool, node_class.metadata.name, node_class.spec.tags),
        images=found.images,
        security_groups=tuple(item.id for item in found.security_groups),
        instance_profile=found.instance_profile,
        placement_group=group.id if group else "",
        partitions=group.partitions if group else None,
        reserved_enis=stage.reserved_enis,
        reserved_capacity=reserved_capacity,
        expressions=stage.expressions,
    )


def cluster_tags(cluster: str, node_pool: str, node_class: str, own: Mapping[str, str]) -> dict[str, str]:
    """The tags of everything that is launched: the class's own, and those that must not change."""
    return {
        **own,
        f"kubernetes.io/cluster/{cluster}": "owned",
        "karpenter.sh/nodepool": node_pool,
        "karpenter.k8s.aws/ec2nodeclass": node_class,
        "eks:eks-cluster-name": cluster,
    }


def tagged(kinds: Iterable[str], tags: Mapping[str, str]) -> list[Document]:
    """TagSpecifications for resources of these kinds."""
    written = [{"Key": key, "Value": tags[key]} for key in sorted(tags)]
    return [{"ResourceType": kind, "Tags": written} for kind in kinds]


def interfaces(
    node_class: EC2NodeClass, security_groups: tuple[str, ...], *, efa: int, ipv6: bool
) -> list[Document]:
    """Those that the class names, else one EFA per network card for `efa` of them, else the primary one."""
    spec = node_class.spec
    return [
        {**place, "Groups": list(security_groups), **details} for place, details in _places(spec, efa, ipv6)
    ]


def _places(spec: EC2NodeClassSpec, efa: int, ipv6: bool) -> Iterator[tuple[Document, Document]]:
    """(where the interface is, what it carries)"""
    for item in spec.network_interfaces:
        card, device, kind = item["networkCardIndex"], item["deviceIndex"], item["interfaceType"]
        place = {"NetworkCardIndex": card, "DeviceIndex": device, "InterfaceType": kind}
        # An interface that is for EFA alone has no addresses.
        yield place, {} if kind == "efa-only" else _addresses(spec, ipv6)
    if spec.network_interfaces:
        return
    for card in range(efa):
        place = {"NetworkCardIndex": card, "DeviceIndex": min(card, 1), "InterfaceType": "efa"}
        yield place, _addresses(spec, ipv6)
    if not efa:
        yield {"DeviceIndex": 0}, _addresses(spec, ipv6)


def _addresses(spec: EC2NodeClassSpec, ipv6: bool) -> Document:
    found: Document = {}
    if spec.associate_public_ip_address is not None:
        found["AssociatePublicIpAddress"] = spec.associate_public_ip_address
    if spec.connection_tracking:
        found["ConnectionTrackingSpecification"] = {
            name[:1].upper() + name[1:]: value for name, value in spec.connection_tracking.items()
        }
    if spec.ip_prefix_count is not None:
        found["Ipv6PrefixCount" if ipv6 else "Ipv4PrefixCount"] = spec.ip_prefix_count
    if ipv6:
        found |= {"Ipv6AddressCount": 1, "PrimaryIpv6": True}
    return found


PREFIX = "karpenter.k8s.aws/"
_SANDBOX = "eks.amazonaws.com/nitro-sandbox"
_MARKETS = {CAPACITY_BLOCK: CAPACITY_BLOCK, "interruptible": "interruptible-capacity-reservation"}
_VOLUME = (
    ("DeleteOnTermination", "delete_on_termination"),
    ("Encrypted", "encrypted"),
    ("Iops", "iops"),
    ("KmsKeyId", "kms_key_id"),
    ("SnapshotId", "snapshot_id"),
    ("Throughput", "throughput"),
    ("VolumeInitializationRate", "volume_initialization_rate"),
    ("VolumeType", "volume_type"),
)


@dataclass(frozen=True, slots=True)
class Template:
    """A launch template and the types that are launched from it. Its name is a hash of its content."""

    name: str
    data: Document
    types: tuple[InstanceType, ...]
    reservation: str = ""

    @property
    def user_data_bytes(self) -> int:
        """Before base64, which is how EC2 counts."""
        return len(b64decode(self.data.get("UserData", "")))

    def request(self, launch: Launch) -> Document:
        """CreateLaunchTemplate."""
        return {
            "LaunchTemplateName": self.name,
            "LaunchTemplateData": self.data,
            "TagSpecifications": tagged(("launch-template",), launch.tags),
        }


@dataclass(frozen=True, slots=True)
class _Group:
    """What types of one template share."""

    image: ResolvedImage
    user_data: str
    interfaces: str  # as JSON, so that groups can be compared
    reservation: str = ""
    market: str = ""


def templates(launch: Launch, choice: Choice, records: Mapping[str, TypeRecord]) -> tuple[Template, ...]:
    """The templates for the types of a choice, in the order of their first types.

    Types that no image of the class boots on are left out, and those that cannot be what the class asks for
    (it may have changed since they were chosen); CreateFailed when that is all of them. Raises InputError
    for user data or kubelet settings that cannot be read.
    """
    groups: dict[_Group, list[InstanceType]] = {}
    alike: dict[tuple[ResolvedImage, str, int], _Group] = {}  # most types of a launch are
    kubelets = Kubelets.of(
        launch.node_class,
        launch.cluster,
        reserved_enis=launch.reserved_enis,
        with_expressions=launch.expressions,
    )
    for item in choice.types:
        image, record = image_on(item, launch.images), records[item.name]
        if image is None or not runs(record, kubelets.settings):
            continue
        efa = item.capacity.get(EFA, 0) if launch.wants_efa else 0
        key = image, json.dumps(kubelets.on(record)), efa
        shared = alike.get(key)
        if shared is None:
            shared = alike[key] = _group(launch, image, record, efa)
        for group in _reserved(launch, item, shared):
            groups.setdefault(group, []).append(item)
    if not groups:
        raise CreateFailed(
            "no image of the node class boots on any of the types", "InstanceTypeResolutionFailed"
        )
    return tuple(_template(launch, group, types) for group, types in groups.items())


def _group(launch: Launch, image: ResolvedImage, record: TypeRecord, efa: int) -> _Group:
    """Of all types with that image whose kubelets are told the same, and that take as many EFAs."""
    claim = launch.claim
    machine = Machine(
        record,
        launch.capacity_type,
        image.name,
        labels=claim.metadata.labels,
        taints=claim.spec.taints,
        startup_taints=claim.spec.startup_taints,
    )
    node = bootstrap(
        launch.node_class,
        machine,
        launch.cluster,
        reserved_enis=launch.reserved_enis,
        with_expressions=launch.expressions,
    )
    cards = interfaces(launch.node_class, launch.security_groups, efa=efa, ipv6=node.ipv6)
    # Types whose kubelets take different numbers of pods have templates of their own, even where the user
    # data of the class does not mention the number.
    return _Group(image, render(node), json.dumps([cards, node.kubelet["maxPods"]]))


def _reserved(launch: Launch, item: InstanceType, shared: _Group) -> Iterable[_Group]:
    """One for each reservation of the type, where reservations are what is launched into."""
    if launch.capacity_type != labels.RESERVED:
        return (shared,)
    return tuple(
        replace(shared, reservation=offering.reservation_id, market=_market(offering))
        for offering in item.offerings
        if offering.capacity_type == labels.RESERVED
    )


def _market(offering: Offering) -> str:
    return _MARKETS.get(reservation_kind(offering), "")


def image_on(item: InstanceType, images: Iterable[ResolvedImage]) -> ResolvedImage | None:
    """The first image that boots on the type; None if none does."""
    return next((image for image in images if item.requirements.overlaps(image.requirements)), None)


def _template(launch: Launch, group: _Group, types: list[InstanceType]) -> Template:
    data = _data(launch, group)
    text = json.dumps([data, dict(launch.tags)], sort_keys=True)
    digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    return Template(f"{PREFIX}{digest}", data, tuple(types), group.reservation)


def _data(launch: Launch, group: _Group) -> Document:
    spec = launch.node_class.spec
    spot = ("spot-instances-request",) if launch.capacity_type == labels.SPOT else ()
    ipv6 = ":" in (launch.cluster.dns_ip or "")
    data: Document = {
        "BlockDeviceMappings": _volumes(launch),
        "CapacityReservationSpecification": _reservation(launch, group.reservation),
        "CpuOptions": {name[:1].upper() + name[1:]: value for name, value in spec.cpu_options.items()},
        "EnclaveOptions": {"Enabled": spec.enclave_options.get("enabled", _SANDBOX in launch.requests)},
        "IamInstanceProfile": {"Name": launch.instance_profile} if launch.instance_profile else {},
        "ImageId": group.image.id,
        "InstanceMarketOptions": {"MarketType": group.market} if group.market else {},
        "MetadataOptions": _metadata(spec.metadata_options, launch.region, ipv6=ipv6),
        "Monitoring": {"Enabled": bool(spec.detailed_monitoring)},
        "NetworkInterfaces": json.loads(group.interfaces)[0],
        "Placement": _placement(launch),
        "TagSpecifications": tagged(("network-interface", *spot), launch.tags),
        "UserData": b64encode(group.user_data.encode()).decode(),
    }
    return {name: value for name, value in data.items() if value not in ({}, [])}


def _volumes(launch: Launch) -> list[Document]:
    mappings = launch.node_class.spec.block_device_mappings
    if mappings:
        return [_mapping(item, index) for index, item in enumerate(mappings)]
    family = ami_family(launch.node_class)
    if family == "Custom":
        return []  # the devices of such an image are unknown
    usual = {"Encrypted": True, "VolumeType": "gp3"}
    return [
        {"DeviceName": name, "Ebs": {**usual, "VolumeSize": gib}} for name, gib in devices(family).items()
    ]


def _mapping(item: BlockDeviceMapping, index: int) -> Document:
    if item.ebs is None:
        return {"DeviceName": item.device_name}
    found = {name: getattr(item.ebs, attribute) for name, attribute in _VOLUME}
    volume = {name: value for name, value in found.items() if value not in (None, "")}
    if item.ebs.volume_size is not None:
        size = parse_size(item.ebs.volume_size, f"spec.blockDeviceMappings[{index}].ebs.volumeSize")
        volume["VolumeSize"] = -(-size // GIB)
    return {"DeviceName": item.device_name, "Ebs": volume}


def _reservation(launch: Launch, identifier: str) -> Document:
    if not launch.reserved_capacity:
        return {}
    if not identifier:
        # Open reservations of others in the account would be eaten otherwise.
        return {"CapacityReservationPreference": "none"}
    return {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": identifier},
    }


def _metadata(options: MetadataOptions | None, region: str, *, ipv6: bool) -> Document:
    if options is None:
        options = MetadataOptions(
            http_endpoint="disabled",
            http_protocol_ipv6="enabled" if ipv6 else "disabled",
            http_put_response_hop_limit=2,
            http_tokens="required",
        )
    written = {
        "HttpEndpoint": options.http_endpoint,
        "HttpProtocolIpv6": None if "-iso" in region else options.http_protocol_ipv6,
        "HttpPutResponseHopLimit": options.http_put_response_hop_limit or 0,
        "HttpTokens": options.http_tokens,
        "InstanceMetadataTags": "disabled",
    }
    return {name: value for name, value in written.items() if value is not None}


def _placement(launch: Launch) -> Document:
    placement: Document = {"Tenancy": tenancy(launch.requirements)}
    if launch.placement_group:
        placement["GroupId"] = launch.placement_group
        partitions = launch.requirements.by_key.get(labels.PARTITION)
        # Where any will do EC2 spreads instances over them itself.
        some = partitions.values if partitions is not None and not partitions.complement else ()
        if some and len(some) != launch.partitions:
            placement["PartitionNumber"] = min(map(int, some))
    return placement
