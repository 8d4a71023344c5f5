"""Facts of the past -> what it cost in a window, by container, and what each node cost.

A node's bill in the window is split into CPU, memory and devices as OpenCost splits a price; a container
bears of each what max(request, usage) is of the node's capacity, for as long as it ran. All of it is whole
nano-dollars, and what no container bears is idle: allocations and idle sum to the bill, always.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dovetail.base.clock import HOUR
from dovetail.cost.aggregate import NodeCost
from dovetail.cost.allocation import (
    UNMOUNTED,
    UNUSED,
    Allocation,
    AllocationSet,
    Properties,
    Volume,
    proportional,
)
from dovetail.cost.facts import Amounts, Facts, Instance, PodRun, VolumeRun, Workload, volume_cost
from dovetail.cost.filters import sanitized
from dovetail.cost.window import Window

# OpenCost's default prices: micro-dollars an hour for a core, a GiB, a device. Only their ratios count here.
CORE, GIB, DEVICE = 31_611, 4_237, 950_000
_GIB = 1 << 30
_MILLI = 1_000
DEVICES = ("nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "gpu.intel.com/i915")


def split(cost: int, capacity: Amounts) -> dict[str, int]:
    """A node's cost by resource, in the ratio of OpenCost's default prices."""
    weights = {
        "cpu": capacity.get("cpu", 0) * CORE * _GIB,
        "ram": capacity.get("memory", 0) * GIB * _MILLI,
        "gpu": devices(capacity) * DEVICE * _GIB * _MILLI,
    }
    if not any(weights.values()):
        weights["cpu"] = 1
    return {"cpu": 0, "gpu": 0, "ram": 0} | proportional(cost, weights)


def devices(amounts: Amounts) -> int:
    """How many GPUs and the like."""
    return sum(amounts.get(name, 0) for name in DEVICES)


def node_costs(facts: Facts, window: Window, *, disks: bool = False) -> list[NodeCost]:
    """Every instance that was billed in the window, in order of name.

    With `disks` root volumes are not part of a node's cost, as OpenCost has it; else they are.
    """
    found = []
    for one in facts.instances.values():
        start, end = _lived(one.start, one.end, window, facts.end)
        if end <= start:
            continue
        found.append(
            NodeCost(
                cluster=facts.cluster,
                name=one.name,
                start=start,
                end=end,
                cost=split(_paid(one, window, disks), one.capacity),
                provider_id=one.id,
                node_type=one.instance_type,
                capacity_type=one.capacity_type,
                pool=one.pool,
                amounts=one.capacity,
            )
        )
    return sorted(found, key=lambda node: (node.name, node.provider_id))


def _paid(one: Instance, window: Window, disks: bool) -> int:
    paid = one.billed(window.end) - one.billed(window.start)
    return paid - disk_cost(one, window) if disks else paid


def disk_cost(one: Instance, window: Window) -> int:
    """Of its root volumes in the window, nano-dollars."""
    return one.billed(window.end, volumes=True) - one.billed(window.start, volumes=True)


def _lived(start: int, end: int | None, window: Window, known: int) -> tuple[int, int]:
    """The part of a life that is in the window; what has not ended lives as far as is known."""
    return max(start, window.start), min(window.end, known if end is None else end)


def allocations(facts: Facts, window: Window, *, disks: bool = False) -> tuple[AllocationSet, list[NodeCost]]:
    """What the window cost by container, without idle, and its nodes for `add_idle`.

    Nothing is known after `facts.end`: a window that reaches beyond it costs what it did until then.
    """
    known = Window(window.start, max(window.start, min(window.end, facts.end)))
    nodes = node_costs(facts, known, disks=disks)
    priced = {node.provider_id: node for node in nodes}
    found = AllocationSet(window)
    first: dict[str, str] = {}  # namespace/pod -> the name of its first allocation
    kinds: dict[int, _Kind] = {}  # by the identity of a workload, which many pods share
    for run in facts.pods:
        node = priced.get(run.instance)
        start, end = _lived(run.start, run.end, known, facts.end)
        if node is None or end <= start:
            continue
        kind = kinds.get(id(run.workload))
        if kind is None:
            kind = kinds[id(run.workload)] = _kind_of(run.workload)
        for one in _of_pod(run, kind, node, facts.instances[run.instance], window, start, end):
            first.setdefault(f"{run.workload.namespace}/{run.name}", one.name)
            found.insert(one)
    for volume in facts.volumes:
        _lay(volume, found, first, facts, known)
    for name in {one.name: None for one in facts.unused}:
        _lay_unused(name, found, facts, known)
    return found, nodes


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is the same for all pods of a workload."""

    labels: dict[str, str]
    requests: dict[str, int]
    containers: tuple[tuple[str, dict[str, int]], ...]


def _kind_of(work: Workload) -> _Kind:
    labels = {sanitized(key): value for key, value in work.labels}
    return _Kind(labels, work.requests(), tuple((name, dict(amounts)) for name, amounts in work.containers))


