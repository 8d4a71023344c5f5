"""What a node of a type holds, and what the system keeps of it; see docs/reference/instance-types.md."""

from __future__ import annotations

import math

from dovetail.base.errors import InputError
from dovetail.cloud.catalog.settings import GIB, NodeSettings
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.model.offering import Overhead
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from dovetail.units.quantity import parse_quantity

MIB = 1 << 20
POD_ENI = "vpc.amazonaws.com/pod-eni"
EFA = "vpc.amazonaws.com/efa"
PRIVATE_IPV4 = "vpc.amazonaws.com/PrivateIPv4Address"
NVIDIA_GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"
NEURON = "aws.amazon.com/neuron"
NEURON_CORE = "aws.amazon.com/neuroncore"
GAUDI = "habana.ai/gaudi"

# Firmware of arm64 machines holds this much back, in MiB.
_ARM64_MEMORY_HELD = 64
# The kubelet's share of CPU: (up to this many milli-CPU, fraction kept).
_CPU_KEPT = ((1000, 0.06), (2000, 0.01), (4000, 0.005), (1 << 31, 0.0025))
# Interfaces that a trunk and its machine share, by vCPUs: figures of AWS's VPC resource controller
# (pkg/aws/vpc/limits.go) for the general families; EC2's description of a type does not hold them.
_TRUNK = ((1, 6), (2, 12), (4, 22), (8, 42), (63, 62), (1 << 31, 122))
_TRUNK_NEWER = ((1, 6), (2, 12), (4, 22), (8, 42), (31, 62), (47, 92), (1 << 31, 122))  # amd64, 6th and later
_NEWER_GENERATION = 6
_WINDOWS_PODS = 110
# Types that EC2 describes and AWS's VPC resource controller does not list (pkg/aws/vpc/limits.go): it hands
# out no addresses to pods on them.
_UNLISTED = frozenset(
    {
        *("hpc6a.48xlarge", "hpc6id.32xlarge", "hpc8a.96xlarge"),
        *("hpc7a.12xlarge", "hpc7a.24xlarge", "hpc7a.48xlarge", "hpc7a.96xlarge"),
        *("t8i.nano", "t8i.micro", "t8i.small", "t8i.medium"),
        *("trn2.3xlarge", "trn2.48xlarge", "trn2u.48xlarge"),
    }
)


def capacity(record: TypeRecord, settings: NodeSettings) -> dict[str, int]:
    """Everything that a node of the type has. Resources that it lacks are there with 0."""
    room = {
        CPU: record.vcpus * 1000,
        MEMORY: _memory(record, settings.vm_memory_overhead_percent),
        EPHEMERAL_STORAGE: _ephemeral_storage(record, settings),
        PODS: pods(record, settings),
        POD_ENI: branch_interfaces(record),
        EFA: _efa(record, settings),
        NVIDIA_GPU: sum(gpu.count for gpu in record.gpus if gpu.manufacturer == "NVIDIA"),
        AMD_GPU: sum(gpu.count for gpu in record.gpus if gpu.manufacturer == "AMD"),
        GAUDI: sum(gpu.count for gpu in record.gpus if gpu.manufacturer == "Habana"),
        NEURON: sum(item.devices for item in record.neurons),
        NEURON_CORE: sum(item.devices * item.cores for item in record.neurons),
    }
    if settings.os_on(record.arch) == "windows":
        room[PRIVATE_IPV4] = 0 if record.name in _UNLISTED else max(0, record.ipv4_per_interface - 1)
    return room


