"""Devices that an instance type promises before any driver publishes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dovetail.api.devices import CounterSet, Device


class DeviceId(NamedTuple):
    """One device among all that drivers publish or types promise."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class TemplateSlice:
    """Devices of one driver that every node of the type will have; the pool's name is the type's own."""

    driver: str
    pool: str
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


@dataclass(frozen=True, slots=True)
class AttributeBinding:
    """Devices that will have the same value of an attribute, which is only known once the node runs."""

    attribute: str  # with its domain: gpu.nvidia.com/driverVersion
    devices: tuple[DeviceId, ...]


@dataclass(frozen=True, slots=True)
class TemplateDevices:
    """All that a type promises. Slices of one driver and pool are one pool: their counter sets are shared."""

    slices: tuple[TemplateSlice, ...] = ()
    bindings: tuple[AttributeBinding, ...] = ()

    @property
    def drivers(self) -> tuple[str, ...]:
        """Of the slices, sorted, each once."""
        return tuple(sorted({one.driver for one in self.slices}))


NO_DEVICES = TemplateDevices()
