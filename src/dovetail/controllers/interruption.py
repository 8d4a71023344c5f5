"""What the cloud announces about machines, and what becomes of them then.

Messages are understood, acted on and then deleted. A machine that keeps failing a status check is ended by
force, for it cannot drain.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, CloudError, NotFound
from dovetail.base.metrics import Metric
from dovetail.cloud.eventbridge import parse
from dovetail.cloud.interruption import (
    BATCH,
    Impairment,
    Interruption,
    InterruptionKind,
    InterruptionQueue,
    Letter,
    instance_id,
)
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.disrupted import FORCEFUL, GRACEFUL, count_disrupted
from dovetail.controllers.nodeclaim.terminate import end_by_force
from dovetail.controllers.reconciler import every

RECEIVED = Metric(
    "karpenter_interruption_received_messages_total",
    "counter",
    "Messages that came through the interruption queue.",
    ("message_type",),
)
DELETED = Metric(
    "karpenter_interruption_deleted_messages_total",
    "counter",
    "Messages that were dealt with, or could not be read, and were taken out of the queue.",
)
WAITED = Metric(
    "karpenter_interruption_message_queue_duration_seconds",
    "histogram",
    "How long messages lay in the queue before they were taken out of it.",
    (),
    (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)
UNHEALTHY = Metric(
    "karpenter_interruption_instance_status_unhealthy_total",
    "counter",
    "Instances that were ended because a status check of the cloud failed.",
    ("category",),
)
ALL = (RECEIVED, DELETED, WAITED, UNHEALTHY)


@dataclass(frozen=True, slots=True)
class _Meaning:
    """Its event, and whether the node has to go."""

    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Warning"
    ends: bool = True


_STOPPING = _Meaning("InstanceStopping", "Instance is stopping")
_TERMINATING = _Meaning("InstanceTerminating", "Instance is terminating")
_UNHEALTHY_NODE = _Meaning("InstanceUnhealthy", "An unhealthy warning was triggered for the instance")
_MEANINGS = {
    InterruptionKind.SPOT: _Meaning("SpotInterrupted", "Spot interruption warning was triggered"),
    InterruptionKind.REBALANCE: _Meaning(
        "SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered", "Normal", ends=False
    ),
    InterruptionKind.SCHEDULED_CHANGE: _UNHEALTHY_NODE,
    InterruptionKind.STOPPED: _STOPPING,
    InterruptionKind.TERMINATED: _TERMINATING,
    InterruptionKind.RESERVATION: _Meaning(
        "CapacityReservationInstanceInterrupted", "Capacity Reservation interruption warning was triggered"
    ),
}
_CAPACITY_IS_SHORT = (InterruptionKind.SPOT, InterruptionKind.RESERVATION)


async def act(context: Context, claim: NodeClaim, kind: InterruptionKind) -> None:
    """Report the interruption, avoid that capacity for now, and drain the node while there is time."""
    meaning = _MEANINGS[kind]
    await report(context, claim, meaning)
    if kind in _CAPACITY_IS_SHORT:
        context.provider.supply.out_of_capacity(claim)
    if meaning.ends and not claim.deleting:
        count_disrupted(context, claim, kind, GRACEFUL)
        await report_end(context, claim)
        if context.surges is not None:
            context.surges.hurry(claim.metadata.uid)
        try:
            await context.client.delete(NodeClaim, claim.metadata.name, uid=claim.metadata.uid)
        except NotFound:
            return  # it went by itself


async def report(context: Context, claim: NodeClaim, meaning: _Meaning) -> None:
    """The event, on the claim and on its node."""
    for obj in _both(context, claim):
        await context.recorder.publish(obj, meaning.type, meaning.reason, meaning.message)


async def report_end(context: Context, claim: NodeClaim) -> None:
    """The claim and its node go because of what the cloud said."""
    for obj in _both(context, claim):
        message = f"Interruption triggered termination for the {obj.KIND}"
        await context.recorder.publish(obj, "Warning", "TerminatingOnInterruption", message)


def _both(context: Context, claim: NodeClaim) -> tuple[NodeClaim | Node, ...]:
    node = context.state.node_of(claim)
    return (claim,) if node is None else (claim, node)


NAME = "interruption"
_UNSYNCED_POLL = SECOND
_AFTER_FAILURE = 10 * SECOND
_HELPERS = 15


class Interruptions:
    """Waits at the queue for ever. A message whose handling fails stays in the queue and comes again.

    Invariant: `_claims` has the name of every managed claim that has an instance, by the instance's id;
    `_done` has what was done about each claim that is there, by its uid: a message may come twice.
    """

    def __init__(self, context: Context, queue: InterruptionQueue) -> None:
        self._context = context
        self._queue = queue
        self._claims: dict[str, str] = {}
        self._done: dict[str, set[InterruptionKind]] = {}
        context.state.subscribe(self.notice, NodeClaim)

    def notice(self, _: type[Object], __: str, old: Object | None, new: Object | None) -> None:
        """Follow which claim has which instance."""
        if isinstance(old, NodeClaim) and new is None:
            self._claims.pop(instance_id(old.status.provider_id), None)
            self._done.pop(old.metadata.uid, None)
        elif isinstance(new, NodeClaim) and new.status.provider_id:
            self._claims[instance_id(new.status.provider_id)] = new.metadata.name

    async def run(self) -> None:
        """Work for ever. Behind a full hand of letters there are more: then several wait at the queue."""
        clock = self._context.clock
        while True:
            if not self._context.state.synced():
                await clock.sleep(_UNSYNCED_POLL)  # without the claims it would throw messages away
                continue
            try:
                full = await self._turn()
            except CloudError as error:
                self._failed("", error)
                await clock.sleep(_AFTER_FAILURE)
                continue
            if full:
                await asyncio.gather(*(self._help() for _ in range(_HELPERS)))

    async def _help(self) -> None:
        """Take letters as long as there are many."""
        try:
            while await self._turn():
                pass
        except CloudError as error:
            self._failed("", error)

    async def _turn(self) -> bool:
        """One hand of letters; True iff it was full. Raises CloudError."""
        letters = await self._queue.receive()
        await asyncio.gather(*map(self._attended, letters))
        return len(letters) >= BATCH

    async def _attended(self, letter: Letter) -> None:
        try:
            with self._context.panics.alone(NAME, letter.receipt):
                await self._handle(letter)
        except (ApiError, CloudError) as error:
            self._failed(letter.receipt, error)

    async def _handle(self, letter: Letter) -> None:
        context = self._context
        message = self._read(letter)
        context.metrics.add(RECEIVED, message_type=message.kind)
        for instance in message.instances:
            claim = context.state.get(NodeClaim, self._claims.get(instance, ""))
            if claim is not None:
                context.log.record(NAME, message=str(message.kind), instance=instance)
                await self._act(claim, message.kind)
        await self._queue.delete(letter)
        context.metrics.add(DELETED)
        context.metrics.observe(WAITED, (context.clock.now() - letter.sent) / SECOND)

    async def _act(self, claim: NodeClaim, kind: InterruptionKind) -> None:
        done = self._done.setdefault(claim.metadata.uid, set())
        if kind in done and kind is not InterruptionKind.REBALANCE:
            return
        done.add(kind)
        try:
            await act(self._context, claim, kind)
        except (ApiError, CloudError):
            done.discard(kind)
            raise

    def _read(self, letter: Letter) -> Interruption:
        """What cannot be read is deleted: it would only come again for ever."""
        try:
            return parse(letter.body)
        except ValueError as error:
            self._failed(letter.receipt, error)
            return Interruption(InterruptionKind.NOTHING)

    def _failed(self, key: str, error: Exception) -> None:
        self._context.log.record("reconcile.failed", controller=NAME, key=key, message=str(error))


PERIOD = MINUTE
TOLERATION = 120 * SECOND
# What the cloud merely announces leaves time to drain.
_ANNOUNCED = "event_status"


class InstanceStatus:
    """Asks the cloud every minute, with or without a queue."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        """Work for ever."""
        await every(self._context.clock, PERIOD, self.look)

    async def look(self) -> None:
        """Ask once, and end what has been impaired for too long."""
        context = self._context
        now = context.clock.now()
        claims = {claim.status.provider_id: claim for claim in context.state.all(NodeClaim)}
        for found in await context.provider.machines.impairments():
            claim = claims.get(found.provider_id)
            announced = found.category == _ANNOUNCED
            if claim is None or claim.deleting or not (announced or now - found.since >= TOLERATION):
                continue
            with context.panics.alone("interruption.instancestatus", claim.metadata.name, claim):
                await self._end(claim, found, by_force=not announced)

    async def _end(self, claim: NodeClaim, found: Impairment, *, by_force: bool) -> None:
        context = self._context
        context.metrics.add(UNHEALTHY, category=found.category)
        context.log.record("interruption", message=found.category, instance=found.provider_id)
        await report(context, claim, _UNHEALTHY_NODE)
        await report_end(context, claim)
        count_disrupted(context, claim, found.category, FORCEFUL if by_force else GRACEFUL)
        if by_force:
            await end_by_force(context, claim)
        else:
            await context.client.delete(NodeClaim, claim.metadata.name, uid=claim.metadata.uid)
