"""What a node class says about the room on its nodes: kubelet block, disks, AMI family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from dovetail.api.karpenter.ec2nodeclass import ALIAS_FAMILIES, BlockDeviceMapping, EC2NodeClass
from dovetail.base.errors import InputError
from dovetail.cloud.catalog import kubelet_expressions as expressions
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.model.resources import amounts
from dovetail.units.quantity import Quantity, parse_quantity

GIB = 1 << 30
_WINDOWS_BUILDS = {"Windows2019": "10.0.17763", "Windows2022": "10.0.20348", "Windows2025": "10.0.26100"}


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface that a class lists; one that is for EFA only carries no addresses."""

    card: int
    device: int
    efa_only: bool


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """How a node class shapes the room on a node. The defaults are those of AL2023."""

    family: str = "AL2023"
    max_pods: int | None = None
    pods_per_core: int | None = None
    kube_reserved: Mapping[str, int] = field(default_factory=dict)  # overrides per resource
    system_reserved: Mapping[str, int] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=dict)  # signal -> quantity or "5%"
    volume: int = 20 * GIB  # bytes of the disk that holds pods' files
    raid0: bool = False  # True iff local disks, where there are some, hold pods' files
    vm_memory_overhead_percent: float = 0.075
    reserved_enis: int = 0
    interfaces: tuple[Interface, ...] = ()  # that the class lists; without any, EC2's one
    nested_virtualization: bool = False  # True iff virtual machines shall run on the nodes
    enclaves: bool = False  # True iff Nitro Enclaves may run on the node
    connection_tracking: bool = False  # True iff the class sets timeouts of idle connections
    placement: str = ""  # the strategy of the class's placement group
    # The class's own words where they depend on the type (see `on`); the fields above lack those values.
    expressions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def efa_only(self) -> int:
        """Listed interfaces of the first card that carry no addresses."""
        return sum(one.efa_only and not one.card for one in self.interfaces)

    @property
    def windows(self) -> bool:
        return self.family.startswith("Windows")

    def os_on(self, arch: str) -> str:
        """The operating system on machines of the architecture; "" where there is none."""
        if not self.windows:
            return "linux"
        return "windows" if arch == "amd64" else ""

    @property
    def windows_build(self) -> str:
        return _WINDOWS_BUILDS.get(self.family, "")

    @staticmethod
    def of(
        node_class: EC2NodeClass | None,
        *,
        vm_memory_overhead_percent: float = 0.075,
        reserved_enis: int = 0,
        placement: str = "",
    ) -> NodeSettings:
        """Read a node class; None gives the defaults. Raises InputError for ill-formed kubelet values.

        `placement` is the strategy of the group that the class's selector finds, if one is found.
        """
        if node_class is None:
            return NodeSettings(
                vm_memory_overhead_percent=vm_memory_overhead_percent, reserved_enis=reserved_enis
            )
        spec = node_class.spec
        family = ami_family(node_class)
        depends = expressions.has_expressions(spec.kubelet)
        plain = expressions.without_expressions(spec.kubelet) if depends else spec.kubelet
        return NodeSettings(
            family=family,
            max_pods=_count(plain, "maxPods"),
            pods_per_core=_count(plain, "podsPerCore"),
            kube_reserved=_amounts(plain, "kubeReserved"),
            system_reserved=_amounts(plain, "systemReserved"),
            eviction_hard=_texts(plain, "evictionHard"),
            volume=_volume(family, spec.block_device_mappings),
            raid0=spec.instance_store_policy == "RAID0",
            vm_memory_overhead_percent=vm_memory_overhead_percent,
            reserved_enis=reserved_enis,
            interfaces=tuple(map(_interface, spec.network_interfaces)),
            nested_virtualization=spec.cpu_options.get("nestedVirtualization") == "enabled",
            connection_tracking=bool(spec.connection_tracking),
            enclaves=bool(spec.enclave_options.get("enabled")),
            placement=placement,
            expressions=spec.kubelet if depends else {},
        )

    def on(self, record: TypeRecord, pods: Pods) -> NodeSettings:
        """The settings for one type, expressions evaluated.

        Raises InputError for an expression that cannot be read or has no fitting value.
        """
        plain = self.kubelet_on(record, pods)
        if not plain:
            return self
        return replace(
            self,
            max_pods=_count(plain, "maxPods"),
            kube_reserved=_amounts(plain, "kubeReserved"),
            system_reserved=_amounts(plain, "systemReserved"),
            expressions={},
        )

    def kubelet_on(self, record: TypeRecord, pods: Pods) -> dict[str, Any]:
        """The class's kubelet settings for one type, as written; none where none depends on the type."""
        if not self.expressions:
            return {}
        return expressions.settle(
            self.expressions, record, lambda most: pods(replace(self, max_pods=most, expressions={}))
        )


# Counts the pods of a node of a given type with these settings.
Pods: TypeAlias = Callable[[NodeSettings], int]


def ami_family(node_class: EC2NodeClass) -> str:
    """The family the class names, or that of its alias; AL2023 where neither says anything."""
    if node_class.spec.ami_family:
        return node_class.spec.ami_family
    aliases = (term.alias.partition("@")[0] for term in node_class.spec.ami_selector_terms if term.alias)
    return next((ALIAS_FAMILIES.get(alias, "Custom") for alias in aliases), "AL2023")


def devices(family: str) -> dict[str, int]:
    """Volumes that images of the family bring, device -> GiB; the last holds pods' files."""
    if family == "Bottlerocket":
        return {"/dev/xvda": 6, "/dev/xvdb": 20}
    return {"/dev/sda1": 50} if family in _WINDOWS_BUILDS else {"/dev/xvda": 20}


def _volume(family: str, mappings: tuple[BlockDeviceMapping, ...]) -> int:
    """Bytes of the volume that holds pods' files: the root volume by flag, by device name, or the default."""
    device, size = list(devices(family).items())[-1]
    chosen = next((item for item in mappings if item.root_volume), None)
    if chosen is None and family == "Custom":
        chosen = mappings[-1] if mappings else None
    elif chosen is None:
        chosen = next((item for item in mappings if item.device_name == device), None)
    if chosen is None or chosen.ebs is None or chosen.ebs.volume_size is None:
        return size * GIB
    return parse_size(chosen.ebs.volume_size, "spec.blockDeviceMappings")


def parse_size(text: str | int, path: str) -> int:
    """Bytes of a volume's size; raises InputError with the path."""
    return _quantity(text, path).value()


def _interface(written: Mapping[str, Any]) -> Interface:
    return Interface(
        written.get("networkCardIndex", 0),
        written.get("deviceIndex", 0),
        written.get("interfaceType") == "efa-only",
    )


def _count(settings: Mapping[str, object], key: str) -> int | None:
    value = settings.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise InputError(f"expected a whole number, got {value!r}", path=f"spec.kubelet.{key}")


def _texts(settings: Mapping[str, object], key: str) -> dict[str, str]:
    value = settings.get(key) or {}
    if not isinstance(value, Mapping):
        raise InputError(f"expected a map, got {value!r}", path=f"spec.kubelet.{key}")
    return {str(name): str(text) for name, text in value.items()}


def _amounts(settings: Mapping[str, object], key: str) -> dict[str, int]:
    path = f"spec.kubelet.{key}"
    parsed = {name: _quantity(text, f"{path}.{name}") for name, text in _texts(settings, key).items()}
    return amounts(parsed)


def _quantity(text: str | int, path: str) -> Quantity:
    try:
        return parse_quantity(text)
    except ValueError as error:
        raise InputError(str(error), path=path) from None
