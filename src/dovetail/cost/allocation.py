"""One allocation (a container's, or a group's), sets of them, how they merge, and how OpenCost writes them.

Costs are integer nano-dollars, so that a sum has no error; hours are floats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dovetail.base.clock import MINUTE
from dovetail.cost.window import Window
from dovetail.units.timestamp import to_rfc3339

NANO = 1_000_000_000
IDLE = "__idle__"
UNALLOCATED = "__unallocated__"
UNMOUNTED = "__unmounted__"
UNUSED = "__unused__"  # of a commitment; OpenCost knows nothing of the kind
SHARED = "__shared__"
RESOURCES = ("cpu", "gpu", "ram")
_DIGITS = 100_000  # five decimals
_NANO_STEP = NANO // _DIGITS


@dataclass(slots=True)
class Properties:
    """Where an allocation belongs; "" is unknown, or differs inside the group. Labels' keys are sanitized."""

    cluster: str = ""
    node: str = ""
    container: str = ""
    controller: str = ""
    controller_kind: str = ""
    namespace: str = ""
    pod: str = ""
    provider_id: str = ""
    services: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    namespace_annotations: Mapping[str, str] = field(default_factory=dict)

    def common(self, other: Properties, *, metadata: bool) -> Properties:
        """What both have; labels and annotations only with `metadata`, those of a namespace with it."""
        found = Properties(
            **{name: getattr(self, name) for name in _TEXTS if getattr(self, name) == getattr(other, name)}
        )
        if self.namespace != other.namespace:
            return found
        source = other if self.container == UNMOUNTED else self
        found.namespace_labels = source.namespace_labels
        found.namespace_annotations = source.namespace_annotations
        if not metadata:
            return found
        if UNMOUNTED in (self.container, other.container):
            source = other if self.container == UNMOUNTED else self
            found.labels, found.annotations = source.labels, source.annotations
        else:
            found.labels = _both(self.labels, other.labels)
            found.annotations = _both(self.annotations, other.annotations)
        return found

    def to_json(self) -> dict[str, Any]:
        """With OpenCost's names; what is empty is left out."""
        found = {name: getattr(self, attribute) for attribute, name in _NAMES.items()}
        found["services"] = list(self.services)
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in found.items()
            if value
        }


_TEXTS = ("cluster", "node", "container", "controller", "controller_kind", "namespace", "pod", "provider_id")
_NAMES = {
    "cluster": "cluster",
    "node": "node",
    "container": "container",
    "controller": "controller",
    "controller_kind": "controllerKind",
    "namespace": "namespace",
    "pod": "pod",
    "services": "services",
    "provider_id": "providerID",
    "labels": "labels",
    "annotations": "annotations",
    "namespace_labels": "namespaceLabels",
    "namespace_annotations": "namespaceAnnotations",
}


def _both(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in one.items() if other.get(key) == value}


@dataclass(slots=True)
class Volume:
    """What an allocation has of a persistent volume; `cost` in nano-dollars."""

    cost: int = 0
    byte_hours: float = 0.0
    provider_id: str = ""
    adjustment: int = 0


