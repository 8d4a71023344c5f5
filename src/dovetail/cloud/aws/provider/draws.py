"""What a launch takes of what launches of all classes draw on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClassSpec
from dovetail.cloud.aws.quotas import family
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.cloud.provider import ResolvedSubnet
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering

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
    quota = {
        kind: ((vcpus((kind, family(item.name))), record.vcpus),) for kind in (labels.SPOT, labels.ON_DEMAND)
    }

    def drawn(offering: Offering) -> Offering:
        # What is reserved was counted when it was reserved.
        return replace(
            offering, draws=(*quota.get(offering.capacity_type, ()), *by_zone.get(offering.zone, ()))
        )

    return replace(item, offerings=tuple(drawn(offering) for offering in item.offerings))


def vcpus(group: Group) -> str:
    """The name of what a quota leaves."""
    return f"the quota of {group[0]} vCPUs ({group[1]} types)"
