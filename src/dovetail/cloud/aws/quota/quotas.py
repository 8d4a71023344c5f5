"""How many vCPUs an account may run at once, and what a launch takes of them and of the subnets' addresses.

Quotas are per way of buying and family of types. The codes are those of the console of Service Quotas
(Amazon EC2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClassSpec
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.cloud.provider import ResolvedSubnet
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering

SERVICE = "ec2"
STANDARD = "standard"  # A, C, D, H, I, M, R, T, Z
Quotas = Mapping[tuple[str, str], int]  # (capacity type, family) -> vCPUs
_ON_DEMAND = {
    "L-1216C47A": STANDARD,
    "L-6E869C2A": "dl",
    "L-74FC7D96": "f",
    "L-DB2E81BA": "g",
    "L-F7808C92": "hpc",
    "L-1945791B": "inf",
    "L-417A185B": "p",
    "L-2C3B7624": "trn",
    "L-43DA4232": "u",
    "L-7295265B": "x",
}
_SPOT = {
    "L-34B43A08": STANDARD,
    "L-85EED4F7": "dl",
    "L-88CF9481": "f",
    "L-3819A6DF": "g",
    "L-B5D1601B": "inf",
    "L-7212CCBC": "p",
    "L-6B0D517C": "trn",
    "L-E3A00192": "x",
}
_FAMILIES = (
    (re.compile(r"dl\d"), "dl"),
    (re.compile(r"hpc"), "hpc"),
    (re.compile(r"inf"), "inf"),
    (re.compile(r"trn"), "trn"),
    (re.compile(r"(g|gr|vt)\d"), "g"),
    (re.compile(r"p\d"), "p"),
    (re.compile(r"f\d"), "f"),
    (re.compile(r"u"), "u"),
    (re.compile(r"x"), "x"),
)
_CODES = {
    **{code: (labels.ON_DEMAND, family) for code, family in _ON_DEMAND.items()},
    **{code: (labels.SPOT, family) for code, family in _SPOT.items()},
}


@lru_cache(maxsize=4_096)
def family(instance_type: str) -> str:
    """By which quota EC2 counts the type's vCPUs."""
    return next((name for pattern, name in _FAMILIES if pattern.match(instance_type)), STANDARD)


def read(answers: Iterable[Mapping[str, Any]]) -> Quotas:
    """The quotas of ListServiceQuotas that count vCPUs."""
    return {
        _CODES[item["QuotaCode"]]: int(item["Value"])
        for item in answers
        if item.get("QuotaCode") in _CODES and "Value" in item
    }


_PREFIX = 16  # addresses of a delegated prefix

Group = tuple[str, str]  # capacity type and family, as quotas have it


@dataclass(frozen=True, slots=True)
class Addresses:
    """What a node of some class takes in one zone: `each` addresses of one of these subnets."""

    zone: str
    subnets: tuple[str, ...]  # by id
    each: int

    @property
    def name(self) -> str:
        """Different for what does not share the same addresses."""
        more = f", {self.each} a node" if self.each > 1 else ""
        return f"addresses in {self.zone} ({', '.join(self.subnets)}{more})"


def addresses(
    spec: EC2NodeClassSpec, subnets: Iterable[ResolvedSubnet], *, ipv6: bool
) -> tuple[Addresses, ...]:
    """Per zone what a launch takes. Those that pods get later are the network plugin's business."""
    carded = sum(item["interfaceType"] != "efa-only" for item in spec.network_interfaces)
    prefixes = 0 if ipv6 else _PREFIX * (spec.ip_prefix_count or 0)
    each = max(1, carded) * (1 + prefixes)
    by_zone: dict[str, list[str]] = {}
    for item in subnets:
        by_zone.setdefault(item.zone, []).append(item.id)
    return tuple(Addresses(zone, tuple(sorted(some)), each) for zone, some in sorted(by_zone.items()))


def drawing(item: InstanceType, record: TypeRecord, zones: Iterable[Addresses]) -> InstanceType:
    """The type with what each of its offerings draws on."""
    by_zone = {one.zone: ((one.name, one.each),) for one in zones}
    counted = family(item.name)
    quota = {kind: ((vcpus((kind, counted)), record.vcpus),) for kind in (labels.SPOT, labels.ON_DEMAND)}

    def drawn(offering: Offering) -> Offering:
        # What is reserved was counted when it was reserved.
        return replace(
            offering, draws=(*quota.get(offering.capacity_type, ()), *by_zone.get(offering.zone, ()))
        )

    return replace(item, offerings=tuple(drawn(offering) for offering in item.offerings))


def vcpus(group: Group) -> str:
    """The name of what a quota leaves."""
    return f"the quota of {group[0]} vCPUs ({group[1]} types)"
