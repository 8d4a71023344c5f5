"""The devices of EC2's types that pods may claim: NVIDIA GPUs and EFAs, as their drivers publish them.

The tables are what drivers published on real instances; a type that is not in one has none of these devices.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from dovetail.api.devices import CapacityPolicy, CapacityRange, Device, DeviceAttribute, DeviceCapacity
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.devices import NO_DEVICES, AttributeBinding, DeviceId, TemplateDevices, TemplateSlice
from dovetail.units.quantity import Quantity, parse_quantity

GPU_DRIVER = "gpu.nvidia.com"
EFA_DRIVER = "dra.net"
# How pods that claim GPUs may share one, on a class.
SHARING = "karpenter.k8s.aws/nvidia-consumable-capacity"

_PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
# What the driver alone knows, and what is the same for all GPUs of a machine.
_SHARED_VERSIONS = (f"{GPU_DRIVER}/driverVersion", f"{GPU_DRIVER}/cudaDriverVersion")
_MOST_SHARES = 2**63 - 1
_NOTHING, _ONE, _MEBIBYTE = parse_quantity("0"), parse_quantity("1"), parse_quantity("1Mi")


@dataclass(frozen=True, slots=True)
class Sharing:
    """How claims share a GPU. `whole`: who asks for no memory gets all of it; else none."""

    shareable: bool = False
    whole: bool = False
    shares: int | None = None  # how many claims one GPU takes; None: as many as its memory does


def read_sharing(text: str) -> Sharing:
    """The annotation's value; "" where there is none. Raises ValueError."""
    if text in ("", "disabled"):
        return Sharing()
    if text in ("memory", "unlimited"):
        return Sharing(shareable=True, whole=text == "memory")
    # As many digits as a number of 64 bits has at most, and leading zeros.
    if re.fullmatch(r"\+?[0-9]{1,25}", text) and 0 < (shares := int(text)) <= _MOST_SHARES:
        return Sharing(shareable=True, shares=shares)
    known = '"disabled", "memory", "unlimited", or a positive integer share count'
    raise ValueError(f'"{text}" is not one of {known}')


def devices(kind: str, node_class: EC2NodeClass | None, *, gpus: bool, efas: bool) -> TemplateDevices:
    """What nodes of the type will have; `gpus` and `efas` say which of the two drivers count.

    A class whose annotation cannot be read has GPUs that are not shared: it is not ready anyway.
    """
    if not (gpus or efas):
        return NO_DEVICES
    text = node_class.metadata.annotations.get(SHARING, "") if node_class is not None else ""
    try:
        sharing = read_sharing(text)
    except ValueError:
        sharing = Sharing()
    return _devices(kind, sharing, gpus, efas)


@lru_cache(maxsize=1024)
def _devices(kind: str, sharing: Sharing, gpus: bool, efas: bool) -> TemplateDevices:
    gpu = _gpu_slice(kind, sharing) if gpus else None
    efa = _efa_slice(kind) if efas else None
    slices = tuple(one for one in (gpu, efa) if one is not None)
    return TemplateDevices(slices, _bindings(gpu) if gpu is not None else ()) if slices else NO_DEVICES


def _gpu_slice(kind: str, sharing: Sharing) -> TemplateSlice | None:
    row = _table("nvidia_devices.csv").get(kind)
    if row is None:
        return None
    memory = parse_quantity(row["memory"])
    texts = {name: row[name] for name in ("architecture", "brand", "productName")}
    attributes = {
        **{name: DeviceAttribute(string=text) for name, text in texts.items()},
        "cudaComputeCapability": DeviceAttribute(version=row["cudaComputeCapability"]),
        "type": DeviceAttribute(string="gpu"),
    }
    made = tuple(
        Device(
            name=f"gpu-{number}",
            attributes={**attributes, _PCIE_ROOT: DeviceAttribute(string=root)},
            capacity=gpu_capacity(memory, sharing),
            allow_multiple_allocations=sharing.shareable,
        )
        for number, root in enumerate(_each(row["pcieRoots"]))
    )
    return TemplateSlice(GPU_DRIVER, f"gpus-{kind}", made)


def gpu_capacity(memory: Quantity, sharing: Sharing) -> dict[str, DeviceCapacity]:
    """What claims consume of a GPU with that memory."""
    if not sharing.shareable:
        return {"memory": DeviceCapacity(value=memory)}
    least = _MEBIBYTE if sharing.whole else _NOTHING
    policy = CapacityPolicy(
        default=memory if sharing.whole else _NOTHING,
        valid_range=CapacityRange(min=least, max=memory, step=_MEBIBYTE),
    )
    found = {"memory": DeviceCapacity(value=memory, request_policy=policy)}
    if sharing.shares is not None:
        most = parse_quantity(str(sharing.shares))
        policy = CapacityPolicy(default=_ONE, valid_range=CapacityRange(min=_ONE, max=most, step=_ONE))
        found["shares"] = DeviceCapacity(value=most, request_policy=policy)
    return found


def _bindings(slice_: TemplateSlice) -> tuple[AttributeBinding, ...]:
    ids = tuple(DeviceId(slice_.driver, slice_.pool, one.name) for one in slice_.devices)
    return tuple(AttributeBinding(name, ids) for name in _SHARED_VERSIONS)


def _efa_slice(kind: str) -> TemplateSlice | None:
    row = _table("efa_devices.csv").get(kind)
    if row is None:
        return None
    attributes = {
        f"{EFA_DRIVER}/pciDevice": DeviceAttribute(string="Elastic Fabric Adapter (EFA)"),
        f"{EFA_DRIVER}/pciVendor": DeviceAttribute(string="Amazon.com, Inc."),
        f"{EFA_DRIVER}/pciSubsystem": DeviceAttribute(string=row["pciSubsystem"]),
        f"{EFA_DRIVER}/rdma": DeviceAttribute(boolean=row["rdma"] == "true"),
    }
    nodes = tuple(map(int, _each(row["numaNodes"])))
    made = []
    for number, root in enumerate(_each(row["pcieRoots"])):
        own = {**attributes, _PCIE_ROOT: DeviceAttribute(string=root)}
        if nodes:
            own[f"{EFA_DRIVER}/numaNode"] = DeviceAttribute(integer=nodes[number])
        made.append(Device(name=f"efa-{number}", attributes=own))
    return TemplateSlice(EFA_DRIVER, f"network-{kind}", tuple(made))


def _each(text: str) -> Iterator[str]:
    """What each device in turn has: "17*2 34" is 17, 17, 34."""
    for part in text.split():
        value, _, times = part.partition("*")
        yield from (value for _ in range(int(times or 1)))


@lru_cache(maxsize=2)
def _table(name: str) -> Mapping[str, Mapping[str, str]]:
    text = resources.files(__package__).joinpath("data", name).read_text(encoding="utf-8")
    rows: Iterable[dict[str, str]] = csv.DictReader(text.splitlines())
    return {row["type"]: row for row in rows}
