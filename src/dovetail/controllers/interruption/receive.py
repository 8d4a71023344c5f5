"""The interruption queue: each message is understood, acted on, and then deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import SECOND
from dovetail.base.errors import ApiError, CloudError
from dovetail.cloud.eventbridge import parse
from dovetail.cloud.interruption import Interruption, InterruptionKind, InterruptionQueue, Letter, instance_id
from dovetail.controllers.context import Context
from dovetail.controllers.interruption.act import act
from dovetail.controllers.interruption.metrics import DELETED, RECEIVED, WAITED

NAME = "interruption"
_UNSYNCED_POLL = SECOND
_AFTER_FAILURE = 10 * SECOND


class Interruptions:
    """Waits at the queue for ever. A message whose handling fails stays in the queue and comes again."""

    def __init__(self, context: Context, queue: InterruptionQueue) -> None:
        self._context = context
        self._queue = queue

    async def run(self) -> None:
        """Work for ever."""
        clock = self._context.clock
        while True:
            if not self._context.state.synced():
                await clock.sleep(_UNSYNCED_POLL)  # who does not know the claims would throw messages away
                continue
            try:
                letters = await self._queue.receive()
            except CloudError as error:
                self._failed("", error)
                await clock.sleep(_AFTER_FAILURE)
                continue
            await self._handle_all(letters)

    async def _handle_all(self, letters: Sequence[Letter]) -> None:
        claims = {
            instance_id(claim.status.provider_id): claim
            for claim in self._context.state.all(NodeClaim)
            if claim.status.provider_id
        }
        for letter in letters:
            try:
                await self._handle(letter, claims)
            except (ApiError, CloudError) as error:
                self._failed(letter.receipt, error)

    async def _handle(self, letter: Letter, claims: Mapping[str, NodeClaim]) -> None:
        context = self._context
        message = self._read(letter)
        context.metrics.add(RECEIVED, message_type=message.kind)
        for instance in message.instances:
            if instance in claims:
                context.log.record(NAME, message=str(message.kind), instance=instance)
                await act(context, claims[instance], message.kind)
        await self._queue.delete(letter)
        context.metrics.add(DELETED)
        context.metrics.observe(WAITED, (context.clock.now() - letter.sent) / SECOND)

    def _read(self, letter: Letter) -> Interruption:
        """What cannot be read is nobody's: it would only come again for ever."""
        try:
            return parse(letter.body)
        except ValueError as error:
            self._failed(letter.receipt, error)
            return Interruption(InterruptionKind.NOTHING)

    def _failed(self, key: str, error: Exception) -> None:
        self._context.log.record("reconcile.failed", controller=NAME, key=key, message=str(error))
