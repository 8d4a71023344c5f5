"""Which instance types requirements leave, by the catalogue that plans are made with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from dovetail.api import pod_resources
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec
from dovetail.base.guess import nearest
from dovetail.cloud import catalog
from dovetail.cloud.catalog import store
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.requirement import Requirement, Requirements

# Where types are looked for if nothing says which region: it sells the most.
FALLBACK = "us-east-1"
_ANY = EC2NodeClass(spec=EC2NodeClassSpec(ami_family="Custom"))  # whose images may run on anything
# What a node class, a pool or a launch decides, not the type.
_NOT_OF_TYPES = frozenset({labels.OS, labels.WINDOWS_BUILD, labels.NODEPOOL, labels.REGION, labels.HOSTNAME})
_OF_OFFERINGS = (labels.ZONE, labels.ZONE_ID, labels.CAPACITY_TYPE)
# What pods ask for by name and ordinary nodes lack.
DEVICES = (
    "nvidia.com/gpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
    "amd.com/gpu",
)
# What nodes have of their own, which needs no domain in its name.
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
_ZONE = re.compile(r"(?P<region>[a-z]{2}(?:-[a-z]+)+-\d)(?P<local>-[a-z]+\d?-\d)?[a-z]")
_WAVELENGTH = re.compile(r"(?P<region>[a-z]{2}(?:-[a-z]+)+-\d)(?P<local>-wl\d-[a-z]+-wlz-\d)")
KEYS = (labels.AWS_WELL_KNOWN - _NOT_OF_TYPES) - set(_OF_OFFERINGS)


def region_of_zone(zone: str) -> str:
    """The region in a zone's name; "" for a name of another kind."""
    match = _ZONE.fullmatch(zone) or _WAVELENGTH.fullmatch(zone)
    return match["region"] if match else ""


def is_local_zone(zone: str) -> bool:
    """True iff it is a Local or Wavelength Zone by its name, of which the catalogue has none."""
    match = _ZONE.fullmatch(zone) or _WAVELENGTH.fullmatch(zone)
    return bool(match and match["local"])


@lru_cache(maxsize=64)
def types(region: str) -> dict[str, InstanceType]:
    """All types of a region by name."""
    return {item.name: item for item in catalog.instance_types(region, _ANY)}


# Families that EC2 has had, and that its description of all types, from which the packaged list is, lacks.
UNLISTED_FAMILIES = frozenset({"dl1", "f1", "g3", "g3s", "g4ad", "p2", "p3"})


@lru_cache(maxsize=1)
def every_name() -> frozenset[str]:
    """The names of all types of all regions."""
    return frozenset(record.name for record in store.load().types)


def left(requirements: Requirements, region: str) -> tuple[InstanceType, ...]:
    """The types of a region that meet what is required of types, and are sold where and as it is required."""
    of_types = frozenset(item for item in requirements if item.key in KEYS or item.key in _OF_OFFERINGS)
    return _left(of_types, region)


@lru_cache(maxsize=4096)
def _left(requirements: frozenset[Requirement], region: str) -> tuple[InstanceType, ...]:
    found: frozenset[str] | None = None
    for item in requirements:
        if item.key in KEYS:
            names = _meeting(item, region)
            found = names if found is None else found & names
    known = types(region)
    names = frozenset(known) if found is None else found
    sold = frozenset(item for item in requirements if item.key in _OF_OFFERINGS)
    if sold:
        names &= _sold(sold, region)
    return tuple(known[name] for name in sorted(names))


@lru_cache(maxsize=4096)
def _meeting(item: Requirement, region: str) -> frozenset[str]:
    # Every provider sets these labels, so what is absent on a type is decided by DoesNotExist.
    wanted = Requirements.of((_without_least(item),))
    return frozenset(name for name, kind in types(region).items() if kind.requirements.overlaps(wanted))


def _without_least(item: Requirement) -> Requirement:
    """How many values there must be is a question to all types together."""
    return Requirement(item.key, item.values, item.complement, item.gte, item.lte)


@lru_cache(maxsize=1024)
def _sold(requirements: frozenset[Requirement], region: str) -> frozenset[str]:
    wanted = Requirements.of(requirements)
    return frozenset(
        name
        for name, kind in types(region).items()
        if any(offering.requirements.overlaps(wanted) for offering in kind.offerings)
    )


def values(kinds: Iterable[InstanceType], key: str) -> frozenset[str]:
    """The values that a label has on these types."""
    found: set[str] = set()
    for kind in kinds:
        found |= kind.requirements.get(key).values if kind.requirements.has(key) else set()
    return frozenset(found)


@lru_cache(maxsize=1024)
def known_values(region: str, key: str) -> frozenset[str]:
    """The values that a label has on any type of a region."""
    return values(types(region).values(), key)


@lru_cache(maxsize=64)
def devices(region: str) -> dict[str, frozenset[str]]:
    """By type, the devices that pods ask for by name."""
    return {
        name: frozenset(device for device in DEVICES if kind.capacity.get(device))
        for name, kind in types(region).items()
    }


def meant_resource(name: str, known: tuple[str, ...] = RESOURCES) -> str:
    """Which resource was meant by a name that no node has; "" for names that some node may have."""
    if name in known or name.startswith(("hugepages-", "attachable-volumes-")):
        return ""
    if "/" not in name and (meant := pod_resources.meant_resource(name)):
        return meant
    near = nearest(name, DEVICES if "/" in name else known, alike=0.9 if "/" in name else 0.5)
    return near[0] if near and near[0] != name else ""


def zones(region: str) -> frozenset[str]:
    """The zones of a region; none of one that is not known."""
    return frozenset(catalog.zones(region)) if region in catalog.regions() else frozenset()


@lru_cache(maxsize=1)
def known_regions() -> frozenset[str]:
    """Those that the catalogue has."""
    return frozenset(catalog.regions())
