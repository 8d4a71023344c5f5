"""The account around a simulated cluster, and what the selectors of a node class match in it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, SelectorTerm
from dovetail.base.memo import by_identity, by_weight
from dovetail.cloud import catalog
from dovetail.cloud.aws.amifamily import images
from dovetail.cloud.provider import (
    NodeClassResolution,
    ResolvedImage,
    ResolvedSecurityGroup,
    ResolvedSubnet,
)
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.requirement import Requirement, Requirements

DISCOVERY = "karpenter.sh/discovery"
_PLENTY = 4_000


@dataclass(frozen=True, slots=True)
class Subnet:
    """A subnet; an instance takes one of its addresses (those of pods are not counted)."""

    id: str
    zone: str
    zone_id: str
    tags: Mapping[str, str] = field(default_factory=dict)
    free_addresses: int = _PLENTY


@dataclass(frozen=True, slots=True)
class SecurityGroup:
    id: str
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the account's own; the published ones exist without being listed."""

    id: str
    name: str
    arch: str = "amd64"
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Account:
    """What exists before the first node. `version` is that of Kubernetes, such as "1.33"."""

    region: str
    version: str = "1.33"
    subnets: tuple[Subnet, ...] = ()
    security_groups: tuple[SecurityGroup, ...] = ()
    images: tuple[Image, ...] = ()

    @staticmethod
    def usual(region: str, cluster: str, version: str = "1.33") -> Account:
        """A subnet in every zone and one security group, tagged karpenter.sh/discovery: CLUSTER.

        Raises InputError for an unknown region.
        """
        tags = {DISCOVERY: cluster}
        subnets = tuple(
            Subnet(_identifier("subnet", region, zone, cluster), zone, zone_id, tags)
            for zone, zone_id in catalog.zones(region).items()
        )
        group = SecurityGroup(_identifier("sg", region, cluster), f"{cluster}-nodes", tags)
        return Account(region, version, subnets, (group,))


def resolve(node_class: EC2NodeClass, account: Account, taken: Mapping[str, int]) -> NodeClassResolution:
    """What the class's selectors match; `taken` counts addresses in use per subnet id."""
    subnets, found = _matched(node_class, account)
    order = sorted(subnets, key=lambda item: (taken.get(item.id, 0) - item.free_addresses, item.id))
    return replace(found, subnets=_resolved(order))


# Asked for every node whenever it is looked for drift, of classes that stay the same for days.
@by_weight(64, lambda _, __: 1, same=True)
def _matched(node_class: EC2NodeClass, account: Account) -> tuple[tuple[Subnet, ...], NodeClassResolution]:
    """The subnets that match, and all that does, with the subnets in the account's order."""
    spec = node_class.spec
    subnets = tuple(
        subnet
        for subnet in account.subnets
        if any(_selects(term, subnet.id, "", subnet.tags) for term in spec.subnet_selector_terms)
    )
    groups = [
        group
        for group in account.security_groups
        if any(
            _selects(term, group.id, group.name, group.tags) for term in spec.security_group_selector_terms
        )
    ]
    refusals = (images.unsupported(term.alias, account.version) for term in spec.ami_selector_terms)
    unsupported = next(filter(None, refusals), "")
    return subnets, NodeClassResolution(
        subnets=_resolved(subnets),
        security_groups=tuple(
            ResolvedSecurityGroup(group.id, group.name) for group in sorted(groups, key=lambda item: item.id)
        ),
        images=() if unsupported else _images(spec.ami_selector_terms, account),
        subnet_tag_keys=_tag_keys(subnet.tags for subnet in account.subnets),
        security_group_tag_keys=_tag_keys(group.tags for group in account.security_groups),
        unsupported_alias=unsupported,
    )


def _resolved(subnets: Iterable[Subnet]) -> tuple[ResolvedSubnet, ...]:
    return tuple(map(_resolved_subnet, subnets))


@by_identity(1024)
def _resolved_subnet(subnet: Subnet) -> ResolvedSubnet:
    return ResolvedSubnet(subnet.id, subnet.zone, subnet.zone_id)


@by_weight(1024, lambda _, __: 1, same=True)
def image_for(kind: InstanceType, known: tuple[ResolvedImage, ...]) -> str:
    """The id of the first image that boots on the type; "" when none does."""
    return next((image.id for image in known if not kind.requirements.intersects(image.requirements)), "")


def _selects(term: SelectorTerm, identifier: str, name: str, tags: Mapping[str, str]) -> bool:
    """Fields of a term are ANDed; a term without any selects nothing. Values may be globs."""
    if not (term.id or term.name or term.tags):
        return False
    return (
        (not term.id or term.id == identifier)
        and (not term.name or fnmatchcase(name, term.name))
        and all(_tagged(tags, key, value) for key, value in term.tags.items())
    )


def _tagged(tags: Mapping[str, str], key: str, value: str) -> bool:
    return any(fnmatchcase(found, key) and fnmatchcase(text, value) for found, text in tags.items())


def _tag_keys(tags: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    return tuple(sorted({key for item in tags for key in item}))


def _images(terms: tuple[SelectorTerm, ...], account: Account) -> tuple[ResolvedImage, ...]:
    chosen: dict[ResolvedImage, None] = {}
    for term in terms:
        if term.alias:
            chosen |= dict.fromkeys(_published(term.alias, account.region, account.version))
        elif term.id or term.ssm_parameter:
            # Any image that is named outright exists.
            identifier = term.id or _identifier("ami", account.region, term.ssm_parameter)
            chosen[ResolvedImage(identifier, identifier)] = None
        else:
            chosen |= {
                ResolvedImage(image.id, image.name, _on(image.arch)): None
                for image in account.images
                if _selects(term, image.id, image.name, image.tags)
            }
    return tuple(chosen)


@lru_cache(maxsize=256)
def _published(alias: str, region: str, version: str) -> tuple[ResolvedImage, ...]:
    """The images behind an alias, each under the name of its parameter."""
    known = {_identifier("ami", region, item.name): item for item in images.parameters(alias, version)}
    found = [images.FoundImage(key, item.name, item.arch, created="") for key, item in known.items()]
    variants = {key: item.variants for key, item in known.items()}
    return tuple(
        ResolvedImage(item.image.id, item.image.name, item.requirements)
        for item in images.newest(found, variants)
    )


def _on(arch: str) -> Requirements:
    return Requirements.of((Requirement.new(labels.ARCH, "In", (arch,)),))


def _identifier(prefix: str, *parts: str) -> str:
    """An id such as AWS gives, the same whenever it is asked for."""
    return f"{prefix}-0{hashlib.sha256('/'.join(parts).encode()).hexdigest()[:16]}"
