"""Devices and claims to what a plan gets of them: which slices count, which claims hold, what is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from dataclasses import replace as replaced

from msgspec.structs import replace

from dovetail.api.core import Pod
from dovetail.api.devices import Allocation, DeviceClass, DeviceResult, ResourceClaim, ResourceSlice
from dovetail.base.memo import by_identity
from dovetail.model.devices import ClusterDevices, DeviceId, claim_keys
from dovetail.units.quantity import Quantity


@dataclass(frozen=True, slots=True)
class DeviceObjects:
    """Everything of a cluster that says which devices there are, and which are taken."""

    classes: tuple[DeviceClass, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()


def cluster_devices(
    objects: DeviceObjects, pods: Iterable[Pod], leaving: Set[str], offers: Callable[[str], bool]
) -> ClusterDevices:
    """What a plan about these pods needs of them; nothing where none of the pods has a claim.

    `leaving` are the UIDs of pods that leave their nodes: claims that are reserved for none but these are
    allocated anew. `offers` says of a node, by name, whether what drivers published there counts: it is up,
    and stays. Of one on its way up its type's devices count instead, of one on its way out none.
    O(claims and slices of the cluster).
    """
    keys = dict.fromkeys(key for pod in pods for key in claim_keys(pod))
    if not keys:
        return ClusterDevices()
    claims = {claim.key: claim for claim in objects.claims}
    if leaving:
        free = {key: without_allocation(claim) for key, claim in claims.items() if given_back(claim, leaving)}
        claims |= free
    exclusive, consumed = devices_taken(claims.values())
    return ClusterDevices(
        classes={item.metadata.name: item for item in objects.classes},
        slices=tuple(item for item in objects.slices if all(map(offers, owners(item)))),
        claims={key: claims[key] for key in keys if key in claims},
        exclusive=exclusive,
        consumed=consumed,
        leaving=frozenset(leaving),
    )


def imagined_away(
    devices: ClusterDevices, pods: Iterable[Pod], nodes: Set[str] = frozenset()
) -> ClusterDevices:
    """The same once these pods have left as well, and these nodes are gone with all that drivers published
    there: claims that no other pod is reserved for are allocated anew, and their devices are free.

    The pods are among those that it was made for. O(their claims, and slices where nodes are named).
    """
    movers = [pod for pod in pods if pod.spec.resource_claims]
    leaving = devices.leaving.union(pod.metadata.uid for pod in movers)
    found = ((key, devices.claims.get(key)) for pod in movers for key in claim_keys(pod))
    free = {
        key: claim
        for key, claim in found
        if claim is not None and claim.status.allocation is not None and given_back(claim, leaving)
    }
    slices = devices.slices
    if nodes:
        slices = tuple(item for item in slices if nodes.isdisjoint(owners(item)))
    if not free:
        return replaced(devices, slices=slices, leaving=leaving)
    exclusive, consumed = devices_taken(free.values())
    shared = {id_: dict(held) for id_, held in devices.consumed.items()}
    for id_, amounts in consumed.items():
        for name, nanos in amounts.items():
            shared[id_][name] -= nanos
    return replaced(
        devices,
        slices=slices,
        claims={**devices.claims, **{key: without_allocation(claim) for key, claim in free.items()}},
        exclusive=devices.exclusive - exclusive,
        consumed=shared,
        leaving=leaving,
    )


def given_back(claim: ResourceClaim, leaving: Set[str]) -> bool:
    """True iff the claim is reserved, and by pods alone that leave their nodes."""
    reserved = claim.status.reserved_for
    return bool(reserved) and all(
        one.resource == "pods" and not one.api_group and one.uid in leaving for one in reserved
    )


def without_allocation(claim: ResourceClaim) -> ResourceClaim:
    """The claim as if nothing had been allocated for it yet."""
    return replace(claim, status=replace(claim.status, allocation=None, reserved_for=()))


@by_identity(65_536)
def owners(item: ResourceSlice) -> tuple[str, ...]:
    """Names of the nodes whose slice it is: as its owners say, whatever node it is for."""
    return tuple(owner.name for owner in item.metadata.owner_references if owner.kind == "Node")


def devices_taken(
    claims: Iterable[ResourceClaim],
) -> tuple[frozenset[DeviceId], dict[DeviceId, dict[str, int]]]:
    """Devices that claims have alone, and of those that are shared the nano-units of what they consume."""
    exclusive: set[DeviceId] = set()
    consumed: dict[DeviceId, dict[str, int]] = {}
    for claim in claims:
        if claim.status.allocation is None:
            continue
        for device, shared in taken(claim.status.allocation):
            if shared is None:
                exclusive.add(device)
                continue
            used = consumed.setdefault(device, {})
            for name, amount in shared.items():
                used[name] = used.get(name, 0) + max(0, amount.nanos)
    return frozenset(exclusive), consumed


def taken(allocation: Allocation) -> Iterator[tuple[DeviceId, Mapping[str, Quantity] | None]]:
    """Each device of an allocation, with what it consumes of one that claims share; None: it has it alone.

    What is allocated for administration takes nothing from others.
    """
    for result in allocation.devices.results:
        if not result.admin_access:
            yield DeviceId(result.driver, result.pool, result.device), _share(result)


def _share(result: DeviceResult) -> Mapping[str, Quantity] | None:
    return result.consumed_capacity if result.share_id or result.consumed_capacity else None


def unpublished(slices: Iterable[ResourceSlice], node: str, drivers: Iterable[str]) -> str:
    """The first of the drivers that has not published a whole pool on the node; "" if all have."""
    generations: dict[
        tuple[str, str], tuple[int, int, int]
    ] = {}  # of a pool: the newest, slices there, of how many
    for item in slices:
        spec = item.spec
        if spec.node_name != node:
            continue
        key = spec.driver, spec.pool.name
        newest, found, _ = generations.get(key, (-1, 0, 0))
        if spec.pool.generation >= newest:
            found = found + 1 if spec.pool.generation == newest else 1
            generations[key] = spec.pool.generation, found, spec.pool.resource_slice_count
    whole = {driver for (driver, _), (_, found, wanted) in generations.items() if found == wanted}
    return next((driver for driver in drivers if driver not in whole), "")
