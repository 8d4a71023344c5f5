"""Instance types as EC2's DescribeInstanceTypes has them, made into the catalogue's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.cloud.catalog.store import Accelerator, Gpu, Neuron, TypeRecord

_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
Described = Mapping[str, Any]


def usable(described: Described) -> bool:
    """True iff a Kubernetes node can run on the type."""
    return "hvm" in described["SupportedVirtualizationTypes"] and bool(_architectures(described))


def record(described: Described) -> TypeRecord:
    """One type that is usable. What EC2 leaves out is 0, "" or False."""
    network, processor = described["NetworkInfo"], described["ProcessorInfo"]
    ebs, storage = described.get("EbsInfo", {}), described.get("InstanceStorageInfo", {})
    cards = network.get("NetworkCards", ())
    default = network.get("DefaultNetworkCardIndex", 0)
    default_card: Described = next((card for card in cards if card["NetworkCardIndex"] == default), {})
    interfaces = network["MaximumNetworkInterfaces"]
    optimised = ebs.get("EbsOptimizedSupport") == "default"
    return TypeRecord(
        name=described["InstanceType"],
        arch=_architectures(described)[0],
        vcpus=described["VCpuInfo"]["DefaultVCpus"],
        memory=described["MemoryInfo"]["SizeInMiB"],
        manufacturer=processor.get("Manufacturer", ""),
        clock=round(processor.get("SustainedClockSpeedInGhz", 0) * 1000),
        ebs_bandwidth=ebs.get("EbsOptimizedInfo", {}).get("MaximumBandwidthInMbps", 0) if optimised else 0,
        network_performance=network.get("NetworkPerformance", ""),
        network_baseline=round(sum(card.get("BaselineBandwidthInGbps", 0) for card in cards) * 1000),
        hypervisor=described.get("Hypervisor", ""),
        encryption_in_transit=network.get("EncryptionInTransitSupported", False),
        nitro_enclaves=described.get("NitroEnclavesSupport") == "supported",
        storage=storage.get("TotalSizeInGB", 0),
        nvme=storage.get("NvmeSupport", "unsupported") != "unsupported",
        bare_metal=described.get("BareMetal", False),
        burstable=described.get("BurstablePerformanceSupported", False),
        interfaces=interfaces,
        default_card_interfaces=default_card.get("MaximumNetworkInterfaces", interfaces),
        ipv4_per_interface=network["Ipv4AddressesPerInterface"],
        efa_interfaces=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        gpus=_gpus(described),
        accelerators=_accelerators(described),
        neurons=_neurons(described),
        spot="spot" in described.get("SupportedUsageClasses", ()),
        ena=network.get("EnaSupport", "unsupported") != "unsupported",
        cards=_cards(cards),
        nested_virtualization="nested-virtualization" in processor.get("SupportedFeatures", ()),
        placements=tuple(sorted(described.get("PlacementGroupInfo", {}).get("SupportedStrategies", ()))),
    )


def _cards(cards: Sequence[Described]) -> tuple[int, ...]:
    most = {card["NetworkCardIndex"]: card.get("MaximumNetworkInterfaces", 0) for card in cards}
    return tuple(most.get(index, 0) for index in range(max(most, default=-1) + 1))


def _architectures(described: Described) -> list[str]:
    """By their Kubernetes names."""
    supported = described["ProcessorInfo"].get("SupportedArchitectures", ())
    return [_ARCHITECTURES[name] for name in supported if name in _ARCHITECTURES]


def _gpus(described: Described) -> tuple[Gpu, ...]:
    found = described.get("GpuInfo", {}).get("Gpus", ())
    return tuple(
        Gpu(gpu["Manufacturer"], gpu["Name"], gpu["Count"], gpu["MemoryInfo"]["SizeInMiB"]) for gpu in found
    )


def _accelerators(described: Described) -> tuple[Accelerator, ...]:
    found = described.get("InferenceAcceleratorInfo", {}).get("Accelerators", ())
    return tuple(Accelerator(item["Manufacturer"], item["Name"], item["Count"]) for item in found)


def _neurons(described: Described) -> tuple[Neuron, ...]:
    found = described.get("NeuronInfo", {}).get("NeuronDevices", ())
    return tuple(Neuron(item["Name"], item["Count"], item["CoreInfo"]["Count"]) for item in found)
