"""Buying the instance of a claim."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.meta import Condition, is_true
from dovetail.api.scheme import NODE_CLASSES
from dovetail.base.clock import SECOND
from dovetail.base.errors import (
    CloudError,
    CreateFailed,
    InstanceNotFound,
    InsufficientCapacity,
    NodeClassNotReady,
)
from dovetail.cloud.provider import Instance
from dovetail.cluster.nodes import Machine
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.disrupted import CLASS_NOT_READY, NO_CAPACITY, count_given_up
from dovetail.controllers.nodeclaim.register import unregistered
from dovetail.controllers.nodeclaim.status import LAUNCHED, NOT_FOUND, cut, write
from dovetail.model import labels
from dovetail.model.requirement import Requirements
from dovetail.model.resources import quantities
from dovetail.units.timestamp import parse_rfc3339

# While leaders change, two processes see a new claim, and neither sees what the other one is buying for it. A
# process that lost the lease ends within this time (runtime/process/election.py).
_MAKERS_TIME = 15 * SECOND
_REFUSED = "InsufficientCapacityError"  # reason of events
_NO_SPOT_ROLE = (
    "Attempted to launch a spot instance but failed due to"
    ' "AuthFailure.ServiceLinkedRoleCreationNotPermitted"'
)


async def recover_orphans(context: Context) -> None:
    """Before anything is bought or ended: what an earlier process bought and could not write down is found.

    Raises CloudError.
    """

    def owned() -> frozenset[str]:
        return frozenset(claim.status.provider_id for claim in context.state.all(NodeClaim))

    await context.provider.machines.recover_orphans(owned)


class Launcher:
    """Launches each claim once, whatever fails in between.

    What the cloud answered is remembered until the claim's status holds it. A new claim of a pool is its
    maker's for a while. One for which another process may have asked, or this one in vain, may have an
    instance already: that one is adopted.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._asked: set[str] = set()  # uids of claims for which this process asked an instance
        self._launched: dict[str, Instance] = {}  # by the claim's uid, until its status is written

    def wait(self, claim: NodeClaim) -> int:
        """Nanoseconds for which the claim is its maker's alone, which is another process; else 0."""
        if (
            is_true(claim.status.conditions, LAUNCHED)
            or labels.NODEPOOL not in claim.metadata.labels  # made by a user: nothing is launched for it
            or claim in self._context.made
            or claim.metadata.uid in self._asked
        ):
            return 0
        return self._makers_time(claim)

    def _makers_time(self, claim: NodeClaim) -> int:
        age = self._context.clock.now() - parse_rfc3339(claim.metadata.creation_timestamp)
        return _MAKERS_TIME - age if 0 <= age < _MAKERS_TIME else 0

    async def instance_of(self, claim: NodeClaim) -> str:
        """The provider ID of the claim's instance, even one that its status does not hold; "" if none."""
        if claim.status.provider_id:
            return claim.status.provider_id
        known = self._launched.get(claim.metadata.uid) or await self._adopt(claim)
        return known.provider_id if known is not None else ""

    def forget(self, claim: NodeClaim) -> None:
        """The claim is gone."""
        self._launched.pop(claim.metadata.uid, None)
        self._asked.discard(claim.metadata.uid)
        self._context.made.forget(claim)

    async def step(self, claim: NodeClaim) -> NodeClaim | None:
        """The claim with its instance; None when it was given up, to be planned again.

        Raises CreateFailed after writing why: the caller tries again later.
        """
        if is_true(claim.status.conditions, LAUNCHED):
            await self._end_spare(claim)
            return claim
        try:
            instance = await self._instance(claim)
        except (InsufficientCapacity, NodeClassNotReady) as error:
            await self._tell_of_role(claim)
            await self._give_up(claim, error)
            return None
        except CreateFailed as error:
            await self._tell_of_role(claim)
            failed = Condition(type=LAUNCHED, status="Unknown", reason=error.reason, message=cut(str(error)))
            await write(self._context, claim, failed)
            raise
        self._launched[claim.metadata.uid] = instance
        await self._tell_of_role(claim)
        claim = await self._record(claim, instance)
        self.forget(claim)
        return claim

    async def _end_spare(self, claim: NodeClaim) -> None:
        """What this process bought while another one wrote its own into the claim is an orphan."""
        bought = self._launched.get(claim.metadata.uid)
        if bought is not None and bought.provider_id != claim.status.provider_id:
            with suppress(InstanceNotFound):
                await self._context.provider.delete(bought.provider_id)
        self.forget(claim)

    async def _instance(self, claim: NodeClaim) -> Instance:
        known = self._launched.get(claim.metadata.uid)
        if known is not None:
            return known
        await recover_orphans(self._context)
        # Nothing that takes time may come between the look for an instance and the purchase of one: a process
        # that led before this one may still be answered in between.
        adopted = await self._adopt(claim)
        if adopted is not None:
            return adopted
        node_class = self._node_class(claim)
        overlay = self._context.overlays.of(claim)
        self._asked.add(claim.metadata.uid)
        return await self._context.provider.create(claim, node_class, overlay)

    def _node_class(self, claim: NodeClaim) -> NodeClass:
        reference = claim.spec.node_class_ref
        kind = NODE_CLASSES[reference.group, reference.kind]
        found = self._context.state.get(kind, reference.name)
        if found is None:
            missing = f'{kind.PLURAL}.{reference.group} "{reference.name}" not found'
            raise InsufficientCapacity(f"resolving node class, {missing}")
        return found

    async def _adopt(self, claim: NodeClaim) -> Instance | None:
        """An instance that was launched for this claim before the claim could say so."""
        mine = claim in self._context.made and claim.metadata.uid not in self._asked
        if mine and self._makers_time(claim):
            return None
        found = [
            item
            for item in await self._context.provider.list()
            if item.claim == claim.metadata.name and not item.terminating
        ]
        oldest = min(found, key=lambda item: (item.created, item.provider_id), default=None)
        return self._context.overlays.sized(claim, oldest) if oldest is not None else None

    async def _tell_of_role(self, claim: NodeClaim) -> None:
        """Until the account's owner has made the role there is no spot, and on demand is dear."""
        if self._context.provider.supply.lacks_spot_role(claim):
            reason, same = "SpotServiceLinkedRoleCreationFailure", (claim.metadata.uid,)
            await self._context.recorder.publish(claim, "Warning", reason, _NO_SPOT_ROLE, dedupe=same)

    async def _give_up(self, claim: NodeClaim, error: CloudError) -> None:
        recorder, why = self._context.recorder, cut(str(error))
        name, uid = claim.metadata.name, claim.metadata.uid
        waiting = self._context.state.promised_on(Machine(None, claim))
        await recorder.publish(claim, "Warning", _REFUSED, f"NodeClaim {name} event: {why}", dedupe=(uid,))
        await self._context.client.delete(NodeClaim, name, uid=uid)
        not_ready = isinstance(error, NodeClassNotReady)
        count_given_up(self._context, claim, CLASS_NOT_READY if not_ready else NO_CAPACITY)
        message = f"NodeClaim {name} nominated for this pod failed to launch: {why}"
        for pod in (self._context.state.get(Pod, key) for key in waiting):
            if pod is not None:
                await recorder.publish(pod, "Warning", _REFUSED, message, dedupe=(pod.metadata.uid, uid))

    async def _record(self, claim: NodeClaim, instance: Instance) -> NodeClaim:
        """Labels first: whoever sees the provider ID sees them too.

        Raises Conflict when another client wrote to the claim since it was read: it may have an instance now.
        """
        marks, fields = launched(claim, instance)
        if (marks["labels"], marks["annotations"]) != (claim.metadata.labels, claim.metadata.annotations):
            merge = {"metadata": {"resourceVersion": claim.metadata.resource_version, **marks}}
            claim = await self._context.client.patch(NodeClaim, claim.metadata.name, merge=merge)
        found = Condition(type=LAUNCHED, status="True")
        # What is waited for next is written with it: each write takes its turn at the API server.
        return await write(self._context, claim, found, unregistered(*NOT_FOUND), fields=fields)


def launched(claim: NodeClaim, instance: Instance) -> tuple[dict[str, dict[str, str]], dict[str, Any]]:
    """What an instance says of its claim: labels and annotations, and fields of the status. Pure."""
    known = labels.AWS_WELL_KNOWN | labels.KWOK_WELL_KNOWN
    custom = Requirements.read(claim.spec.requirements).labels(known)
    marks = {
        "labels": {**instance.labels, **custom, **claim.metadata.labels},
        "annotations": {**claim.metadata.annotations, **instance.annotations},
    }
    fields = {
        "providerID": instance.provider_id,
        "imageID": instance.image_id,
        "capacity": {name: str(item) for name, item in quantities(instance.capacity).items()},
        "allocatable": {name: str(item) for name, item in quantities(instance.allocatable).items()},
    }
    return marks, fields
