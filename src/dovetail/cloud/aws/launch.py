"""What all launch templates of a claim have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.cloud.aws.userdata import Cluster
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.cloud.provider import NodeClassResolution, ResolvedImage
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
    """The launch of a claim from a class that resolves to `found`; `pool` is told in its tags."""
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
        reserved_enis=stage.reserved_enis,
        reserved_capacity=reserved_capacity,
        expressions=stage.expressions,
    )


def cluster_tags(cluster: str, node_pool: str, node_class: str, own: Mapping[str, str]) -> dict[str, str]:
    """The tags of everything that is launched: the class's own, and those that nobody may change."""
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
