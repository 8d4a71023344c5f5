"""EC2 by its packaged catalogue alone: types and list prices for observe mode. No cloud is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.errors import CreateFailed, InputError, InstanceNotFound
from dovetail.cloud import catalog
from dovetail.cloud.inert import Inert
from dovetail.cloud.provider import Instance, Overlay, as_sold
from dovetail.cloud.repair import EKS_POLICIES, EKS_REBOOT_POLICIES
from dovetail.model.offering import InstanceType
from dovetail.model.repair import RepairPolicies


class ListedCloud(Inert):
    """Implements `cloud.provider.Provider` as far as plans need it; whatever acts raises.

    A class has the zones of the subnets in its status, which the acting controller found; without any it
    has no types. A zone is its region's name and a letter.
    """

    node_class_kinds: tuple[tuple[str, str], ...] = (
        (EC2NodeClass.API_VERSION.partition("/")[0], EC2NodeClass.KIND),
    )

    def __init__(self, *, reboots: bool = False) -> None:
        self.repair_policies: RepairPolicies = EKS_REBOOT_POLICIES if reboots else EKS_POLICIES
        self._known: dict[str, tuple[EC2NodeClass, tuple[InstanceType, ...]]] = {}

    def instance_types(self, node_class: EC2NodeClass | None) -> tuple[InstanceType, ...]:
        """See Provider."""
        if node_class is None:
            return ()
        name, known = node_class.metadata.name, self._known.get(node_class.metadata.name)
        if known is None or (known[0].spec, _zones(known[0])) != (node_class.spec, _zones(node_class)):
            known = self._known[name] = node_class, self._types(node_class)
        return known[1]

    def volume_price(self, node_class: EC2NodeClass | None) -> int:
        """See Provider."""
        region = _region(node_class) if node_class is not None else ""
        try:
            return catalog.volume_price(region, node_class) if region else 0
        except InputError:
            return 0

    async def create(
        self,
        claim: NodeClaim,  # noqa: ARG002 - nothing is launched
        node_class: EC2NodeClass,  # noqa: ARG002
        overlay: Overlay = as_sold,  # noqa: ARG002
    ) -> Instance:
        """Raises CreateFailed."""
        raise CreateFailed("who only looks launches nothing")

    async def delete(self, provider_id: str) -> None:
        """Raises InstanceNotFound."""
        _unknown(provider_id)

    async def get(self, provider_id: str) -> Instance:
        """Raises InstanceNotFound."""
        _unknown(provider_id)

    async def list(self) -> Sequence[Instance]:
        """See Provider: none is known."""
        return ()

    def _types(self, node_class: EC2NodeClass) -> tuple[InstanceType, ...]:
        region = _region(node_class)
        if not region:
            return ()
        listed = catalog.zones(region)
        zones = {name: key for name, key in _zones(node_class).items() if name in listed}
        try:
            return catalog.instance_types(region, node_class, zones=zones)
        except InputError:  # a class that cannot be read
            return ()


def _zones(node_class: EC2NodeClass) -> dict[str, str]:
    return {
        one.get("zone", ""): one.get("zoneID", "") for one in node_class.status.subnets if one.get("zone")
    }


def _region(node_class: EC2NodeClass) -> str:
    """The region of the first zone that the catalogue has, or ""."""
    known = catalog.regions()
    return next((zone[:-1] for zone in _zones(node_class) if zone[:-1] in known), "")


def _unknown(provider_id: str) -> NoReturn:
    raise InstanceNotFound(f"instance {provider_id} is not known to who only looks")
