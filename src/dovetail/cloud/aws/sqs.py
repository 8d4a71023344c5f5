"""The interruption queue, in SQS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.base.clock import SECOND, Clock
from dovetail.cloud.aws.api import Sqs
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.instance.batcher import MILLISECOND, Joint, Window
from dovetail.cloud.interruption import BATCH, Letter

_DELETED = Window(50 * MILLISECOND, SECOND, BATCH)


class SqsQueue:
    """Implements `cloud.interruption.InterruptionQueue` for the queue of that name."""

    def __init__(self, sqs: Sqs, clock: Clock, name: str) -> None:
        self._sqs = sqs
        self._name = name
        self._url = ""
        self._letters: dict[str, Letter] = {}  # those to be deleted, by receipt
        self._delete = Joint(clock, self._deleted, _DELETED)

    async def receive(self) -> Sequence[Letter]:
        """See the port."""
        return await self._sqs.receive(await self._place())

    async def delete(self, letter: Letter) -> None:
        """See the port; ten go in one call."""
        self._letters[letter.receipt] = letter
        await self._delete.ask(letter.receipt)

    async def _place(self) -> str:
        if not self._url:
            try:
                self._url = await self._sqs.get_queue_url(self._name)
            except AwsError as error:
                if error.refusal is not Refusal.NOT_FOUND:
                    raise
                message = f"there is no queue {self._name!r}: --interruption-queue names it"
                raise AwsError(error.action, error.code, message) from error
        return self._url

    async def _deleted(self, receipts: Sequence[str]) -> Mapping[str, bool]:
        letters = [self._letters.pop(receipt) for receipt in receipts]
        await self._sqs.delete(await self._place(), letters)
        return dict.fromkeys(receipts, True)
