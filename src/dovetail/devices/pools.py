"""Pools of devices: what drivers published, and what instance types promise, ready to be searched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from dovetail.api.codec import written
from dovetail.api.core import NodeSelector
from dovetail.api.devices import CounterConsumption, CounterSet, Device, ResourceSlice
from dovetail.base.memo import by_identity
from dovetail.model.devices import DeviceId, TemplateDevices
from dovetail.model.requirement import Requirements

CounterKey = tuple[str, str]  # counter set and counter


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A device with all that decides whether it may be taken."""

    id: DeviceId
    device: Device
    template: bool
    counters: Mapping[CounterKey, int]  # nanos of each that it consumes
    likeness: object  # devices of equal likeness may stand for each other
    node_name: str = ""  # the only node where it can be used; "" where that is no matter of a name
    alternatives: tuple[Requirements, ...] | None = None  # of its node selector; None: any node
    groups: Mapping[str, int] = field(default_factory=dict)  # attribute -> binding group
    kind: bytes = b""  # all of the device but its name: selectors answer alike for devices of one kind


@dataclass(frozen=True, slots=True)
class Pool:
    """All devices of one driver under one name."""

    driver: str
    name: str
    candidates: tuple[Candidate, ...]
    counters: Mapping[CounterKey, int] = field(default_factory=dict)
    fault: str = ""  # why nothing may be taken from it

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


INCOMPLETE = "is incomplete (missing slices)"
INVALID = "is invalid (duplicate device names)"  # Karpenter's text, whatever is wrong


def published_pools(slices: Iterable[ResourceSlice]) -> tuple[Pool, ...]:
    """Pools of the cluster at their newest generation, in the order of driver and name."""
    by_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
    for one in slices:
        by_pool.setdefault((one.spec.driver, one.spec.pool.name), []).append(one)
    return tuple(_published(*key, by_pool[key]) for key in sorted(by_pool))


def _published(driver: str, name: str, slices: list[ResourceSlice]) -> Pool:
    newest = max(one.spec.pool.generation for one in slices)
    parts = sorted(
        (one for one in slices if one.spec.pool.generation == newest), key=lambda one: one.metadata.name
    )
    sets, sound = _counters(held for one in parts for held in one.spec.shared_counters)
    candidates = [candidate for one in parts for candidate in _candidates(one)]
    names = Counter(device.name for one in parts for device in one.spec.devices)
    known = all(key in sets for one in candidates for key in one.counters)
    fault = "" if sound and known and all(times == 1 for times in names.values()) else INVALID
    if any(one.spec.pool.resource_slice_count != len(parts) for one in parts):
        fault = INCOMPLETE
    return Pool(driver, name, tuple(candidates), sets, fault)


@by_identity(16_384)
def _candidates(item: ResourceSlice) -> tuple[Candidate, ...]:
    """The devices of a slice. Every what-if of a search for cheaper nodes asks again."""
    spec = item.spec
    if spec.per_device_node_selection:
        return ()
    where = None if spec.node_selector is None else _alternatives(spec.node_selector)
    if not (spec.node_name or spec.all_nodes or where):
        return ()
    place = spec.node_name, written(spec.node_selector)
    found = []
    for device in spec.devices:
        kind = _kind(device)
        found.append(
            Candidate(
                DeviceId(spec.driver, spec.pool.name, device.name),
                device,
                False,
                _consumed(device.consumes_counters),
                (spec.driver, spec.pool.name, place, kind),
                spec.node_name,
                where,
                kind=kind,
            )
        )
    return tuple(found)


@by_identity(4096)
def template_pools(devices: TemplateDevices) -> tuple[Pool, ...]:
    """Pools that a node of the type will have, in the order of its slices. A device whose counters the type
    does not have cannot be used, and is left out; so is a second one of the same name.
    """
    groups = _binding_groups(devices)
    order: dict[tuple[str, str], list[int]] = {}
    for at, one in enumerate(devices.slices):
        order.setdefault((one.driver, one.pool), []).append(at)
    pools = []
    for (driver, name), places in order.items():
        parts = [devices.slices[at] for at in places]
        sets, _ = _counters(held for one in parts for held in one.shared_counters)
        found: dict[str, Candidate] = {}
        for one in parts:
            for device in one.devices:
                consumed = _consumed(device.consumes_counters)
                if device.name in found or any(key not in sets for key in consumed):
                    continue
                id_ = DeviceId(driver, name, device.name)
                bound = {key: group for (key, member), group in groups.items() if member == id_}
                kind = _kind(device)
                likeness = (driver, name, tuple(sorted(bound.items())), kind)
                found[device.name] = Candidate(id_, device, True, consumed, likeness, groups=bound, kind=kind)
        pools.append(Pool(driver, name, tuple(found.values()), sets))
    return tuple(pools)


def _alternatives(selector: NodeSelector) -> tuple[Requirements, ...]:
    return Requirements.from_node_selector_terms(selector.node_selector_terms)


def _counters(sets: Iterable[CounterSet]) -> tuple[dict[CounterKey, int], bool]:
    """What there is of each counter, and whether no set is there twice."""
    found: dict[CounterKey, int] = {}
    names: set[str] = set()
    sound = True
    for one in sets:
        sound = sound and one.name not in names
        names.add(one.name)
        for name, counter in one.counters.items():
            found[one.name, name] = counter.value.nanos
    return found, sound


def _consumed(consumptions: Iterable[CounterConsumption]) -> dict[CounterKey, int]:
    found: dict[CounterKey, int] = {}
    for one in consumptions:
        for name, counter in one.counters.items():
            key = one.counter_set, name
            found[key] = found.get(key, 0) + max(0, counter.value.nanos)
    return found


def _kind(device: Device) -> bytes:
    return written(msgspec.structs.replace(device, name=""))


def _binding_groups(devices: TemplateDevices) -> dict[tuple[str, DeviceId], int]:
    """(attribute, device) -> group. Bindings that share a device are one group; one device alone is none."""
    groups: dict[tuple[str, DeviceId], int] = {}
    members: list[list[tuple[str, DeviceId]]] = []
    for binding in devices.bindings:
        keys = [(binding.attribute, one) for one in dict.fromkeys(binding.devices)]
        touched = sorted({groups[key] for key in keys if key in groups})
        mine = len(members)
        members.append(list(keys))
        for old in touched:
            members[mine] += members[old]
            members[old] = []
        for key in members[mine]:
            groups[key] = mine
    sizes = Counter(groups.values())
    return {key: group for key, group in groups.items() if sizes[group] > 1}
