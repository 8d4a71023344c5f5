"""karpenter.k8s.aws/v1 EC2NodeClass, as far as Dovetail reads it."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from dovetail.api.codec import without_nulls
from dovetail.api.karpenter.nodeclass import NodeClass, NodeClassStatus
from dovetail.api.meta import Part

# Families that an alias such as "al2023@latest" may name, and what amiFamily calls them.
ALIAS_FAMILIES = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows2019": "Windows2019",
    "windows2022": "Windows2022",
    "windows2025": "Windows2025",
}


class SelectorTerm(Part, frozen=True, kw_only=True):
    """A term of any of the selectors: fields inside are ANDed, terms are ORed."""

    alias: str = ""
    id: str = ""
    name: str = ""
    owner: str = ""
    ssm_parameter: str = ""
    tags: dict[str, str] = {}
    owner_id: str = msgspec.field(name="ownerID", default="")
    instance_match_criteria: str = ""


class PlacementGroupSelector(Part, frozen=True, kw_only=True):
    """A placement group by its name or by its id."""

    id: str = ""
    name: str = ""


class ElasticBlockStore(Part, frozen=True, kw_only=True):
    volume_size: str | int | None = None
    volume_type: str = ""
    iops: int | None = None
    throughput: int | None = None
    encrypted: bool | None = None
    snapshot_id: str = msgspec.field(name="snapshotID", default="")
    kms_key_id: str = msgspec.field(name="kmsKeyID", default="")
    delete_on_termination: bool | None = None
    volume_initialization_rate: int | None = None


class BlockDeviceMapping(Part, frozen=True, kw_only=True):
    device_name: str = ""
    root_volume: bool = False
    ebs: ElasticBlockStore | None = None


class MetadataOptions(Part, frozen=True, kw_only=True):
    """The schema's defaults fill what is left out; None stands for what no schema filled."""

    http_endpoint: str | None = None
    http_protocol_ipv6: str | None = msgspec.field(name="httpProtocolIPv6", default=None)
    http_put_response_hop_limit: int | None = None
    http_tokens: str | None = None


class EC2NodeClassSpec(Part, frozen=True, kw_only=True):
    ami_selector_terms: tuple[SelectorTerm, ...] = ()
    subnet_selector_terms: tuple[SelectorTerm, ...] = ()
    security_group_selector_terms: tuple[SelectorTerm, ...] = ()
    capacity_reservation_selector_terms: tuple[SelectorTerm, ...] = ()
    placement_group_selector: PlacementGroupSelector | None = None
    ami_family: str = ""
    role: str = ""
    instance_profile: str = ""
    block_device_mappings: tuple[BlockDeviceMapping, ...] = ()
    instance_store_policy: str = ""
    # Upstream kubelet settings by their own names; checked at run time, not by the schema.
    kubelet: dict[str, Any] = {}
    metadata_options: MetadataOptions | None = None
    tags: dict[str, str] = {}
    user_data: str = ""
    # Settings of the instance that are only passed on, and compared when a node may have drifted.
    associate_public_ip_address: bool | None = msgspec.field(name="associatePublicIPAddress", default=None)
    connection_tracking: dict[str, Any] = {}
    context: str = ""
    cpu_options: dict[str, Any] = {}
    detailed_monitoring: bool | None = None
    enclave_options: dict[str, Any] = {}
    ip_prefix_count: int | None = None
    network_interfaces: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        """A server keeps nulls of the kubelet's settings, `clusterDNS:` with nothing behind it, for one."""
        msgspec.structs.force_setattr(self, "kubelet", without_nulls(self.kubelet))


class EC2NodeClassStatus(NodeClassStatus, frozen=True, kw_only=True):
    subnets: tuple[dict[str, str], ...] = ()
    instance_profile: str = ""
    capacity_reservations: tuple[dict[str, Any], ...] = ()


class EC2NodeClass(NodeClass, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "karpenter.k8s.aws/v1"
    KIND: ClassVar[str] = "EC2NodeClass"
    PLURAL: ClassVar[str] = "ec2nodeclasses"

    spec: EC2NodeClassSpec = EC2NodeClassSpec()
    status: EC2NodeClassStatus = EC2NodeClassStatus()