@dataclass(slots=True)
class Allocation:
    """`start` and `end` in nanoseconds since the epoch, costs in nano-dollars.

    `idle_cost` is what of `cost` is a share of idle. Requests and uses are averages from `start` to `end`.
    """

    name: str
    properties: Properties
    window: Window
    start: int
    end: int
    cost: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RESOURCES, 0))
    adjustment: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RESOURCES, 0))
    hours: dict[str, float] = field(default_factory=lambda: dict.fromkeys(RESOURCES, 0.0))
    request: dict[str, float] = field(default_factory=lambda: dict.fromkeys(RESOURCES, 0.0))
    usage: dict[str, float] = field(default_factory=lambda: dict.fromkeys(RESOURCES, 0.0))
    network: int = 0
    load_balancer: int = 0
    shared: int = 0
    external: int = 0
    volumes: dict[str, Volume] = field(default_factory=dict)  # "cluster=c1:name=pv-1"
    parts: int = 1  # allocations that it is made of
    copied: bool = False  # OpenCost writes two empty tables into what it has copied, and into nothing else

    @property
    def is_idle(self) -> bool:
        return IDLE in self.name

    @property
    def minutes(self) -> float:
        return (self.end - self.start) / MINUTE

    def resource_cost(self, resource: str) -> int:
        """With its adjustment."""
        return self.cost[resource] + self.adjustment[resource]

    @property
    def volume_cost(self) -> int:
        return sum(volume.cost + volume.adjustment for volume in self.volumes.values())

    @property
    def total(self) -> int:
        """Everything, nano-dollars."""
        resources = sum(map(self.resource_cost, RESOURCES))
        return resources + self.volume_cost + self.network + self.load_balancer + self.shared + self.external

    def efficiency(self, resource: str) -> float:
        """Use by request; without a request 1 when there is use and cost, else 0."""
        if self.request[resource] > 0:
            return self.usage[resource] / self.request[resource]
        return 1.0 if self.usage[resource] and self.cost[resource] else 0.0

    @property
    def total_efficiency(self) -> float:
        """Weighted by cost."""
        paid = {resource: self.resource_cost(resource) for resource in RESOURCES}
        whole = sum(paid.values())
        if whole <= 0:
            return 0.0
        return sum(self.efficiency(resource) * paid[resource] for resource in RESOURCES) / whole

    def add(self, other: Allocation, *, metadata: bool = False) -> None:
        """Take in another one; `metadata` keeps the labels and annotations that both have."""
        mine, its = self.properties, other.properties
        self.properties = mine.common(its, metadata=metadata)
        if _container(mine) == _container(its) and mine.controller != its.controller:
            self.properties.controller = min(filter(None, (mine.controller, its.controller)))
        spans = self.minutes, other.minutes
        self.window = Window(
            min(self.window.start, other.window.start), max(self.window.end, other.window.end)
        )
        self.start, self.end = min(self.start, other.start), max(self.end, other.end)
        for resource in RESOURCES:
            for mean, others in ((self.request, other.request), (self.usage, other.usage)):
                sum_ = mean[resource] * spans[0] + others[resource] * spans[1]
                mean[resource] = sum_ / self.minutes if self.minutes > 0 else 0.0
            self.hours[resource] += other.hours[resource]
            self.cost[resource] += other.cost[resource]
            self.adjustment[resource] += other.adjustment[resource]
        self.network += other.network
        self.load_balancer += other.load_balancer
        self.shared += other.shared
        self.external += other.external
        self.parts += other.parts
        for key, volume in other.volumes.items():
            have = self.volumes.setdefault(key, Volume(provider_id=volume.provider_id))
            have.cost += volume.cost
            have.byte_hours += volume.byte_hours
            have.adjustment += volume.adjustment

    def copy(self) -> Allocation:
        """Its own counts; properties are shared, they are never changed in place."""
        return replace(
            self,
            cost=dict(self.cost),
            adjustment=dict(self.adjustment),
            hours=dict(self.hours),
            request=dict(self.request),
            usage=dict(self.usage),
            volumes={key: replace(volume) for key, volume in self.volumes.items()},
            copied=True,
        )

    def to_json(self) -> dict[str, Any]:
        """As OpenCost's HTTP answer has it: dollars, hours and bytes with five decimals."""
        hours = self.minutes / 60
        found: dict[str, Any] = {
            "name": self.name,
            "properties": self.properties.to_json(),
            "window": {"start": to_rfc3339(self.window.start), "end": to_rfc3339(self.window.end)},
            "start": to_rfc3339(self.start),
            "end": to_rfc3339(self.end),
            "minutes": rounded(self.minutes),
        }
        for resource, amount, spent, mean in _WRITTEN:
            found |= {
                amount: rounded(self.hours[resource] / hours if hours > 0 else 0.0),
                spent: rounded(self.hours[resource]),
                f"{mean}RequestAverage": rounded(self.request[resource]),
                f"{mean}UsageAverage": rounded(self.usage[resource]),
                f"{resource}Cost": dollars(self.cost[resource]),
                f"{resource}CostAdjustment": dollars(self.adjustment[resource]),
                f"{resource}CostIdle": 0,  # OpenCost leaves it 0: shared idle is inside the cost
                f"{resource}Efficiency": rounded(self.efficiency(resource)),
            }
        byte_hours = sum(volume.byte_hours for volume in self.volumes.values())
        found |= dict.fromkeys(_ALWAYS_0, 0)
        found |= {
            "networkCost": dollars(self.network),
            "loadBalancerCost": dollars(self.load_balancer),
            "lbAllocations": None,
            "pvBytes": rounded(byte_hours / hours if hours > 0 else 0.0),
            "pvByteHours": rounded(byte_hours),
            "pvCost": dollars(sum(volume.cost for volume in self.volumes.values())),
            "pvs": _volumes(self.volumes),
            "sharedCost": dollars(self.shared),
            "externalCost": dollars(self.external),
            "totalCost": dollars(self.total),
            "totalEfficiency": rounded(self.total_efficiency),
        }
        if self.copied:
            found |= {"proportionalAssetResourceCosts": {}, "sharedCostBreakdown": {}}
        return found


