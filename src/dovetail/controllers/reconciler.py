"""A keyed work queue: what every controller that goes object by object is made of."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import Conflict, DovetailError
from dovetail.base.eventlog import EventLog

_FIRST_DELAY = SECOND // 10
_LONGEST_DELAY = 10 * SECOND


class Reconciler:
    """Runs `reconcile` for the keys that were added, first come first served, one run per key at a time.

    A key added while it runs gets one more run. A DovetailError means "try again later", with a delay that
    doubles from 100 ms to 10 s; any other error is a bug and ends `run`. Subclasses write `reconcile`.
    """

    name = "reconciler"
    concurrency = 100  # keys that may run at once

    def __init__(self, clock: Clock, log: EventLog) -> None:
        self.clock = clock
        self.log = log
        self._queue: deque[str] = deque()
        self._queued: dict[str, None] = {}  # Invariant: the keys in `_queue`.
        self._running: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, None] = {}  # keys added while they ran
        self._timers: dict[str, tuple[int, asyncio.Task[None]]] = {}  # key -> (instant, who waits for it)
        self._failures: dict[str, int] = {}  # failed runs in a row
        self._bug: BaseException | None = None
        self._news = asyncio.Event()

    async def reconcile(self, key: str) -> int | None:
        """Bring one object forward; answers the nanoseconds after which to look again, or None."""
        raise NotImplementedError

    def add(self, key: str) -> None:
        """Run the key soon."""
        if key in self._running:
            self._again[key] = None
        elif key not in self._queued:
            self._queued[key] = None
            self._queue.append(key)
            self._news.set()

    def add_after(self, key: str, nanoseconds: int) -> None:
        """Run the key after a while; an earlier wish for the same key stands. Needs a running loop."""
        instant = self.clock.now() + nanoseconds
        waiting = self._timers.get(key)
        if waiting is not None:
            if waiting[0] <= instant:
                return
            waiting[1].cancel()
        task = _spawn(self._later(key, nanoseconds), f"{self.name} waits for {key}")
        self._timers[key] = (instant, task)

    async def run(self) -> None:
        """Work for ever; raises what was a bug in `reconcile`."""
        try:
            while True:
                self._news.clear()
                self._start()
                await self._news.wait()
                if self._bug is not None:
                    raise self._bug
        finally:
            for task in (*self._running.values(), *(task for _, task in self._timers.values())):
                task.cancel()

    def _start(self) -> None:
        while self._queue and len(self._running) < self.concurrency:
            key = self._queue.popleft()
            del self._queued[key]
            # This run's own answer replaces every earlier wish to look again.
            waiting = self._timers.pop(key, None)
            if waiting is not None:
                waiting[1].cancel()
            self._running[key] = _spawn(self._work(key), f"{self.name} {key}")

    async def _work(self, key: str) -> None:
        delay: int | None = None
        try:
            delay = await self.reconcile(key)
            self._failures.pop(key, None)
        except DovetailError as error:
            delay = self._back_off(key, error)
        except Exception as error:
            error.add_note(f"while {self.name} reconciled {key}")
            self._bug = error
        finally:
            self._running.pop(key, None)
            self._news.set()
        if key in self._again:
            del self._again[key]
            self.add(key)
        elif delay is not None:
            self.add_after(key, delay)

    def _back_off(self, key: str, error: DovetailError) -> int:
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        # A conflict only says that somebody else was faster; the next look settles it.
        if not isinstance(error, Conflict):
            self.log.record("reconcile.failed", controller=self.name, key=key, message=str(error))
        return min(_FIRST_DELAY << min(count, 10), _LONGEST_DELAY)

    async def _later(self, key: str, nanoseconds: int) -> None:
        await self.clock.sleep(nanoseconds)
        self._timers.pop(key, None)
        self.add(key)


def _spawn(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work, name=name)
