"""Devices that pods may claim: those that an instance type promises, and those that a cluster has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dovetail.api.core import Pod
from dovetail.api.devices import CounterSet, Device, DeviceClass, ResourceClaim, ResourceSlice


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


@dataclass(frozen=True, slots=True)
class ClusterDevices:
    """What the scheduler may allocate from, and what of it is taken.

    `claims` are those of the pods that a plan is about, by `namespace/name`. One whose allocation holds has
    it; one that is allocated to pods alone that leave their nodes has none, and its devices are free.
    """

    classes: Mapping[str, DeviceClass] = field(default_factory=dict)  # by name
    slices: tuple[ResourceSlice, ...] = ()  # none of nodes that are on their way up or out
    claims: Mapping[str, ResourceClaim] = field(default_factory=dict)
    exclusive: frozenset[DeviceId] = frozenset()  # that one claim has alone
    # Of devices that are shared, by dimension: nano-units of what claims consume together.
    consumed: Mapping[DeviceId, Mapping[str, int]] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()  # UIDs of pods that leave their nodes, as far as claims go


def claims_devices(pod: Pod) -> bool:
    """True iff devices are allocated for the pod by claims (Dynamic Resource Allocation)."""
    spec = pod.spec
    if spec.resource_claims:
        return True
    return any(item.resources.claims for item in (*spec.containers, *spec.init_containers))


def claim_keys(pod: Pod) -> tuple[str, ...]:
    """`namespace/name` of each of its claims, once, in the order of the pod.

    One that is still to be made from a template is left out, and so is one that turned out not to be needed.
    Templates are never read: of the claims made from them the pod's status has the names.
    """
    if not pod.spec.resource_claims:
        return ()
    made = {item.name: item.resource_claim_name for item in pod.status.resource_claim_statuses}
    names = (item.resource_claim_name or made.get(item.name, "") for item in pod.spec.resource_claims)
    return tuple(dict.fromkeys(f"{pod.metadata.namespace}/{name}" for name in names if name))
