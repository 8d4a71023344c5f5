"""Garbage: claims whose instance vanished, instances that no claim knows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import is_true
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, CloudError, InstanceNotFound, NotFound
from dovetail.cloud.provider import Instance
from dovetail.cluster.nodes import managed
from dovetail.controllers.brakes.guard import TerminationGuard
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.launch import recover_orphans
from dovetail.controllers.nodeclaim.liveness import REGISTRATION_TIMEOUT
from dovetail.controllers.nodeclaim.status import LAUNCHED, REGISTERED, since
from dovetail.model import labels

CLAIM_PERIOD = 2 * MINUTE
# How long the cloud may fail to list an instance that it has just launched.
LAUNCH_SETTLES = 2 * MINUTE
INSTANCE_GRACE = 30 * SECOND
# A restart may have left instances behind, so the first looks follow each other closely.
_FIRST_RUNS = 20
_FIRST_PERIOD = 10 * SECOND
_PERIOD = 2 * MINUTE


def vanished(claim: NodeClaim, there: Collection[str], now: int) -> bool:
    """True iff the claim's instance is not among those the cloud lists any more, registered or not.

    One that never joined need not wait until its time to register is up: its pods wait as well.
    """
    return not claim.deleting and _had_instance(claim, now) and claim.status.provider_id not in there


def _had_instance(claim: NodeClaim, now: int) -> bool:
    if is_true(claim.status.conditions, REGISTERED):
        return True
    return is_true(claim.status.conditions, LAUNCHED) and now - since(claim, LAUNCHED) > LAUNCH_SETTLES


def stray(claims: Sequence[NodeClaim], instances: Sequence[Instance], now: int) -> list[Instance]:
    """Instances older than 30 s that no claim has, or is about to have, as its own."""
    known = {claim.status.provider_id for claim in claims}
    # A claim that has no instance in its status yet will adopt the one that was launched for it.
    awaited = {claim.metadata.name for claim in claims if not claim.status.provider_id}
    return [
        item
        for item in instances
        if not item.terminating
        and item.provider_id not in known
        and item.claim not in awaited
        and now - item.created > INSTANCE_GRACE
    ]


def leftover(instance: Instance, claims: Sequence[NodeClaim], joined: Collection[str], now: int) -> bool:
    """True iff a launch that was interrupted or given up explains a stray; `joined` have a Node in use.

    Either its claim goes on with another instance, or it never joined and is not old enough to have joined
    anywhere. Any other one may be a running node in use.
    """
    if any(claim.metadata.name == instance.claim for claim in claims):
        return True
    young = now - instance.created <= REGISTRATION_TIMEOUT
    return young and instance.provider_id not in joined


def _untouched(node: Node) -> bool:
    """True iff its taint has kept all pods away: it goes once a claim knows the node."""
    return any(taint.key == labels.UNREGISTERED_TAINT for taint in node.spec.taints)


class ClaimCollection:
    """Deletes claims whose instance vanished, unless their node still says that it is Ready."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        """Look every two minutes, for ever; soon after the start, and soon again after an error."""
        pause = _FIRST_PERIOD
        while True:
            await self._context.clock.sleep(pause)
            try:
                await self.collect()
                pause = CLAIM_PERIOD
            except (ApiError, CloudError) as error:
                pause = _FIRST_PERIOD
                self._context.log.record(
                    "reconcile.failed", controller="nodeclaim.garbagecollection", key="", message=str(error)
                )

    async def collect(self) -> None:
        """Look once. The claims are listed first: an instance of a newer claim must not be taken for lost."""
        context = self._context
        claims, _ = await _claims(context)
        instances = await context.provider.list()
        there, now = {item.provider_id for item in instances}, context.clock.now()
        for claim in claims:
            if claim.status.provider_id in there:
                continue  # as nearly always
            with context.panics.alone("nodeclaim.garbagecollection", claim.metadata.name, claim):
                if not vanished(claim, there, now):
                    continue
                node = context.state.node_of(claim)
                if node is not None and is_true(node.status.conditions, "Ready"):
                    continue
                with suppress(NotFound):
                    await context.client.delete(NodeClaim, claim.metadata.name, uid=claim.metadata.uid)


class InstanceCollection:
    """Terminates instances that no claim knows, and deletes their nodes; not many at once unasked."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._guard = TerminationGuard(context)

    async def run(self) -> None:
        """Look often at first, later every two minutes, for ever; soon again after an error."""
        runs = 0
        while True:
            try:
                await self.collect()
                runs += 1
            except (ApiError, CloudError) as error:
                runs = min(runs, _FIRST_RUNS - 1)
                self._context.log.record(
                    "reconcile.failed", controller="instance.garbagecollection", key="", message=str(error)
                )
            await self._context.clock.sleep(_FIRST_PERIOD if runs <= _FIRST_RUNS else _PERIOD)

    async def collect(self) -> None:
        """Look once. The instances are listed first: the claim of each of them exists already."""
        context = self._context
        await recover_orphans(context)
        waiting = context.provider.machines.orphans()
        instances = await context.provider.list()
        claims, unreadable = await _claims(context)
        now = context.clock.now()
        found = stray(claims, instances, now)
        # A claim that cannot be read has its instance all the same.
        names = {claim.metadata.name for claim in unreadable}
        waiting = {*waiting, *(claim.status.provider_id for claim in unreadable)}
        found = [item for item in found if item.provider_id not in waiting and item.claim not in names]
        joined = {node.spec.provider_id for node in context.state.all(Node) if not _untouched(node)}
        doubtful = [item.provider_id for item in found if not leftover(item, claims, joined, now)]
        kept = await self._guard.kept(doubtful, len(instances))
        for instance in found:
            if instance.provider_id in kept:
                continue
            try:
                await context.provider.delete(instance.provider_id)
            except InstanceNotFound:
                continue
            finally:
                await self._delete_nodes(instance)

    async def _delete_nodes(self, instance: Instance) -> None:
        for node in self._context.state.all(Node):
            if node.spec.provider_id == instance.provider_id and not node.deleting:
                try:
                    await self._context.client.delete(Node, node.metadata.name, uid=node.metadata.uid)
                except NotFound:
                    continue


async def _claims(context: Context) -> tuple[list[NodeClaim], list[NodeClaim]]:
    """Those of ours, and what there is of any that cannot be read."""
    listing = await context.client.list(NodeClaim)
    kinds = context.provider.node_class_kinds
    readable = [claim for claim in listing.items if managed(claim.spec.node_class_ref, kinds)]
    return readable, [item.salvaged for item in listing.unreadable]
