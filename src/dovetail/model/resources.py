"""Amounts of resources as exact integers: milli-units of CPU, whole units (bytes, counts) of all else."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.api.core import Pod, ResourceList
from dovetail.units.quantity import Quantity

# Resource name -> amount; CPU in thousandths, everything else in whole units. Absent means 0.
Resources = Mapping[str, int]

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"


def amounts(quantities: ResourceList) -> dict[str, int]:
    """Quantities as integers, rounded up."""
    return {
        name: quantity.milli() if name == CPU else quantity.value() for name, quantity in quantities.items()
    }


def quantities(resources: Resources) -> ResourceList:
    """The inverse of `amounts`."""
    return {
        name: Quantity(amount * (1_000_000 if name == CPU else 1_000_000_000))
        for name, amount in resources.items()
    }


def add(a: Resources, b: Resources) -> dict[str, int]:
    """Sum over all names of either."""
    total = dict(a)
    for name, amount in b.items():
        total[name] = total.get(name, 0) + amount
    return total


def subtract(a: Resources, b: Resources) -> dict[str, int]:
    """`a - b` over all names of either; may be negative."""
    rest = dict(a)
    for name, amount in b.items():
        rest[name] = rest.get(name, 0) - amount
    return rest


def fits(wanted: Resources, room: Resources) -> bool:
    """True iff every wanted amount is at most the room there is; nothing fits below zero room."""
    return all(amount <= room.get(name, 0) for name, amount in wanted.items() if amount > 0)


def pod_requests(pod: Pod) -> dict[str, int]:
    """What the scheduler counts for a pod, including `pods: 1`."""
    total: dict[str, int] = {PODS: 1}
    for container in pod.spec.containers:
        total = add(total, amounts(container.resources.requests))
    return total
