"""What the containers of a pod need at once, and the resources of a pod as a whole (Kubernetes 1.34)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from dovetail.api.codec import decode
from dovetail.api.core import Container, ResourceList, ResourceRequirements
from dovetail.api.names import label_key_faults
from dovetail.base.guess import nearest
from dovetail.units.quantity import Quantity

Nanos = dict[str, int]
Kind = Literal["requests", "limits"]

HUGE_PAGES = "hugepages-"
_REQUESTS = "requests."  # what quotas call requests; no resource is called so
OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
NOT_OF_CONTAINERS = "must be a standard resource for containers"
# What people write for a resource, where no letters say so.
_OTHER_WORDS = {
    "core": "cpu",
    "cores": "cpu",
    "vcpu": "cpu",
    "ram": "memory",
    "mem": "memory",
    "disk": "ephemeral-storage",
    "storage": "ephemeral-storage",
    "gpu": "nvidia.com/gpu",
    "gpus": "nvidia.com/gpu",
}


def at_once(running: tuple[Container, ...], first: tuple[Container, ...], kind: Kind) -> Nanos:
    """The most that is needed at once, in nano-units.

    Init containers run one by one before the others; those that restart (sidecars) stay, beside the init
    containers after them and beside all that run.
    """

    def wants(container: Container) -> Nanos:
        resources = container.resources
        return nanos(resources.requests if kind == "requests" else resources.limits)

    if len(running) == 1 and not first:  # most pods
        return wants(running[0])
    total: Nanos = {}
    for container in running:
        total = plus(total, wants(container))
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container in first:
        need = plus(wants(container), sidecars)
        if container.restart_policy == "Always":
            sidecars = need
            total = plus(total, wants(container))
        peak = _most(peak, need)
    return _most(total, peak)


def as_quantities(running: tuple[Container, ...], first: tuple[Container, ...], kind: Kind) -> ResourceList:
    """The same in the notation of the first container that writes it."""
    parts = (one.resources for one in (*running, *first))
    written = [part.requests if kind == "requests" else part.limits for part in parts]
    styles = {name: amount.style for each in reversed(written) for name, amount in each.items()}
    return {name: Quantity(amount, styles[name]) for name, amount in at_once(running, first, kind).items()}


def nanos(quantities: ResourceList) -> Nanos:
    return {name: quantity.nanos for name, quantity in quantities.items()}


def plus(a: Mapping[str, int], b: Mapping[str, int]) -> Nanos:
    return {name: a.get(name, 0) + b.get(name, 0) for name in (*a, *b)}


def _most(a: Mapping[str, int], b: Mapping[str, int]) -> Nanos:
    return {name: max(a.get(name, 0), b.get(name, 0)) for name in (*a, *b)}


def of_the_whole(name: str) -> bool:
    """True iff a pod as a whole may have requests and limits of it."""
    return name in ("cpu", "memory") or name.startswith(HUGE_PAGES)


def extended(name: str) -> bool:
    """True iff the resource is none of Kubernetes' own, such as a device."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith(_REQUESTS)


def meant_resource(name: str) -> str:
    """The resource of containers that was meant by a name; empty where it is one, or like none."""
    if name in OF_CONTAINERS:
        return ""
    lower = name.strip().lower()
    near = nearest(lower, OF_CONTAINERS)
    return _OTHER_WORDS.get(lower, near[0] if near else "")


def name_fault(name: str) -> str:
    """Why a container can have no such resource; empty when it can. As API servers of 1.36 judge."""
    if faults := label_key_faults(name):
        return faults[0]
    if "/" not in name:
        if name in OF_CONTAINERS or name.startswith(HUGE_PAGES):
            return ""
        return NOT_OF_CONTAINERS
    if "kubernetes.io/" in name or (extended(name) and not label_key_faults(_REQUESTS + name)):
        return ""
    return "doesn't follow extended resource name standard"


def default_whole(spec: dict[str, Any]) -> None:
    """Requests and limits of the pod as a whole that it does not say, as the server has it. In place.

    What containers ask for comes first, then the limit; limits of huge pages are those of the containers.
    """
    whole = spec.get("resources") or {}
    requests, limits = dict(whole.get("requests") or {}), dict(whole.get("limits") or {})
    if not requests and not limits:
        return
    running, first = _containers(spec)
    for name, amount in as_quantities(running, first, "limits").items():
        if name.startswith(HUGE_PAGES) and name not in requests:
            limits.setdefault(name, str(amount))
    if limits:
        for name, amount in as_quantities(running, first, "requests").items():
            if name in ("cpu", "memory"):
                requests.setdefault(name, str(amount))
        for name, text in limits.items():
            if of_the_whole(name):
                requests.setdefault(name, text)
    spec["resources"] = {
        **whole,
        **({"requests": requests} if requests else {}),
        **({"limits": limits} if limits else {}),
    }


def whole_fault(spec: dict[str, Any]) -> str:
    """What of the pod as a whole does not go with its containers, in the words of the server; "" if all does.

    What cannot be read is reported by the schema.
    """
    if not spec.get("resources"):
        return ""
    try:
        whole = decode(spec["resources"], ResourceRequirements)
        running, first = (tuple(map(with_requests, one)) for one in _containers(spec))
    except (msgspec.MsgspecError, ValueError, TypeError):
        return ""
    for name in (*whole.requests, *whole.limits):
        if not of_the_whole(name):
            return (
                f"{name} must be cpu, memory or hugepages-<size>; containers ask for all else by themselves"
            )
    given: tuple[tuple[Kind, ResourceList], ...] = (("requests", whole.requests), ("limits", whole.limits))
    for kind, most in given:
        for name, amount in as_quantities(running, first, kind).items():
            held = kind == "requests" or name.startswith(HUGE_PAGES)
            if held and name in most and most[name] < amount:
                return (
                    f"{kind} of {name}, {most[name]}, must be greater than or equal to aggregate container "
                    f"{kind} of {amount}"
                )
    for one in running:
        for name, amount in one.resources.limits.items():
            if name in whole.limits and whole.limits[name] < amount:
                return (
                    f"the limit of {name} of container {one.name}, {amount}, must be less than or equal to "
                    f"pod limits of {whole.limits[name]}"
                )
    return ""


def with_requests(container: Container) -> Container:
    """What has a limit alone asks for as much."""
    resources = container.resources
    if resources.limits.keys() <= resources.requests.keys():
        return container
    requests = {**resources.limits, **resources.requests}
    return msgspec.structs.replace(container, resources=msgspec.structs.replace(resources, requests=requests))


def _containers(spec: dict[str, Any]) -> Iterator[tuple[Container, ...]]:
    return (decode(spec.get(one) or [], tuple[Container, ...]) for one in ("containers", "initContainers"))
