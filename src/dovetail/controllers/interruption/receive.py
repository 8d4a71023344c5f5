"""The interruption queue: each message is understood, acted on, and then deleted."""

from __future__ import annotations

import asyncio

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.base.clock import SECOND
from dovetail.base.errors import ApiError, CloudError
from dovetail.cloud.eventbridge import parse
from dovetail.cloud.interruption import (
    BATCH,
    Interruption,
    InterruptionKind,
    InterruptionQueue,
    Letter,
    instance_id,
)
from dovetail.controllers.context import Context
from dovetail.controllers.interruption.act import act
from dovetail.controllers.interruption.metrics import DELETED, RECEIVED, WAITED

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
        context.state.subscribe(self.notice)

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
                await clock.sleep(_UNSYNCED_POLL)  # who does not know the claims would throw messages away
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
        """What cannot be read is nobody's: it would only come again for ever."""
        try:
            return parse(letter.body)
        except ValueError as error:
            self._failed(letter.receipt, error)
            return Interruption(InterruptionKind.NOTHING)

    def _failed(self, key: str, error: Exception) -> None:
        self._context.log.record("reconcile.failed", controller=NAME, key=key, message=str(error))
