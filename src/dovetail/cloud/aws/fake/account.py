"""What exists in an account before the first node."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dovetail.api.karpenter.ec2nodeclass import ALIAS_FAMILIES
from dovetail.cloud import catalog
from dovetail.cloud.aws.amifamily import images
from dovetail.cloud.aws.api import (
    CapacityReservation,
    EksCluster,
    Image,
    PlacementGroup,
    SecurityGroup,
    Subnet,
)
from dovetail.cloud.catalog.settings import devices

DISCOVERY = "karpenter.sh/discovery"
NUMBER = "123456789012"
AMAZON = "602401143452"  # the account that publishes EKS's images
_ADDRESSES = 4_000
_VPC = "vpc-0123456789abcdef0"
_EC2_ARCHITECTURES = {"amd64": "x86_64", "arm64": "arm64"}
_PUBLISHED = "2025-06-01T00:00:00.000Z"


@dataclass(frozen=True, slots=True)
class Account:
    """Everything that Dovetail does not make itself. `parameters` are SSM's, name -> value."""

    region: str
    number: str = NUMBER
    subnets: tuple[Subnet, ...] = ()
    security_groups: tuple[SecurityGroup, ...] = ()
    images: tuple[Image, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    reservations: tuple[CapacityReservation, ...] = ()
    placement_groups: tuple[PlacementGroup, ...] = ()
    roles: frozenset[str] = frozenset()
    clusters: tuple[EksCluster, ...] = ()
    queues: tuple[str, ...] = ()

    @staticmethod
    def usual(region: str, cluster: str, version: str = "1.33") -> Account:
        """A cluster as the guides make it.

        A subnet per zone and a security group, tagged karpenter.sh/discovery: CLUSTER; published images; a
        role KarpenterNodeRole-CLUSTER; a queue named as the cluster. Raises InputError for an unknown region.
        """
        tags = {DISCOVERY: cluster}
        subnets = tuple(
            Subnet(identifier("subnet", region, zone, cluster), _VPC, zone, zone_id, _ADDRESSES, tags=tags)
            for zone, zone_id in catalog.zones(region).items()
        )
        group = SecurityGroup(identifier("sg", region, cluster), f"{cluster}-nodes", _VPC, tags)
        found, parameters = published(region, version)
        return Account(
            region,
            subnets=subnets,
            security_groups=(group,),
            images=found,
            parameters=parameters,
            roles=frozenset({f"KarpenterNodeRole-{cluster}"}),
            clusters=(eks_cluster(cluster, region, version),),
            queues=(cluster,),
        )


def eks_cluster(name: str, region: str, version: str) -> EksCluster:
    """A cluster as EKS describes it."""
    endpoint = f"https://{identifier('x', name)[3:].upper()}.gr7.{region}.eks.amazonaws.com"
    place = arn("eks", region, NUMBER, f"cluster/{name}")
    return EksCluster(name, endpoint, "Y2EtYnVuZGxlCg==", version, "10.100.0.0/16", _VPC, place)


def published(region: str, version: str) -> tuple[tuple[Image, ...], dict[str, str]]:
    """The newest images of every family for a version of Kubernetes, and SSM's parameters to them."""
    found: dict[str, Image] = {}
    parameters: dict[str, str] = {}
    for alias, family in ALIAS_FAMILIES.items():
        if images.unsupported(f"{alias}@{images.LATEST}", version):
            continue
        volumes = devices(family)
        for item in images.parameters(f"{alias}@{images.LATEST}", version):
            made = identifier("ami", region, item.name)
            parameters[item.name] = made
            name = item.name.removesuffix("/image_id").removeprefix("/aws/service/").replace("/", "-")
            arch = _EC2_ARCHITECTURES[item.arch]
            found[made] = Image(made, name, arch, _PUBLISHED, AMAZON, volumes=volumes)
    return tuple(found.values()), parameters


def identifier(prefix: str, *parts: str) -> str:
    """An id such as AWS gives, the same whenever it is asked for."""
    return f"{prefix}-0{hashlib.sha256('/'.join(parts).encode()).hexdigest()[:16]}"


def arn(service: str, region: str, number: str, resource: str) -> str:
    """arn:aws:SERVICE:REGION:NUMBER:RESOURCE; IAM's has no region."""
    return f"arn:aws:{service}:{region}:{number}:{resource}"


def by_id(items: Iterable[Subnet]) -> dict[str, Subnet]:
    """Subnets by their ids."""
    return {item.id: item for item in items}
