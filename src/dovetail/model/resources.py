"""Amounts of resources as exact integers: milli-units of CPU, whole units (bytes, counts) of all else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_

from msgspec.structs import replace

from dovetail.api.core import Container, ContainerStatus, Pod, PodSpec, ResourceList
from dovetail.api.meta import condition
from dovetail.api.pod_resources import as_quantities, at_once, nanos, plus
from dovetail.base.memo import MOST_PODS, by_identity
from dovetail.units.quantity import Quantity

# Resource name -> amount; CPU in thousandths, everything else in whole units. Absent means 0.
Resources = Mapping[str, int]

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
RESIZE_PENDING = "PodResizePending"  # the condition of a pod whose resize has not begun, or cannot
_NANOS_PER_UNIT = {False: 1_000_000_000, True: 1_000_000}  # by: is it CPU?
# No node has so much of anything, in the units of `Resources`: 512 TiB, 562 billion cores. The largest
# machine that is for sale has 32 TiB of memory and 336 TB of disks. Below it, 16,000 amounts add up without
# leaving 64 bits, floats distinguish any two amounts, and HiGHS takes them (it refuses 1e15 and more).
LARGEST = 2**49
TYPO_FROM = 1_000_000_000  # milli-CPU: a request for a million CPUs lacks its unit
_LARGEST_NANOS = LARGEST * _NANOS_PER_UNIT[True]  # of CPU; of all else it takes a thousand times as much


def amounts(quantities: ResourceList) -> dict[str, int]:
    """Quantities as integers, rounded up."""
    return {
        name: quantity.milli() if name == CPU else quantity.value() for name, quantity in quantities.items()
    }


def room(quantities: ResourceList) -> dict[str, int]:
    """What a machine says that it has: as `amounts`, but less than LARGEST of anything.

    Whatever is reported, what asks for LARGEST has no room anywhere.
    """
    return bounded(amounts(quantities))


def bounded(resources: Resources) -> dict[str, int]:
    """Amounts that were read already, but less than LARGEST of anything."""
    return {name: max(-LARGEST, min(amount, LARGEST - 1)) for name, amount in resources.items()}


@by_identity(MOST_PODS)
def excess(pod: Pod) -> str:
    """The first resource by name that the pod asks for LARGEST of or more; "" if there is none."""
    spec = pod.spec
    # Adding up all that is written finds ordinary pods in a fraction of the time of `pod_requests`.
    written = 0
    for container in (*spec.containers, *spec.init_containers):
        for quantity in container.resources.requests.values():
            written += abs(quantity.nanos)
    for quantity in (*spec.overhead.values(), *(spec.resources.requests.values() if spec.resources else ())):
        written += abs(quantity.nanos)
    if written < _LARGEST_NANOS:
        return ""
    return min((name for name, amount in pod_requests(pod).items() if amount >= LARGEST), default="")


def quantities(resources: Resources) -> ResourceList:
    """The inverse of `amounts`; bytes in the form that people write them (Mi, Gi)."""
    return {
        name: Quantity(
            amount * (1_000_000 if name == CPU else 1_000_000_000),
            "binary" if name in (MEMORY, EPHEMERAL_STORAGE) else "decimal",
        )
        for name, amount in resources.items()
    }


def add(a: Resources, b: Resources) -> dict[str, int]:
    """Sum over all names of either."""
    found = dict(a)
    for name, amount in b.items():
        found[name] = found.get(name, 0) + amount
    return found


def total(amounts: Iterable[Resources]) -> dict[str, int]:
    """The sum of all of them, over all their names."""
    found: dict[str, int] = {}
    for each in amounts:
        for name, amount in each.items():
            found[name] = found.get(name, 0) + amount
    return found


def subtract(a: Resources, b: Resources) -> dict[str, int]:
    """`a - b` over all names of either; may be negative."""
    rest = dict(a)
    for name, amount in b.items():
        rest[name] = rest.get(name, 0) - amount
    return rest


def fits(wanted: Resources, room: Resources) -> bool:
    """True iff every wanted amount is at most the room there is; nothing fits below zero room."""
    return all(amount <= room.get(name, 0) for name, amount in wanted.items() if amount > 0)


def pod_requests(pod: Pod) -> Resources:
    """What the scheduler counts for a pod, including `pods: 1`.

    Limits do not become requests here: the API server has done that when it stored the pod. A container that
    is resized in place takes the larger of what it asks for and what it has been given, as long as it runs.
    """
    asked = _requests(pod.spec)  # which stays while the pod's status changes
    status = pod.status
    if pod.spec.node_name and (status.container_statuses or status.init_container_statuses):
        return _in_place(pod)
    return asked


@by_identity(MOST_PODS)
def _in_place(pod: Pod) -> Resources:
    """As kube-scheduler counts a pod on a node since 1.33, within LARGEST: whoever writes its status."""
    known = {one.name: one for one in (*pod.status.container_statuses, *pod.status.init_container_statuses)}
    pending = condition(pod.status.conditions, RESIZE_PENDING)
    infeasible = pending is not None and pending.reason == "Infeasible"
    spec = pod.spec
    running = tuple(_granted(one, known, infeasible) for one in spec.containers)
    first = tuple(
        _granted(one, known, infeasible) if one.restart_policy == "Always" else one
        for one in spec.init_containers
    )
    if all(map(is_, (*running, *first), (*spec.containers, *spec.init_containers))):
        return _requests(spec)
    return bounded(_requests(replace(spec, containers=running, init_containers=first)))


def _granted(container: Container, known: Mapping[str, ContainerStatus], infeasible: bool) -> Container:
    """The container itself where it is given no more than it asks for."""
    status = known.get(container.name)
    if status is None or status.resources is None:
        return container
    asked = container.resources.requests
    found = {} if infeasible else dict(asked)
    for given in (status.resources.requests, status.allocated_resources):
        for name, amount in given.items():
            if name not in found or found[name] < amount:
                found[name] = amount
    if found == asked:
        return container
    return replace(container, resources=replace(container.resources, requests=found))


@by_identity(MOST_PODS)
def _requests(spec: PodSpec) -> Resources:
    total = at_once(spec.containers, spec.init_containers, "requests")
    if spec.resources is not None:
        total.update(nanos(spec.resources.requests))
    return _whole(plus(total, nanos(spec.overhead)) if spec.overhead else total)


def pod_quantities(pod: Pod) -> ResourceList:
    """As `pod_requests` without `pods`, exact and in the notation of the pod, for whoever shows them."""
    spec = pod.spec
    if (
        len(spec.containers) == 1
        and not spec.init_containers
        and not spec.overhead
        and spec.resources is None
    ):
        return spec.containers[0].resources.requests  # most pods
    found = as_quantities(spec.containers, spec.init_containers, "requests")
    if spec.resources is not None:
        found.update(spec.resources.requests)
    for name, amount in spec.overhead.items():
        have = found.get(name, Quantity(0, amount.style))
        found[name] = Quantity(have.nanos + amount.nanos, have.style)
    return found


def pod_limits(pod: Pod) -> dict[str, int]:
    """What a pod may use at most, including `pods: 1`; a name without any limit is absent."""
    spec = pod.spec
    total = at_once(spec.containers, spec.init_containers, "limits")
    if spec.resources is not None:
        total.update(nanos(spec.resources.limits))
    return _whole(plus(total, {name: one for name, one in nanos(spec.overhead).items() if total.get(name)}))


def _whole(nanos: Mapping[str, int]) -> dict[str, int]:
    """In the units of `Resources`, rounded up once, after all sums; one pod counts as one of `pods`."""
    amounts = {name: -(-amount // _NANOS_PER_UNIT[name == CPU]) for name, amount in nanos.items()}
    return {**amounts, PODS: 1}