_WRITTEN = (
    ("cpu", "cpuCores", "cpuCoreHours", "cpuCore"),
    ("gpu", "gpuCount", "gpuHours", "gpu"),
    ("ram", "ramBytes", "ramByteHours", "ramByte"),
)
_ALWAYS_0 = (
    "networkTransferBytes",
    "networkReceiveBytes",
    "networkCrossZoneCost",
    "networkCrossRegionCost",
    "networkInternetCost",
    "networkCostAdjustment",
    "loadBalancerCostAdjustment",
    "pvCostAdjustment",
)


def _container(properties: Properties) -> tuple[str, ...]:
    one = properties
    return one.cluster, one.node, one.namespace, one.pod, one.container


def _volumes(volumes: Mapping[str, Volume]) -> dict[str, Any] | None:
    if not volumes:
        return None
    return {
        key: {
            "byteHours": volume.byte_hours,
            "cost": volume.cost / NANO,
            "providerID": volume.provider_id,
            "adjustment": volume.adjustment / NANO,
        }
        for key, volume in sorted(volumes.items())
    }


def rounded(value: float) -> float | None:
    """Five decimals, half away from zero; None for what is no number."""
    if not math.isfinite(value):
        return None
    scaled = value * _DIGITS
    if not math.isfinite(scaled):
        return value
    whole = math.floor(abs(scaled) + 0.5)
    return math.copysign(whole, scaled) / _DIGITS if whole else 0


def dollars(nanos: int) -> float:
    """Nano-dollars as dollars with five decimals, half away from zero."""
    whole = (abs(nanos) + _NANO_STEP // 2) // _NANO_STEP
    return (-whole if nanos < 0 else whole) / _DIGITS


class AllocationSet:
    """Allocations of one window, by name; inserting one that is there merges them."""

    def __init__(self, window: Window, allocations: Iterable[Allocation] = ()) -> None:
        self.window = window
        self._by_name: dict[str, Allocation] = {}
        for allocation in allocations:
            self.insert(allocation)

    def insert(self, allocation: Allocation, *, metadata: bool = False) -> None:
        """Merge it with what has its name; the set owns it from then on."""
        have = self._by_name.get(allocation.name)
        if have is None:
            self._by_name[allocation.name] = allocation
        else:
            have.add(allocation, metadata=metadata)

    def remove(self, name: str) -> Allocation:
        """Take one out."""
        return self._by_name.pop(name)

    def __iter__(self) -> Iterator[Allocation]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def total(self) -> int:
        """Nano-dollars of all of it."""
        return sum(allocation.total for allocation in self)

    def to_json(self) -> dict[str, Any]:
        """As OpenCost answers: name -> allocation, names sorted."""
        return {name: self._by_name[name].to_json() for name in sorted(self._by_name)}


def proportional(amount: int, weights: Mapping[str, int]) -> dict[str, int]:
    """`amount` in whole parts, in proportion to the weights: the parts sum to it, always.

    Largest remainders get what rounding leaves; equal ones in the order of their names. Weights that sum to
    0 or less get nothing, and neither does one below 0.
    """
    positive = {name: weight for name, weight in weights.items() if weight > 0}
    whole = sum(positive.values())
    if not whole:
        return {}
    sign = -1 if amount < 0 else 1
    parts: dict[str, int] = {}
    remainders: list[tuple[int, str]] = []
    for name, weight in positive.items():
        parts[name], rest = divmod(abs(amount) * weight, whole)
        remainders.append((-rest, name))
    left = abs(amount) - sum(parts.values())
    for _, name in sorted(remainders)[:left]:
        parts[name] += 1
    return {name: sign * part for name, part in parts.items()}
