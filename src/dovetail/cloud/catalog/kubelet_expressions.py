"""Kubelet settings of a node class that are expressions on the instance type, and their values for a type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dovetail.base.errors import InputError
from dovetail.cloud.catalog import cel
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.units.quantity import parse_quantity

RESERVATIONS = ("kubeReserved", "systemReserved")
# What expressions may speak of; max_pods in reservations only.
VARIABLES = ("vcpus", "memory_mib", "default_enis", "ips_per_eni", "instance_type", "max_pods")
_CPU_STEP = 10  # milli-CPU: results are rounded up to whole steps
_MEMORY_STEP = 16  # MiB


def expressions(kubelet: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(path, text) of every value that is neither a number nor a quantity."""
    most = kubelet.get("maxPods")
    if isinstance(most, str):
        yield "spec.kubelet.maxPods", most
    for name in RESERVATIONS:
        for resource, text in _map(kubelet.get(name)).items():
            if isinstance(text, str) and _is_expression(text):
                yield f"spec.kubelet.{name}.{resource}", text


def has_expressions(kubelet: Mapping[str, Any]) -> bool:
    """True iff some value depends on the instance type."""
    return any(True for _ in expressions(kubelet))


def without_expressions(kubelet: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with their expressions left out, as where the feature is off."""
    plain = dict(kubelet)
    if isinstance(plain.get("maxPods"), str):
        del plain["maxPods"]
    for name in RESERVATIONS:
        if name in plain:
            plain[name] = {
                resource: text for resource, text in _map(plain[name]).items() if not _is_expression(text)
            }
    return plain


def settle(
    kubelet: Mapping[str, Any], record: TypeRecord, pods: Callable[[int | None], int]
) -> dict[str, Any]:
    """The settings with their expressions evaluated for a type.

    `pods` gives the pods of a node from maxPods; None stands for a class that sets none. Raises InputError
    for an expression that cannot be read or has no fitting value.
    """
    settled = dict(kubelet)
    scope: dict[str, cel.Value] = {
        "vcpus": record.vcpus,
        "memory_mib": record.memory,
        "default_enis": record.default_card_interfaces,
        "ips_per_eni": record.ipv4_per_interface,
        "instance_type": record.name,
    }
    most = kubelet.get("maxPods")
    if isinstance(most, str):
        most = settled["maxPods"] = _number(most, scope, "spec.kubelet.maxPods", "whole number")
    scope["max_pods"] = pods(most)
    for name in RESERVATIONS:
        if name in kubelet:
            settled[name] = {
                resource: _reserved(resource, text, scope, f"spec.kubelet.{name}.{resource}")
                for resource, text in _map(kubelet[name]).items()
            }
    return settled


def _reserved(resource: str, text: object, scope: cel.Scope, path: str) -> object:
    if not isinstance(text, str) or not _is_expression(text):
        return text
    amount = _number(text, scope, path, "quantity")
    if resource == "cpu":
        return f"{-(-amount // _CPU_STEP) * _CPU_STEP}m"
    if resource == "pid":
        return str(amount)
    return f"{-(-amount // _MEMORY_STEP) * _MEMORY_STEP}Mi"


def _number(text: str, scope: cel.Scope, path: str, plain: str) -> int:
    try:
        value = cel.read(text).value(scope)
    except cel.ExpressionError as error:
        raise InputError(f"{text!r} is not a {plain}, nor an expression: {error}", path=path) from None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise InputError(f"{text!r} gives {value!r}, expected a whole number of at least 0", path=path)


def _is_expression(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        parse_quantity(text)
    except ValueError:
        return True
    return False


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