def _of_pod(
    run: PodRun, kind: _Kind, node: NodeCost, instance: Instance, window: Window, start: int, end: int
) -> list[Allocation]:
    work = run.workload
    measured = run.mean_use(start, end) if run.usage else {}
    made = []
    for number, (container, asked) in enumerate(kind.containers):
        used = {name: _part_of(amount, name, kind, number) for name, amount in measured.items()}
        one = Allocation(
            name=f"{node.cluster}/{node.name}/{work.namespace}/{run.name}/{container}",
            properties=Properties(
                cluster=node.cluster,
                node=node.name,
                container=container,
                controller=work.owner,
                controller_kind=work.kind,
                namespace=work.namespace,
                pod=run.name,
                provider_id=node.provider_id,
                services=work.services,
                labels=kind.labels,
            ),
            window=window,
            start=start,
            end=end,
        )
        for resource, own, use, whole, unit in (
            ("cpu", asked.get("cpu", 0), used.get("cpu", 0), instance.capacity.get("cpu", 0), _MILLI),
            ("ram", asked.get("memory", 0), used.get("memory", 0), instance.capacity.get("memory", 0), 1),
            ("gpu", devices(asked), devices(used), devices(instance.capacity), 1),
        ):
            taken = max(own, use)
            one.request[resource], one.usage[resource] = own / unit, use / unit
            one.hours[resource] = taken / unit * (end - start) / HOUR
            if whole and taken:
                share = node.cost[resource] * taken * (end - start)
                one.cost[resource] = share // (whole * (node.end - node.start))
        made.append(one)
    return made


def _part_of(amount: int, name: str, kind: _Kind, number: int) -> int:
    """Of what a pod uses, what its container of that number does: in proportion to their requests.

    What rounding leaves, and what no container asks for, is the first one's.
    """
    whole = kind.requests.get(name, 0)
    parts = [amount * asked.get(name, 0) // whole if whole else 0 for _, asked in kind.containers]
    return parts[number] + (amount - sum(parts) if number == 0 else 0)


def _lay(
    volume: VolumeRun, found: AllocationSet, first: dict[str, str], facts: Facts, window: Window
) -> None:
    """A volume's cost goes to the pods that mount it, by the time each does; the rest is unmounted."""
    start, end = _lived(volume.start, volume.end, window, facts.end)
    cost = volume_cost(volume, start, end)
    if end <= start or not cost:
        return
    spans = []
    for pod, since, until in volume.mounts:
        begin, stop = _lived(since, until, Window(start, end), facts.end)
        if stop > begin and pod in first:
            spans.append((begin, stop, first[pod]))
    weights: dict[str, int] = {}
    edges = sorted({start, end, *(edge for span in spans for edge in span[:2])})
    for begin, stop in pairwise(edges):
        here = [name for since, until, name in spans if since <= begin and until >= stop] or [""]
        for name in here:  # exact thirds: 5,040 can be divided by all numbers up to 10
            weights[name] = weights.get(name, 0) + (stop - begin) * 5_040 // len(here)
    key = f"cluster={facts.cluster}:name={volume.name}"
    by_name = {one.name: one for one in found}
    for name, part in proportional(cost, weights).items():
        laid = Volume(part, volume.size * (end - start) / HOUR * part / cost, volume.name)
        if name:
            by_name[name].volumes[key] = laid
            continue
        namespace = volume.claim.partition("/")[0] or UNMOUNTED
        found.insert(
            Allocation(
                name=f"{facts.cluster}/{UNMOUNTED}/{namespace}/{UNMOUNTED}/{UNMOUNTED}",
                properties=Properties(
                    cluster=facts.cluster,
                    node=UNMOUNTED,
                    namespace=namespace,
                    pod=UNMOUNTED,
                    container=UNMOUNTED,
                ),
                window=found.window,
                start=start,
                end=end,
                volumes={key: laid},
            )
        )


def _lay_unused(name: str, found: AllocationSet, facts: Facts, window: Window) -> None:
    """What nothing uses of a commitment belongs to no pod: a line of its own, beside idle."""
    cost = sum(one.cost(window.start, window.end) for one in facts.unused if one.name == name)
    if not cost:
        return
    found.insert(
        Allocation(
            name=f"{facts.cluster}/{UNUSED}/{UNUSED}/{name}/{UNUSED}",
            properties=Properties(
                cluster=facts.cluster,
                node=UNUSED,
                namespace=UNUSED,
                controller=UNUSED,
                pod=name,
                container=UNUSED,
            ),
            window=found.window,
            start=window.start,
            end=window.end,
            external=cost,
        )
    )


def stepped(
    facts: Facts, windows: Sequence[Window], *, disks: bool = False
) -> list[tuple[AllocationSet, list[NodeCost]]]:
    """`allocations` of several windows."""
    return [allocations(facts, window, disks=disks) for window in windows]
