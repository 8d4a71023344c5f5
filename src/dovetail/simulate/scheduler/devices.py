"""The scheduler's plugin DynamicResources: which nodes have the devices that a pod claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast
from uuid import UUID

from dovetail.api.codec import encode
from dovetail.api.core import Pod
from dovetail.api.devices import Consumer, DeviceClass, ResourceClaim, ResourceSlice
from dovetail.api.meta import Object
from dovetail.base.streams import stream
from dovetail.cluster.devices import devices_taken
from dovetail.devices.allocator import Allocation, AllocationError, Ledger, Target, World
from dovetail.kube.client import Client, EventType
from dovetail.model.cluster_view import NodeView
from dovetail.model.devices import claim_keys
from dovetail.model.filters import Reason
from dovetail.model.requirement import Requirements
from dovetail.model.selector import node_terms

KINDS: tuple[type[Object], ...] = (DeviceClass, ResourceClaim, ResourceSlice)
T = TypeVar("T", bound=Object)
DYNAMIC_RESOURCES = "DynamicResources"
CANNOT = (Reason("cannot allocate all claims", by=DYNAMIC_RESOURCES),)


class DynamicResources:
    """Follows classes, claims and slices. Allocates as the planner does, from what is published alone."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client = client
        self._seed = seed
        self._objects: dict[type[Object], dict[str, Object]] = {kind: {} for kind in KINDS}
        self._ledger: Ledger | None = None  # of the devices as they are; None once something has changed

    def changed(self, change: EventType, obj: Object) -> None:
        """Take in one event of a watch."""
        known = self._objects[type(obj)]
        if change == "DELETED":
            known.pop(obj.key, None)
        else:
            known[obj.key] = obj
        self._ledger = None

    def claims(self, pod: Pod) -> tuple[ResourceClaim, ...] | None:
        """Those of the pod; None while one is still to come, and the pod is not tried."""
        made = {item.name for item in pod.status.resource_claim_statuses}
        if any(not one.resource_claim_name and one.name not in made for one in pod.spec.resource_claims):
            return None
        known, keys = self._all(ResourceClaim), claim_keys(pod)
        return tuple(known[key] for key in keys) if all(key in known for key in keys) else None

    def allocate(self, pod: Pod, node: NodeView) -> Allocation | None:
        """Devices on the node for all claims of the pod that have none; None where there are not enough."""
        claims = self.claims(pod)
        if claims is None or not all(_usable(one, node) for one in claims):
            return None
        target = Target(
            id=node.name,
            types=(node.name,),
            requirements=Requirements.from_labels(node.labels),
            node_name=node.name,
            initialized=True,
        )
        fresh = [one for one in claims if one.status.allocation is None]
        try:
            return self._now().allocate(target, fresh)
        except AllocationError:
            return None

    async def reserve(self, pod: Pod, node: NodeView, allocation: Allocation) -> None:
        """Write what was found to the claims, and that they are the pod's. Raises Conflict, NotFound."""
        user = Consumer(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        for claim in self.claims(pod) or ():
            users = claim.status.reserved_for
            status: dict[str, Any] = {}
            if all(one.uid != user.uid for one in users):
                status["reservedFor"] = [encode(one) for one in (*users, user)]
            if claim.status.allocation is None:
                status["allocation"] = self._document(claim.key, node, allocation)
            if status:
                meta = claim.metadata
                merge = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
                written = await self._client.patch(
                    ResourceClaim, meta.name, meta.namespace, merge=merge, status=True
                )
                self.changed("MODIFIED", written)

    def _all(self, kind: type[T]) -> dict[str, T]:
        return cast("dict[str, T]", self._objects[kind])

    def _now(self) -> Ledger:
        if self._ledger is None:
            exclusive, shared = devices_taken(self._all(ResourceClaim).values())
            slices = tuple(self._all(ResourceSlice).values())
            self._ledger = Ledger(World(self._all(DeviceClass), slices, taken=exclusive, shared=shared))
        return self._ledger

    def _document(self, key: str, node: NodeView, allocation: Allocation) -> Mapping[str, Any]:
        results = []
        for number, given in enumerate(allocation.given[key][node.name]):
            identity = given.candidate.id
            result: dict[str, Any] = {
                "request": given.request,
                "driver": identity.driver,
                "pool": identity.pool,
                "device": identity.device,
            }
            if given.consumed is not None:
                draw = stream(self._seed, f"{key}/{number}", "share of a device")
                result["shareID"] = str(UUID(int=draw.getrandbits(128), version=4))
                result["consumedCapacity"] = {name: str(one) for name, one in given.capacity.items()}
            results.append(result)
        here = {"key": "metadata.name", "operator": "In", "values": [node.name]}
        selector = {"nodeSelectorTerms": [{"matchFields": [here]}]}
        return {"devices": {"results": results}, "nodeSelector": selector}


def _usable(claim: ResourceClaim, node: NodeView) -> bool:
    """True iff what is allocated for the claim, if anything is, can be used on the node."""
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return True
    return any(term.matches(node.name, node.labels) for term in node_terms(allocation.node_selector))
