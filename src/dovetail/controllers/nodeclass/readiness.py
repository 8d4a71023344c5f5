"""Readiness of node classes: what the selectors of an EC2NodeClass resolve to, as status and conditions.

Classes that select nothing are ready as they are.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dovetail.api.codec import encode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.meta import Object, condition
from dovetail.base.clock import MINUTE
from dovetail.base.errors import NotFound
from dovetail.cloud.provider import NodeClassResolution, ResolvedReservation, Unready
from dovetail.cloud.unready import FOLLOWS, unready_of
from dovetail.controllers.conditions import Conditions, Stamp, document, set_condition, set_ready
from dovetail.controllers.context import Context
from dovetail.units.timestamp import to_rfc3339

DEPENDENCIES = ("AMIsReady", "InstanceProfileReady", "SecurityGroupsReady", "SubnetsReady")
OTHERS = ("CapacityReservationsReady", "PlacementGroupReady")
DEPENDENTS = (*DEPENDENCIES, "ValidationSucceeded", *OTHERS)
AWAITING = "Awaiting AMI, Instance Profile, Security Group, and Subnet resolution"
_VALIDATED = "ValidationSucceeded"


def judge(node_class: EC2NodeClass, resolution: NodeClassResolution, stamp: Stamp) -> Conditions:
    """The conditions of the class."""
    conditions = node_class.status.conditions
    unready = {item.condition: item for item in unready_of(node_class, resolution)}
    for kind in (*DEPENDENCIES, *OTHERS):
        conditions = _set(conditions, unready.get(kind, Unready(kind, "", "", "True")), stamp)
    found = {kind: condition(conditions, kind) for kind in DEPENDENCIES}
    statuses = {item.status for item in found.values() if item is not None}
    validated = Unready(_VALIDATED, "", "", "True")
    if resolution.faults:
        # Known without anything that the selectors stand for, so it is said even while that is missing.
        message = "; ".join(text for _, text in resolution.faults)
        validated = Unready(_VALIDATED, resolution.faults[0][0], message)
    elif statuses != {"True"}:
        status = "False" if "False" in statuses else "Unknown"
        validated = Unready(_VALIDATED, FOLLOWS, AWAITING, status)
    return set_ready(_set(conditions, validated, stamp), DEPENDENTS, stamp)


def status(node_class: EC2NodeClass, resolution: NodeClassResolution) -> dict[str, Any]:
    """The rest of the class's status; None takes a field away."""
    return {
        "subnets": [
            {"id": item.id, "zone": item.zone, "zoneID": item.zone_id} for item in resolution.subnets
        ],
        "securityGroups": [{"id": item.id, "name": item.name} for item in resolution.security_groups],
        "amis": [
            {
                "id": item.id,
                "name": item.name,
                "requirements": [encode(term) for term in item.requirements.selector_requirements()],
                **({"deprecated": True} if item.deprecated else {}),
            }
            for item in resolution.images
        ],
        "capacityReservations": [_reservation(item) for item in resolution.reservations] or None,
        "instanceProfile": resolution.instance_profile or node_class.spec.instance_profile or None,
    }


def _set(conditions: Conditions, item: Unready, stamp: Stamp) -> Conditions:
    return set_condition(
        conditions, item.condition, item.status, stamp, reason=item.reason, message=item.message
    )


def _reservation(item: ResolvedReservation) -> dict[str, Any]:
    return {
        "availabilityZone": item.zone,
        "id": item.id,
        "instanceMatchCriteria": item.criteria,
        "instanceType": item.instance_type,
        "interruptible": item.interruptible,
        "ownerID": item.owner,
        "reservationType": item.kind,
        "state": item.state,
        **({"endTime": to_rfc3339(item.ends)} if item.ends is not None else {}),
    }


