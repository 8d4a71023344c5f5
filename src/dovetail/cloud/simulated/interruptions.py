"""How the simulated cloud takes machines away: it warns through a queue first, as the real one does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dovetail.base.clock import MINUTE, Clock
from dovetail.base.eventlog import EventLog
from dovetail.cloud import eventbridge
from dovetail.cloud.interruption import InterruptionKind, instance_id
from dovetail.cloud.twin import MemoryQueue

NOTICE = 2 * MINUTE  # between the warning and the end of spot and reserved capacity
_ENDS_LATER = (InterruptionKind.SPOT, InterruptionKind.RESERVATION)
_ENDS_NOW = (InterruptionKind.STOPPED, InterruptionKind.TERMINATED)


class Interrupter:
    """Interrupts instances: warns, and ends those that the cloud really takes.

    `lose` is told the provider id of an instance that is gone from now on.
    """

    def __init__(self, clock: Clock, log: EventLog, queue: MemoryQueue, lose: Callable[[str], None]) -> None:
        self._clock = clock
        self._log = log
        self._queue = queue
        self._lose = lose
        self._ends: set[asyncio.Task[None]] = set()

    def interrupt(self, provider_id: str, kind: InterruptionKind) -> None:
        """It happens now."""
        now = self._clock.now()
        self._log.record("instance.interrupted", instance=provider_id, kind=str(kind))
        self._queue.send(eventbridge.write(kind, instance_id(provider_id), now))
        if kind in _ENDS_NOW:
            self._lose(provider_id)
        elif kind in _ENDS_LATER:
            task = asyncio.get_running_loop().create_task(
                self._end(provider_id), name=f"cloud: take {provider_id} away"
            )
            self._ends.add(task)
            task.add_done_callback(self._ends.discard)

    async def _end(self, provider_id: str) -> None:
        await self._clock.sleep(NOTICE)
        self._lose(provider_id)
