"""Kubelet settings of a node class that are expressions on the instance type, and their values for a type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

from dovetail.base.errors import InputError
from dovetail.cloud.catalog import cel
from dovetail.cloud.catalog.store import TypeRecord
from dovetail.units.quantity import parse_quantity

RESERVATIONS = ("kubeReserved", "systemReserved")
# What expressions may speak of; max_pods in reservations only.
VARIABLES = ("vcpus", "memory_mib", "default_enis", "ips_per_eni", "instance_type", "max_pods")
_MOST_PODS = 2**31 - 1
# What results count, and the steps that they are rounded up to.
_UNITS = {"cpu": (10, "m"), "memory": (16, "Mi"), "ephemeral-storage": (1, "Gi")}


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

    A reservation that has no value for the type, or a negative one, is left out, as Karpenter does. `pods`
    gives the pods of a node from maxPods; None stands for a class that sets none. Raises InputError for an
    expression that cannot be read or is about something else than numbers, and for maxPods without a value.
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
        most = settled["maxPods"] = _most(most, scope)
    scope["max_pods"] = pods(most)
    for name in RESERVATIONS:
        if name in kubelet:
            reserved = (
                (resource, _reserved(resource, text, scope, f"spec.kubelet.{name}.{resource}"))
                for resource, text in _map(kubelet[name]).items()
            )
            settled[name] = {resource: text for resource, text in reserved if text is not None}
    return settled


def _most(text: str, scope: cel.Scope) -> int:
    path = "spec.kubelet.maxPods"
    try:
        amount = _amount(text, scope, path, "whole number")
    except cel.NoValueError as error:
        raise InputError(f"{text!r} has no value: {error}", path=path) from None
    if not 0 <= amount <= _MOST_PODS:
        raise InputError(f"{text!r} gives {amount}, expected 0 to {_MOST_PODS}", path=path)
    return amount


def _reserved(resource: str, text: object, scope: cel.Scope, path: str) -> object:
    """As a quantity; None where there is no such amount."""
    if not isinstance(text, str) or not _is_expression(text):
        return text
    try:
        amount = _amount(text, scope, path, "quantity")
    except cel.NoValueError:
        return None
    if amount < 0:
        return None
    step, unit = _UNITS.get(resource, (1, ""))
    return f"{-(-amount // step) * step}{unit}"


def _amount(text: str, scope: cel.Scope, path: str, plain: str) -> int:
    """A fraction counts as its whole part. Raises InputError, NoValueError."""
    try:
        value = cel.read(text).value(scope)
    except cel.NoValueError:
        raise
    except cel.ExpressionError as error:
        raise InputError(f"{text!r} is not a {plain}, nor an expression: {error}", path=path) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{text!r} gives {value!r}, expected a number", path=path)
    if not isfinite(value):
        raise cel.NoValueError(f"{value} is no amount")
    return cel.bounded(int(value))


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
