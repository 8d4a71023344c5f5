"""The network interfaces of a launch template."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec
from dovetail.cloud.aws.launch import Document


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
        yield place, {} if kind == "efa-only" else _addresses(spec, ipv6, primary=(card, device) == (0, 0))
    if spec.network_interfaces:
        return
    for card in range(efa):
        place = {"NetworkCardIndex": card, "DeviceIndex": min(card, 1), "InterfaceType": "efa"}
        yield place, _addresses(spec, ipv6, primary=card == 0)
    if not efa:
        yield {"DeviceIndex": 0}, _addresses(spec, ipv6, primary=True)


def _addresses(spec: EC2NodeClassSpec, ipv6: bool, *, primary: bool) -> Document:
    found: Document = {}
    if spec.associate_public_ip_address is not None:
        found["AssociatePublicIpAddress"] = spec.associate_public_ip_address
    if spec.connection_tracking:
        found["ConnectionTrackingSpecification"] = {
            name[:1].upper() + name[1:]: value for name, value in spec.connection_tracking.items()
        }
    if spec.ip_prefix_count is not None:
        found["Ipv6PrefixCount" if ipv6 else "Ipv4PrefixCount"] = spec.ip_prefix_count
    if ipv6 and primary:
        found |= {"Ipv6AddressCount": 1, "PrimaryIpv6": True}
    return found
