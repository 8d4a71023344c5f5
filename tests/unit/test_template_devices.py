"""Devices of EC2's types that pods may claim."""

from __future__ import annotations

import pytest

from dovetail.api.devices import Device
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.meta import Meta
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.devices import EFA_DRIVER, GPU_DRIVER, SHARING, devices
from dovetail.model.devices import NO_DEVICES, DeviceId, TemplateDevices
from dovetail.units.quantity import parse_quantity

RECORDS = store.load().types
ROOT = "resource.kubernetes.io/pcieRoot"


def both(kind: str, sharing: str | None = None) -> TemplateDevices:
    marks = {} if sharing is None else {SHARING: sharing}
    return devices(kind, EC2NodeClass(metadata=Meta(annotations=marks)), gpus=True, efas=True)


def of(driver: str, found: TemplateDevices) -> tuple[Device, ...]:
    return next((one.devices for one in found.slices if one.driver == driver), ())


# Drivers on these were not looked at when the tables were read, and of g6f and gr6f EC2 says no whole GPU.
UNKNOWN, PARTS = ("g7.", "g7e."), ("g6f.", "gr6f.")


@pytest.mark.parametrize("record", [one for one in RECORDS if one.gpus], ids=lambda record: str(record.name))
def test_types_have_as_many_gpus_and_efas_as_ec2_says(record: store.TypeRecord) -> None:
    found = both(record.name)
    parts = record.name.startswith(PARTS)
    gpus = parts or sum(gpu.count for gpu in record.gpus if gpu.manufacturer == "NVIDIA")
    if not gpus or record.name.startswith(UNKNOWN):
        assert found is NO_DEVICES
        return
    assert (len(of(GPU_DRIVER, found)), len(of(EFA_DRIVER, found))) == (gpus, record.efa_interfaces)
    assert {one.pool for one in found.slices} <= {f"gpus-{record.name}", f"network-{record.name}"}


def test_a_gpu_says_what_it_is() -> None:
    found = of(GPU_DRIVER, both("g4dn.metal"))
    assert [one.name for one in found] == [f"gpu-{number}" for number in range(8)]
    assert [one.attributes[ROOT].string for one in found] == [
        f"pci0000:{root}" for root in ("17", "17", "34", "34", "e6", "e6", "f3", "f3")
    ]
    first = found[0].attributes
    assert {name: value.string or value.version for name, value in first.items() if name != ROOT} == {
        "productName": "Tesla T4",
        "architecture": "Turing",
        "brand": "Nvidia",
        "type": "gpu",
        "cudaComputeCapability": "7.5.0",
    }
    assert found[0].capacity["memory"].value == parse_quantity("15Gi")
    assert not found[0].allow_multiple_allocations
    assert of(GPU_DRIVER, both("g5g.metal"))[0].attributes[ROOT].string == "pci0002:00"


@pytest.mark.parametrize(
    ("kind", "brand"), [("g6f.large", "NvidiaVWS"), ("p3dn.24xlarge", "Tesla"), ("p5.4xlarge", "Nvidia")]
)
def test_brands(kind: str, brand: str) -> None:
    assert of(GPU_DRIVER, both(kind))[0].attributes["brand"].string == brand


def test_gpus_of_a_machine_have_one_driver() -> None:
    found = both("g5.12xlarge").bindings
    ids = tuple(DeviceId(GPU_DRIVER, "gpus-g5.12xlarge", f"gpu-{number}") for number in range(4))
    assert [(one.attribute, one.devices) for one in found] == [
        ("gpu.nvidia.com/driverVersion", ids),
        ("gpu.nvidia.com/cudaDriverVersion", ids),
    ]


def test_an_efa_says_where_it_is() -> None:
    found = of(EFA_DRIVER, both("p5e.48xlarge"))
    assert [one.attributes["dra.net/numaNode"].integer for one in found] == [
        n for n in range(4) for _ in range(8)
    ]
    assert found[8].attributes[ROOT].string == "pci0000:44"
    assert found[0].attributes["dra.net/rdma"].boolean is True
    metal = of(EFA_DRIVER, both("g4dn.metal"))[0].attributes
    assert metal["dra.net/rdma"].boolean is False
    assert "dra.net/numaNode" not in of(EFA_DRIVER, both("g5.8xlarge"))[0].attributes


@pytest.mark.parametrize(
    ("sharing", "shareable", "capacity"),
    [
        (None, False, {"memory"}),
        ("disabled", False, {"memory"}),
        ("memory", True, {"memory"}),
        ("unlimited", True, {"memory"}),
        ("4", True, {"memory", "shares"}),
        ("4.5", False, {"memory"}),  # such a class is not ready
    ],
)
def test_a_class_says_whether_gpus_are_shared(
    sharing: str | None, shareable: bool, capacity: set[str]
) -> None:
    found = of(GPU_DRIVER, both("g5.xlarge", sharing))[0]
    assert (found.allow_multiple_allocations, set(found.capacity)) == (shareable, capacity)
    assert not of(EFA_DRIVER, both("g5.48xlarge", sharing))[0].allow_multiple_allocations


@pytest.mark.parametrize(("gpus", "efas"), [(True, False), (False, True), (False, False)])
def test_only_drivers_whose_gates_are_open_count(gpus: bool, efas: bool) -> None:
    found = devices("p4d.24xlarge", None, gpus=gpus, efas=efas)
    assert found.drivers == tuple(name for name, on in ((EFA_DRIVER, efas), (GPU_DRIVER, gpus)) if on)
    assert bool(found.bindings) is gpus