def overhead(record: TypeRecord, settings: NodeSettings, room: dict[str, int]) -> Overhead:
    """What kubelet, system and eviction thresholds keep of `room`, the capacity."""
    return Overhead(
        kube_reserved=_kube_reserved(record, settings, room[PODS]),
        system_reserved=dict(settings.system_reserved),
        eviction_threshold={
            MEMORY: _threshold(settings, "memory.available", room[MEMORY], 100 * MIB),
            EPHEMERAL_STORAGE: _threshold(
                settings, "nodefs.available", room[EPHEMERAL_STORAGE], -(-room[EPHEMERAL_STORAGE] // 10)
            ),
        },
    )


def pods(record: TypeRecord, settings: NodeSettings) -> int:
    """How many pods the kubelet takes."""
    if settings.max_pods is not None:
        count = settings.max_pods
    elif settings.windows:
        count = _WINDOWS_PODS
    else:
        count = interface_pods(record, settings.reserved_enis + settings.efa_only)
    if settings.pods_per_core and settings.family != "Bottlerocket":
        count = min(count, settings.pods_per_core * record.vcpus)
    return count


def interface_pods(record: TypeRecord, lost: int = 0) -> int:
    """How many pods get an address on the default network card, plus two on the host's network.

    `lost` interfaces of it carry none.
    """
    interfaces = record.default_card_interfaces - lost
    return interfaces * (record.ipv4_per_interface - 1) + 2 if interfaces > 0 else 0


def branch_interfaces(record: TypeRecord) -> int:
    """Branch interfaces that pods may have of their own.

    A rule of thumb: what a trunk shares less what the machine itself may use. Types without the Nitro network
    and burstable ones have no trunk. docs/reference/instance-types.md lists where EC2 does otherwise.
    """
    if record.burstable or record.hypervisor == "xen":
        return 0
    newer = record.arch == "amd64" and record.generation >= _NEWER_GENERATION
    rows = _TRUNK_NEWER if newer else _TRUNK
    shared = next(count for limit, count in rows if record.vcpus <= limit)
    return max(0, shared - record.interfaces)


def _efa(record: TypeRecord, settings: NodeSettings) -> int:
    """Where a class lists interfaces, a node has those for EFA among them; else as many as the type takes."""
    if settings.interfaces:
        return sum(one.efa_only for one in settings.interfaces)
    return record.efa_interfaces


def _memory(record: TypeRecord, overhead_percent: float) -> int:
    total = record.memory - (_ARM64_MEMORY_HELD if record.arch == "arm64" else 0)
    # Floating point on purpose: the same rounding as the controller whose numbers users know.
    return (total - math.ceil(total * MIB * overhead_percent / 1024 / 1024)) * MIB


def _ephemeral_storage(record: TypeRecord, settings: NodeSettings) -> int:
    if settings.raid0 and record.storage:
        return record.storage * 1_000_000_000
    return settings.volume


def _kube_reserved(record: TypeRecord, settings: NodeSettings, most_pods: int) -> dict[str, int]:
    # Bottlerocket and Windows reserve for the pods that may run, the others for as many as get an address.
    actual = settings.family == "Bottlerocket" or settings.windows
    counted = most_pods if actual else interface_pods(record, settings.efa_only)
    kept = {
        CPU: _cpu_kept(record.vcpus * 1000),
        MEMORY: (11 * counted + 255) * MIB,
        EPHEMERAL_STORAGE: GIB,
    }
    return kept | dict(settings.kube_reserved)


def _cpu_kept(milli: int) -> int:
    kept, start = 0, 0
    for end, fraction in _CPU_KEPT:
        if milli > start:
            kept += int((min(milli, end) - start) * fraction)
        start = end
    return kept


def _threshold(settings: NodeSettings, signal: str, room: int, default: int) -> int:
    """Bytes below which the kubelet evicts. 100 % switches the signal off, as the kubelet reads it."""
    text = settings.eviction_hard.get(signal)
    if text is None:
        return default
    path = f"spec.kubelet.evictionHard.{signal}"
    try:
        if not text.endswith("%"):
            return parse_quantity(text).value()
        percent = float(text[:-1])
    except ValueError:
        raise InputError(f"{text!r} is neither a quantity nor a percentage such as 5%", path=path) from None
    return 0 if percent >= 100 else math.ceil(room / 100 * percent)
