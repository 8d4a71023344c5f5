"""A device as selectors see it, and what of a device is looked up by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dovetail.api.devices import Device, DeviceAttribute
from dovetail.devices.cel_library import EvaluationError, Semver

AttributeValue = tuple[str, Any]  # type and value: the number 1 is not the text 1


class _Versions(dict[str, Any]):
    """Values of one domain. A version that cannot be read is a fault of the one who asks for it."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, EvaluationError):
            raise value
        return value


class _Domains(Mapping[str, Mapping[str, Any]]):
    """Domain -> name -> value. A domain that the device has nothing of is empty, not missing."""

    def __init__(self, held: dict[str, _Versions]) -> None:
        self._held = held

    def __getitem__(self, key: str) -> Mapping[str, Any]:
        return self._held.get(key) or _Versions()

    def __contains__(self, key: object) -> bool:
        return key in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


def device_value(driver: str, device: Device) -> Mapping[str, Any]:
    """What `device` is in an expression."""
    attributes: dict[str, _Versions] = {}
    for name, attribute in device.attributes.items():
        _put(attributes, driver, name, _plain(attribute))
    capacity: dict[str, _Versions] = {}
    for name, amount in device.capacity.items():
        _put(capacity, driver, name, amount.value)
    return {
        "driver": driver,
        "allowMultipleAllocations": device.allow_multiple_allocations,
        "attributes": _Domains(attributes),
        "capacity": _Domains(capacity),
    }


def _put(held: dict[str, _Versions], driver: str, name: str, value: Any) -> None:
    domain, slash, bare = name.partition("/")
    held.setdefault(domain if slash else driver, _Versions())[bare if slash else name] = value


def _plain(attribute: DeviceAttribute) -> Any:
    kind, value = typed(attribute)
    if kind == "version":
        return Semver.read(value) or EvaluationError(f"{value[:40]!r} is not a version of semver 2.0.0")
    return value


def typed(attribute: DeviceAttribute) -> AttributeValue:
    """Type and value as published; a version is text of a type of its own."""
    for kind, value in (
        ("int", attribute.integer),
        ("bool", attribute.boolean),
        ("string", attribute.string),
        ("version", attribute.version),
    ):
        if value is not None:
            return kind, value
    return "none", None


def attribute_of(driver: str, device: Device, name: str) -> AttributeValue | None:
    """By its full name; the driver's domain need not be written at the device."""
    found = device.attributes.get(name)
    domain, slash, bare = name.partition("/")
    if found is None and slash and domain == driver:
        found = device.attributes.get(bare)
    return None if found is None else typed(found)
