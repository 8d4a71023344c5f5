"""The labels that nodes of a type get, from EC2's description of the type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from dovetail.cloud.catalog.settings import NodeSettings
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.model import labels
from dovetail.model.requirement import Requirement, Requirements

INSTANCE = labels.AWS + "instance-"
NITRO_SANDBOX = labels.AWS + "nitro-sandbox"
TENANCY = INSTANCE + "tenancy"
TENANCIES = ("dedicated", "default")

_FIXED = re.compile(r"(?:(\d+)x )?(\d+(?:\.\d+)?) Gigabit")
# Every key that a type either has or, by DoesNotExist, lacks. Placement groups come with the launch only.
_KEYS = (
    *(name for name in labels.AWS_INSTANCE_LABELS if "placement-group" not in name),
    labels.INSTANCE_TYPE,
    labels.ARCH,
    labels.OS,
    labels.WINDOWS_BUILD,
    labels.REGION,
    labels.ZONE,
    labels.ZONE_ID,
    labels.CAPACITY_TYPE,
)


def requirements(
    record: TypeRecord, settings: NodeSettings, where: Mapping[str, tuple[str, ...]]
) -> Requirements:
    """The type's labels; `where` gives region, zones, zone ids and capacity types.

    Keys that the type lacks are DoesNotExist, so that asking for them excludes the type.
    """
    values = {**where, **_values(record, settings)}
    return Requirements({key: _one_of(key, values.get(key, ())) for key in _KEYS})


def tenancy(wanted: Requirements) -> str:
    """That of a launch for such a claim: dedicated only where the default one is ruled out."""
    return "default" if wanted.get(TENANCY).has("default") else "dedicated"


def network_bandwidth(record: TypeRecord) -> int | None:
    """Mbps that are always there; None where EC2 gives words only ("Moderate").

    A fixed rate ("4x 100 Gigabit") is taken as stated: the cards' own rates may add up to more than the
    machine carries. "Up to" rates are bursts, so there the cards' baseline counts.
    """
    words = record.network_performance
    fixed = _FIXED.fullmatch(words)
    if fixed:
        return round(float(fixed[2]) * 1000) * int(fixed[1] or 1)
    return record.network_baseline if "Gigabit" in words else None


def _values(record: TypeRecord, settings: NodeSettings) -> dict[str, tuple[str, ...]]:
    values: dict[str, object] = {
        "category": record.category,
        "generation": record.generation,
        "family": record.family,
        "size": record.size,
        "capability-flex": _flag("-flex" in record.family),
        "cpu": record.vcpus,
        "cpu-manufacturer": _kebab(record.manufacturer),
        "cpu-sustained-clock-speed-mhz": record.clock,
        "memory": record.memory,
        "ebs-bandwidth": record.ebs_bandwidth or None,
        "network-bandwidth": network_bandwidth(record),
        "hypervisor": record.hypervisor,
        "encryption-in-transit-supported": _flag(record.encryption_in_transit),
        "local-nvme": record.storage if record.nvme and record.storage else None,
        **_gpu(record),
        **_accelerator(record),
    }
    found: dict[str, tuple[str, ...]] = {
        INSTANCE + name: (str(value),) for name, value in values.items() if value is not None
    }
    found[TENANCY] = TENANCIES
    found[NITRO_SANDBOX] = (_flag(record.nitro_enclaves),)
    found[labels.INSTANCE_TYPE] = (record.name,)
    found[labels.ARCH] = (record.arch,)
    found[labels.OS] = tuple(filter(None, (settings.os_on(record.arch),)))
    found[labels.WINDOWS_BUILD] = (settings.windows_build,) if settings.windows_build else ()
    return found


def _gpu(record: TypeRecord) -> dict[str, object]:
    if len(record.gpus) != 1:
        return {}
    gpu = record.gpus[0]
    return {
        "gpu-name": _kebab(gpu.name),
        "gpu-manufacturer": _kebab(gpu.manufacturer),
        "gpu-count": gpu.count,
        "gpu-memory": gpu.memory,
    }


def _accelerator(record: TypeRecord) -> dict[str, object]:
    if record.neurons:
        neuron = record.neurons[0]
        return {
            "accelerator-name": _kebab(neuron.name),
            "accelerator-manufacturer": "aws",
            "accelerator-count": neuron.devices,
        }
    if len(record.accelerators) == 1:
        item = record.accelerators[0]
        return {
            "accelerator-name": _kebab(item.name),
            "accelerator-manufacturer": _kebab(item.manufacturer),
            "accelerator-count": item.count,
        }
    return {}


def _kebab(text: str) -> str:
    return text.lower().replace(" ", "-")


def _flag(value: bool) -> str:
    return "true" if value else "false"


@lru_cache(maxsize=16_384)
def _one_of(key: str, values: tuple[str, ...]) -> Requirement:
    return Requirement.new(key, "In", values) if values else Requirement.new(key, "DoesNotExist")
