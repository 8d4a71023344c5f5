"""What EC2 says of an instance type, as far as it matters to nodes."""

from __future__ import annotations

import re

import msgspec

_NAME = re.compile(r"([a-z]+)(?:-[0-9]+tb)?([0-9]+).*\.(.+)")


class Gpu(msgspec.Struct, array_like=True, frozen=True):
    manufacturer: str
    name: str
    count: int
    memory: int  # MiB per GPU


class Accelerator(msgspec.Struct, array_like=True, frozen=True):
    manufacturer: str
    name: str
    count: int


class Neuron(msgspec.Struct, array_like=True, frozen=True):
    name: str
    devices: int
    cores: int  # per device


class TypeRecord(msgspec.Struct, array_like=True, frozen=True):
    """One type as EC2 describes it; the order of the fields is the order in the file."""

    name: str
    arch: str  # amd64 or arm64
    vcpus: int
    memory: int  # MiB, before anything is taken off
    manufacturer: str
    clock: int  # MHz sustained; 0 where EC2 does not say, which the label then says too
    ebs_bandwidth: int  # Mbps; 0 where not EBS-optimised by default
    network_performance: str  # EC2's words, such as "Up to 10 Gigabit"
    network_baseline: int  # Mbps, over all cards
    hypervisor: str  # "" for bare metal
    encryption_in_transit: bool
    nitro_enclaves: bool
    storage: int  # GB of local disks
    nvme: bool  # True iff the local disks are NVMe
    bare_metal: bool
    burstable: bool
    interfaces: int  # over all network cards
    default_card_interfaces: int
    ipv4_per_interface: int
    efa_interfaces: int
    gpus: tuple[Gpu, ...]
    accelerators: tuple[Accelerator, ...]
    neurons: tuple[Neuron, ...]
    spot: bool  # True iff sold as spot anywhere

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def size(self) -> str:
        return self.name.partition(".")[2]

    @property
    def category(self) -> str:
        """The letters before the generation: "m" of m7i-flex.large, "u" of u-12tb1.112xlarge."""
        return self._parts()[0]

    @property
    def generation(self) -> int:
        return int(self._parts()[1])

    def _parts(self) -> tuple[str, ...]:
        match = _NAME.fullmatch(self.name)
        if match is None:
            raise ValueError(f"{self.name!r} is not the name of an instance type, such as m5.large")
        return match.groups()