class PlainReadiness:
    """Writes Ready once per generation."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queue = context.queue("nodeclass", self.reconcile, of=context.state.node_class)
        context.state.subscribe(self.notice, NodeClass)

    def notice(self, kind: type[Object], _: str, old: Object | None, new: Object | None) -> None:
        """Follow new generations of classes."""
        same = old is not None and new is not None and old.metadata.generation == new.metadata.generation
        if issubclass(kind, NodeClass) and new is not None and not same:
            self.queue.add(new.key)

    async def reconcile(self, key: str) -> int | None:
        """Write the condition, if it is missing."""
        node_class = self._context.state.node_class(key)
        if node_class is None or node_class.deleting:
            return None
        stamp = Stamp(self._context.clock.now(), node_class.metadata.generation)
        conditions = set_ready(node_class.status.conditions, (), stamp)
        if conditions != node_class.status.conditions:
            merge = {"status": {"conditions": document(conditions)}}
            await self._context.client.patch(type(node_class), key, merge=merge, status=True)
        return None


FINALIZER = "karpenter.k8s.aws/termination"
PERIOD = MINUTE
WAITING_TTL = 10 * MINUTE


class NodeClassReadiness:
    """Resolves each class on every change and once a minute; holds its finalizer while claims use it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # By class: what was written last, and the version that came of it. As long as it has that version
        # there is nothing to write, as in nearly every minute.
        self._written: dict[str, tuple[str, dict[str, Any]]] = {}
        self.queue = context.queue("nodeclass", self.reconcile, of=EC2NodeClass)
        context.state.subscribe(self.notice, EC2NodeClass, NodeClaim)

    def notice(self, kind: type[Object], _: str, old: Object | None, new: Object | None) -> None:
        """Follow changes of classes, and claims that go away."""
        if kind is EC2NodeClass and new is not None:
            # A deletion counts the generation up as well.
            if old is None or old.metadata.generation != new.metadata.generation:
                self.queue.add(new.key)
        elif isinstance(old, EC2NodeClass):
            self._context.provider.classes.forget(old.metadata.name)
            self._written.pop(old.key, None)
        elif isinstance(old, NodeClaim) and new is None:
            self.queue.add(old.spec.node_class_ref.name)

    async def reconcile(self, key: str) -> int | None:
        """Bring status and finalizer up to date."""
        node_class = self._context.state.get(EC2NodeClass, key)
        if node_class is None:
            return None
        if node_class.deleting:
            return await self._terminate(node_class)
        client = self._context.client
        if FINALIZER not in node_class.metadata.finalizers:
            await client.patch(
                EC2NodeClass,
                key,
                merge={"metadata": {"finalizers": [*node_class.metadata.finalizers, FINALIZER]}},
            )
        resolution = await self._context.provider.classes.resolve(node_class)
        stamp = Stamp(self._context.clock.now(), node_class.metadata.generation)
        conditions = judge(node_class, resolution, stamp)
        merge = {"status": {**status(node_class, resolution), "conditions": document(conditions)}}
        if self._written.get(key) != (node_class.metadata.resource_version, merge):
            after = await client.patch(EC2NodeClass, key, merge=merge, status=True)
            self._written[key] = after.metadata.resource_version, merge
        return PERIOD

    async def _terminate(self, node_class: EC2NodeClass) -> int | None:
        name = node_class.metadata.name
        users = [
            claim.metadata.name
            for claim in self._context.state.all(NodeClaim)
            if claim.spec.node_class_ref.name == name
        ]
        if users:
            await self._context.recorder.publish(
                node_class,
                "Normal",
                "WaitingOnNodeClaimTermination",
                f"Waiting on NodeClaim termination for {', '.join(users)}",
                ttl=WAITING_TTL,
            )
            return WAITING_TTL
        await self._context.provider.classes.release(node_class)
        kept = [item for item in node_class.metadata.finalizers if item != FINALIZER]
        with suppress(NotFound):
            await self._context.client.patch(EC2NodeClass, name, merge={"metadata": {"finalizers": kept}})
            await self._context.recorder.publish(node_class, "Normal", "Finalized", f"Finalized {FINALIZER}")
        return None
