"""The instance profile around the role of a class: made, kept as it should be, taken away."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.cloud.aws.api import Aws, Iam, InstanceProfile, Tags
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.model import labels

_CLASS = labels.AWS + "ec2nodeclass"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The profile that a class with a role should have."""

    name: str
    path: str
    role: str  # without a path
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Create:
    """Make the profile, with its tags."""


@dataclass(frozen=True, slots=True)
class Tag:
    """Add the tags that it lacks."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Take a role out that does not belong there."""

    role: str


@dataclass(frozen=True, slots=True)
class Add:
    """Put the role in."""


Step = Create | Tag | Remove | Add


def wanted(node_class: EC2NodeClass, cluster: str, region: str) -> Wanted:
    """Another role gives another profile, so that nodes that still run keep theirs."""
    meta, role = node_class.metadata, node_class.spec.role.rpartition("/")[2]
    text = "/".join((region, meta.uid or meta.name, role))
    digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    tags = {
        f"kubernetes.io/cluster/{cluster}": "owned",
        "eks:eks-cluster-name": cluster,
        _CLASS: meta.name,
        labels.REGION: region,
    }
    return Wanted(f"{cluster}_{digest}", path(cluster, region, meta.uid or meta.name), role, tags)


def path(cluster: str, region: str, uid: str = "") -> str:
    """Of the profiles of a class, or of all that were made for the cluster."""
    return f"/karpenter/{region}/{cluster}/{uid}/" if uid else f"/karpenter/{region}/{cluster}/"


def steps(found: InstanceProfile | None, want: Wanted) -> Iterator[Step]:
    """What makes the profile as it should be; nothing when it is."""
    if found is None:
        yield Create()
        yield Add()
        return
    if any(found.tags.get(key) != value for key, value in want.tags.items()):
        yield Tag()
    for role in found.roles:
        if role != want.role:
            yield Remove(role)
    if want.role not in found.roles:
        yield Add()


async def ensure(iam: Iam, want: Wanted) -> None:
    """Make the profile as it should be. Raises AwsError; what was done by then need not be done again."""
    found = await _get(iam, want.name)
    for step in steps(found, want):
        match step:
            case Create():
                await iam.create_instance_profile(want.name, want.path, want.tags)
            case Tag():
                await iam.tag_instance_profile(want.name, want.tags)
            case Remove(role):
                await iam.remove_role_from_instance_profile(want.name, role)
            case Add():
                await iam.add_role_to_instance_profile(want.name, want.role)


async def collect(aws: Aws, below: str, used: Collection[str]) -> tuple[str, ...]:
    """Delete the profiles below a path that are not used; answers their names. Raises AwsError."""
    gone = []
    for found in await aws.iam.list_instance_profiles(below):
        if found.name not in used:
            await _delete(aws.iam, found)
            gone.append(found.name)
    return tuple(gone)


async def _delete(iam: Iam, profile: InstanceProfile) -> None:
    try:
        for role in profile.roles:
            await iam.remove_role_from_instance_profile(profile.name, role)
        await iam.delete_instance_profile(profile.name)
    except AwsError as error:
        if error.refusal is not Refusal.NOT_FOUND:
            raise


async def _get(iam: Iam, name: str) -> InstanceProfile | None:
    try:
        return await iam.get_instance_profile(name)
    except AwsError as error:
        if error.refusal is Refusal.NOT_FOUND:
            return None
        raise
