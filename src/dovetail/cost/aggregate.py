"""Grouping a set of allocations as OpenCost does: idle, sharing, filters, keys, accumulation.

The order is OpenCost's: shares are computed over all allocations before a filter drops some, so that what
one gets does not depend on which others are asked for. Every share is whole nano-dollars and the shares
sum to what is shared. What a filter drops goes with its share; nothing else is ever lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from dovetail.base.clock import DAY, HOUR, SECOND
from dovetail.cost.allocation import (
    IDLE,
    NANO,
    RESOURCES,
    UNALLOCATED,
    UNMOUNTED,
    Allocation,
    AllocationSet,
    Properties,
    proportional,
)
from dovetail.cost.filters import ALIASES, Test, sanitized
from dovetail.cost.window import WEEK, Window
from dovetail.units.duration import format_duration

DEFAULT_KEYS = ("cluster", "node", "namespace", "pod", "container")
_FILTERED = "__filtered__"
_KINDS = ("daemonset", "statefulset", "deployment", "job")
_PLAIN = ("cluster", "node", "namespace", "pod", "container")
_WORDS = frozenset(
    (
        *_PLAIN,
        *_KINDS,
        *ALIASES,
        "controller",
        "controllerkind",
        "service",
        "label",
        "annotation",
        "providerid",
    )
)
_CALLED = {"controllerkind": "controllerKind", "providerid": "providerID"}
Accumulate = Literal["", "none", "all", "hour", "day", "week", "month", "quarter"]
Split = Literal["__even__", "__weighted__"]


@dataclass(frozen=True, slots=True)
class NodeCost:
    """What a node cost in a window; `cost` by resource in nano-dollars, before discount and adjustment."""

    cluster: str
    name: str
    start: int
    end: int
    cost: Mapping[str, int]
    discount: float = 0.0
    adjustment: int = 0
    provider_id: str = ""
    node_type: str = ""
    capacity_type: str = ""
    pool: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict)  # its capacity: milli-CPU, bytes, devices

    @property
    def paid(self) -> dict[str, int]:
        """By resource, after the discount (of CPU and memory) and with its part of the adjustment."""
        discounted = {
            resource: cost if resource == "gpu" else cost - round(cost * self.discount)
            for resource, cost in self.cost.items()
        }
        extra = proportional(self.adjustment, discounted)
        return {resource: cost + extra.get(resource, 0) for resource, cost in discounted.items()}


@dataclass(frozen=True, slots=True)
class Options:
    """How to group; the defaults are OpenCost's.

    Where nothing is left but idle, or what is shared, OpenCost answers nothing; with `whole` it is shown.
    `shared_hourly` is dollars an hour by name; `share` picks the allocations whose cost the others bear.
    """

    aggregate: tuple[str, ...] = DEFAULT_KEYS
    include_idle: bool = False
    idle_by_node: bool = False
    share_idle: bool = False
    split_idle: bool = False
    keep: Test | None = None
    share: Test | None = None
    shared_hourly: Mapping[str, float] = field(default_factory=dict)
    share_split: Split = "__weighted__"
    accumulate: Accumulate = ""
    metadata: bool = False
    merge_unallocated: bool = False
    whole: bool = False


def parse_keys(names: Sequence[str]) -> tuple[str, ...]:
    """The keys of `aggregate`: any case, unknown ones dropped as OpenCost drops them.

    None given: by container; "all": one group.
    """
    if not names:
        return DEFAULT_KEYS
    if list(names) == ["all"]:
        return ()
    found = []
    for name in filter(None, (name.strip() for name in names)):
        kind, colon, key = name.partition(":")
        if colon and kind in ("label", "annotation"):
            found.append(f"{kind}:{sanitized(key.strip())}")
        elif name.lower() in _WORDS:
            found.append(_CALLED.get(name.lower(), name.lower()))
    return tuple(found)


def strict_keys(given: str) -> tuple[str, ...]:
    """Keys as a person writes them, with commas: what OpenCost would drop or group by nothing is wrong.

    Raises ValueError with the name that is.
    """
    names = [name.strip() for name in given.split(",") if name.strip()]
    if names == ["all"]:
        return ()
    for name in names or [given]:
        found = parse_keys([name]) if name else ()
        if len(found) != 1 or found[0].endswith(":") or found[0] in ("label", "annotation", "providerID"):
            raise ValueError(f"{name!r} is nothing to aggregate by")
    return parse_keys(names)


def key_of(properties: Properties, aggregate: Sequence[str]) -> str:
    """The name of the group that an allocation belongs to."""
    return "/".join(part for key in aggregate for part in _part(properties, key))


def _part(one: Properties, key: str) -> tuple[str, ...]:
    if key in _PLAIN:
        return (getattr(one, key),)
    if key in _KINDS:
        return (one.controller if one.controller_kind == key and one.controller else UNALLOCATED,)
    if key in ALIASES:
        name = sanitized(ALIASES[key])
        return (one.labels.get(name, one.annotations.get(name, UNALLOCATED)),)
    kind, _, name = key.partition(":")
    match kind:
        case "controllerKind":
            return (one.controller_kind or UNALLOCATED,)
        case "controller":
            named = f"{one.controller_kind}:{one.controller}" if one.controller_kind else one.controller
            return (named if one.controller else UNALLOCATED,)
        case "service":
            if one.services and UNMOUNTED in (one.pod, one.namespace, one.container):
                return (UNMOUNTED,)
            return (one.services[0] if one.services else UNALLOCATED,)
        case "label" if name:
            return (one.labels.get(name, UNALLOCATED),)
        case "annotation" if name:
            return (one.annotations.get(name, UNALLOCATED),)
    return ()  # "label" without a name and providerID: OpenCost takes them and groups by nothing


def add_idle(allocations: AllocationSet, nodes: Sequence[NodeCost]) -> None:
    """Add for every node what of its cost no allocation bears, per resource: it may be below 0."""
    borne: dict[tuple[str, str], dict[str, int]] = {}
    for allocation in allocations:
        where = allocation.properties.cluster, allocation.properties.node
        sums = borne.setdefault(where, dict.fromkeys(RESOURCES, 0))
        for resource in RESOURCES:
            sums[resource] += allocation.resource_cost(resource)
    for node in nodes:
        paid = node.paid
        sums = borne.get((node.cluster, node.name), {})
        idle = Allocation(
            name=f"{node.cluster}/{node.name}/{IDLE}",
            properties=Properties(
                cluster=node.cluster, node=node.name, provider_id=node.provider_id or node.name
            ),
            window=allocations.window,
            start=node.start,
            end=node.end,
        )
        for resource in RESOURCES:
            idle.cost[resource] = paid.get(resource, 0) - sums.get(resource, 0)
        allocations.insert(idle)


def aggregate(allocations: AllocationSet, options: Options) -> AllocationSet:
    """The groups of one set; the set is used up. Idle must be in it already (`add_idle`)."""
    if not len(allocations):
        return AllocationSet(allocations.window)
    work = _Work(allocations, options)
    if not work.members and not options.whole:
        return AllocationSet(allocations.window)
    if options.share_idle:
        work.spread_idle()
    elif options.keep is not None:
        work.filter_idle()
    return work.grouped()


class _Work:
    """One set on its way: `members` are to be grouped, `shared` are borne by them, `idle` by both."""

    def __init__(self, allocations: AllocationSet, options: Options) -> None:
        self._options = options
        self._window = allocations.window
        self.members: list[Allocation] = []
        self.shared: list[Allocation] = []
        self.idle: list[Allocation] = []
        for one in allocations:
            if one.is_idle:
                self.idle.append(one)
            elif options.share is not None and options.share(one.properties):
                self.shared.append(one)
            else:
                self.members.append(one)
        # Before idle is spread: what a group bears of shared cost goes by its own.
        self._weights = self._share_weights()

    def _keeps(self, one: Allocation) -> bool:
        return self._options.keep is None or self._options.keep(one.properties)

    def _place(self, one: Allocation) -> str:
        """Where idle is shared: within the cluster, or within the node."""
        where = one.properties
        return f"{where.cluster}/{where.node}" if self._options.idle_by_node else where.cluster

    def _bearers(self) -> dict[str, list[Allocation]]:
        found: dict[str, list[Allocation]] = {}
        for one in (*self.members, *self.shared):
            found.setdefault(self._place(one), []).append(one)
        return found

    def spread_idle(self) -> None:
        """Idle goes to what shares its place, by cost of each resource; what none uses stays idle."""
        bearers = self._bearers()
        costs = {
            place: {
                resource: {str(index): one.resource_cost(resource) for index, one in enumerate(ones)}
                for resource in RESOURCES
            }
            for place, ones in bearers.items()
        }
        left: list[Allocation] = []
        for idle in self.idle:
            place = self._place(idle)
            ones = bearers.get(place, [])
            stays = False
            for resource in RESOURCES:
                weights = costs[place][resource] if ones else {}
                parts = proportional(idle.cost[resource], weights)
                for index, part in parts.items():
                    ones[int(index)].cost[resource] += part
                if parts:
                    idle.cost[resource] = 0
                stays |= bool(idle.cost[resource])
            if stays and self._keeps(idle):
                idle.name = f"{place}/{IDLE}"
                left.append(idle)
        self.idle = left

    def filter_idle(self) -> None:
        """Keep of idle what the kept allocations would bear of it."""
        bearers = self._bearers()
        shared = {id(one) for one in self.shared}
        for idle in self.idle:
            ones = bearers.get(self._place(idle))
            if ones is None:
                continue
            for resource in RESOURCES:
                kept = sum(
                    max(0, one.resource_cost(resource))
                    for one in ones
                    if id(one) in shared or self._keeps(one)
                )
                whole = sum(max(0, one.resource_cost(resource)) for one in ones)
                parts = proportional(idle.cost[resource], {"kept": kept, "dropped": whole - kept})
                idle.cost[resource] = parts.get("kept", 0)

    def _name(self, one: Allocation) -> str:
        key = key_of(one.properties, self._options.aggregate)
        return UNALLOCATED if self._options.merge_unallocated and UNALLOCATED in key else key

    def _share_weights(self) -> dict[str, int]:
        """By group, and of what the filter drops; volumes that no pod mounts bear nothing."""
        weights: dict[str, int] = {}
        for one in self.members:
            if UNMOUNTED in one.name:
                continue
            name = self._name(one) if self._keeps(one) else _FILTERED
            if self._options.share_split == "__even__":
                weights[name] = 1
            else:
                weights[name] = weights.get(name, 0) + one.total - one.shared
        return weights

    def grouped(self) -> AllocationSet:
        """Filter, group, and lay the shared cost on the groups."""
        groups = AllocationSet(self._window)
        # OpenCost takes in idle that is not shared before it looks at anything else.
        for idle in self.idle:
            if self._options.split_idle:
                groups.insert(idle, metadata=self._options.metadata)
            else:
                merged = idle.copy()
                merged.name = IDLE
                groups.insert(merged, metadata=self._options.metadata)
        for one in self.members:
            if self._keeps(one):
                one.name = self._name(one)
                groups.insert(one, metadata=self._options.metadata)
        amounts = [*(one.total for one in self.shared), *self._hourly()]
        if self._options.whole and not any(weight > 0 for weight in self._weights.values()):
            for one in self.shared:  # no one is there to bear it
                one.name = self._name(one)
                groups.insert(one, metadata=self._options.metadata)
            return groups
        for amount in amounts:
            parts = proportional(amount, self._weights)
            for group in groups:
                group.shared += parts.get(group.name, 0)
        return groups

    def _hourly(self) -> list[int]:
        hours = self._window.length / HOUR
        return [round(cost * hours * NANO) for cost in self._options.shared_hourly.values() if cost > 0]


def accumulate(sets: Sequence[AllocationSet], by: str, *, metadata: bool = False) -> list[AllocationSet]:
    """Merge sets that follow each other: all of them, or those of an hour, a day, a week, a month, a quarter.

    Raises ValueError in OpenCost's words for sets whose windows do not fit.
    """
    if by in ("", "none"):
        return list(sets)
    if by == "all":
        return [_merged(sets, metadata)] if sets else []
    if by not in _ACCUMULATED:
        raise ValueError(f"unexpected error, invalid accumulateByType: {by}")
    unit, whole = _ACCUMULATED[by]
    if by == "hour":
        if sets and sets[0].window.length != HOUR:
            raise ValueError(_unfit(HOUR, sets[0]))
        return list(sets)
    if whole and sets and sets[0].window.length == whole:
        return list(sets)
    found: list[AllocationSet] = []
    pending: list[AllocationSet] = []
    for index, one in enumerate(sets):
        if one.window.length != unit:
            raise ValueError(_unfit(unit, one))
        pending.append(one)
        if index == len(sets) - 1 or _group(by, one.window.start) != _group(by, one.window.start + unit):
            found.append(_merged(pending, metadata))
            pending = []
    return found


# What the sets must be of, and what needs no merging.
_ACCUMULATED = {
    "hour": (HOUR, HOUR),
    "day": (HOUR, DAY),
    "week": (DAY, WEEK),
    "month": (DAY, 0),
    "quarter": (DAY, 0),
}


def _unfit(unit: int, one: AllocationSet) -> str:
    name = "1 hour" if unit == HOUR else "24 hours"
    return f"window duration must equal {name}; got:{format_duration(one.window.length)}"


def _group(by: str, at: int) -> tuple[int, int]:
    """The day, week (from Sunday), month or quarter that an instant is in."""
    if by == "day":
        return at // DAY, 0
    if by == "week":
        return (at // DAY + 4) // 7, 0  # the epoch was a Thursday
    day = datetime.fromtimestamp(at // SECOND, UTC)
    return day.year, (day.month - 1) // (1 if by == "month" else 3)


def _merged(sets: Sequence[AllocationSet], metadata: bool) -> AllocationSet:
    window = Window(min(one.window.start for one in sets), max(one.window.end for one in sets))
    found = AllocationSet(window)
    for one in sets:
        for allocation in one:
            found.insert(allocation.copy(), metadata=metadata)
    for allocation in found:
        allocation.window = window
    return found


def shares_of(
    sets: Sequence[tuple[AllocationSet, Sequence[NodeCost]]], options: Options
) -> list[AllocationSet]:
    """The whole question: idle where it is asked for, groups, accumulation. The sets are used up.

    Raises ValueError as `accumulate` does.
    """
    answers = []
    for allocations, nodes in sets:
        if options.include_idle:
            add_idle(allocations, nodes)
        answers.append(aggregate(allocations, options))
    return accumulate(answers, options.accumulate, metadata=options.metadata)
